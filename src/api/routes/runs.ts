import { z } from 'zod'
import type { Context } from '../../context.ts'
import { runEnded } from '../../contract/status.ts'
import { readSessionRun } from '../../governance/agents/run-record.ts'
import { hashOf } from '../../governance/canonical.ts'
import { notFound } from '../../governance/errors.ts'
import { objectInParts } from '../../governance/json-parts.ts'
import { actOnce } from '../../governance/idempotency.ts'
import type { Caller } from '../../governance/identity.ts'
import { acceptRun } from '../../governance/runs/accept.ts'
import { cancelRun } from '../../governance/runs/cancel.ts'
import { listRuns } from '../../governance/runs/read.ts'
import { readRunFields, type RunFields } from '../../governance/runs/run-parts.ts'
import { labelSlug } from '../../policy/text.ts'
import { mostLabels, tooManyLabels } from '../../policy/types.ts'
import type { JsonObject } from '../../policy/types.ts'
import { filter, instant, wholeNumber } from '../query.ts'
import { accepted, ok, route, type Route } from '../route.ts'
import { anyJson, listOf, listQuery } from '../schemas/common.ts'
import { execution, run, runStatus, runSummary } from '../schemas/runs.ts'
import { waitForEnd } from '../wait.ts'

const tag = 'Runs'

const inputLabels = z
  .record(z.string(), z.array(labelSlug).max(100))
  .refine((all) => Object.values(all).flat().length <= mostLabels, tooManyLabels('has'))
  .describe('labels that inputs carry into every step that refers to them, by the name of the input')

export const postExecute = route({
  key: 'POST /workflows/{id}/execute',
  summary: 'Start a run of a frozen version and wait a while for its end',
  description:
    '200 with the outputs once the run is over, 202 with its present status when `wait` has passed.',
  tag,
  query: z.object({ wait: wholeNumber(0, 60).default(10) }),
  bodyLimit: 8 * 1024 * 1024,
  bodyValues: 100_000,
  body: z.strictObject({
    inputs: z
      .record(z.string(), anyJson)
      .default({})
      .describe(
        '`{"from_run", "step", "path"?}` is the output of a completed step of a run that you can see, with its labels',
      ),
    input_labels: inputLabels.optional(),
    files: z.array(z.string()).max(0, 'there is no such file').optional(),
    time_zone: z.string().min(1).max(100).optional(),
    version: z.int().min(1).max(1_000_000_000).optional(),
  }),
  responses: { 200: execution, 202: execution },
  async handle({ context, caller, params, query, body, idempotencyKey, once, signal }) {
    const request = {
      caller,
      workflowId: params.id,
      inputs: body.inputs as JsonObject,
      inputLabels: body.input_labels,
      timeZone: body.time_zone,
      version: body.version,
      // With the body: the key may be used for something else once its 24 hours are over.
      idempotencyKey: idempotencyKey === null ? undefined : hashOf([caller.keyId, idempotencyKey, body]),
      once,
    }
    const { runId } = await actOnce(once, () => acceptRun(context, request))
    await waitForEnd(context, runId, query.wait, signal)
    const view = await runOf(context, caller, runId)
    return (runEnded(view.status) ? ok : accepted)(objectInParts(executionOf(view)))
  },
})

function executionOf(view: RunFields) {
  return {
    execution_id: view.id,
    status: view.status,
    status_reason: view.status_reason,
    waiting_for: view.waiting_for,
    outputs: view.outputs,
    result: view.result,
    duration_ms: view.duration_ms ?? Math.max(0, Date.now() - Date.parse(view.started_at ?? view.created_at)),
    nodes_executed: view.nodes_executed,
    nodes_failed: view.nodes_failed,
  }
}

export async function runOf(context: Context, caller: Caller, runId: string): Promise<RunFields> {
  const view = await readRunFields(context, caller.organizationId, runId)
  if (view === null) throw notFound('run', runId)
  return view
}

const runsQuery = z.object({
  ...listQuery.shape,
  workflow_id: filter.optional(),
  status: runStatus.optional(),
  requested_by: filter.optional(),
  since: instant.optional(),
  until: instant.optional(),
})

/** The specification names runs in two ways; both answer alike. */
function runRoutesAt(root: 'runs' | 'executions'): Route[] {
  return [
    route({
      key: `GET /${root}`,
      summary: 'Runs, newest first, without their data',
      tag,
      query: runsQuery,
      responses: { 200: listOf(runSummary) },
      async handle({ context, caller, query }) {
        const { limit, cursor = null, organization_id: _, ...filters } = query
        return ok(await listRuns(context, caller.organizationId, filters, { limit, cursor }))
      },
    }),
    route({
      key: `GET /${root}/{id}`,
      summary: 'A run, and why it has not started or what it waits for',
      tag,
      responses: { 200: run },
      async handle({ context, caller, params }) {
        const { organizationId } = caller
        const view =
          (await readRunFields(context, organizationId, params.id)) ??
          (await readSessionRun(context, organizationId, params.id))
        if (view === null) throw notFound('run', params.id)
        return ok(objectInParts(view))
      },
    }),
    route({
      key: `POST /${root}/{id}/cancel`,
      summary: 'Cancel a run: your own, or as an admin any',
      tag,
      body: z.strictObject({}),
      responses: { 200: run },
      async handle({ context, caller, params, once }) {
        await actOnce(once, () => cancelRun(context, { caller, runId: params.id, once }))
        return ok(objectInParts(await runOf(context, caller, params.id)))
      },
    }),
  ]
}

export const runRoutes: readonly Route[] = [...runRoutesAt('runs'), ...runRoutesAt('executions')]

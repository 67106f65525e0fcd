import { z } from 'zod'
import type { Context } from '../../governance/context.ts'
import { runEnded } from '../../contract/status.ts'
import { readSessionRun } from '../../governance/agents/run-record.ts'
import { hashOf } from '../../shared/canonical-json.ts'
import { notFound } from '../../governance/errors.ts'
import { objectInParts } from '../../shared/json-parts.ts'
import { actOnce } from '../../governance/idempotency.ts'
import type { Caller } from '../../governance/access/identity.ts'
import { acceptRun } from '../../governance/runs/start/accept.ts'
import { cancelRun } from '../../governance/runs/end/cancel.ts'
import { listRuns } from '../../governance/runs/read/read.ts'
import { readRunFields, type RunFields } from '../../governance/runs/read/run-parts.ts'
import type { JsonObject } from '../../policy/types.ts'
import { inputsBodyLimit } from '../json-body.ts'
import { filter, instant, wholeNumber } from '../query.ts'
import { accepted, ok, route, type Route } from '../route.ts'
import { listOf, listQuery } from '../schemas/common.ts'
import { cancelBody, execution, executeBody, run, runStatus, runSummary } from '../schemas/runs.ts'
import { waitForEnd } from '../wait.ts'

const tag = 'Runs'

export const postExecute = route({
  key: 'POST /workflows/{id}/execute',
  summary: 'Start a run of a frozen version and wait for its end',
  description:
    '200 with the outputs if the run ends within `wait` seconds, else 202 with its present status.',
  tag,
  query: z.object({ wait: wholeNumber(0, 60).default(10) }),
  bodyLimit: inputsBodyLimit,
  body: executeBody,
  responses: { 200: execution, 202: execution },
  async handle({ context, caller, params, query, body, idempotencyKey, once, signal, leaveShare }) {
    const request = {
      caller,
      workflowId: params.id,
      inputs: body.inputs as JsonObject,
      inputLabels: body.input_labels,
      files: body.files,
      timeZone: body.time_zone,
      version: body.version,
      // The same `Idempotency-Key` may be used again with another body after 24 hours. So the body is part of the hash.
      idempotencyKey: idempotencyKey === null ? undefined : hashOf([once?.sender, idempotencyKey, body]),
      once,
    }
    const { runId } = await actOnce(once, () => acceptRun(context, request))
    leaveShare()
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
    changed_since_your_last_run: view.changed_since_your_last_run,
  }
}

export async function runOf(
  context: Pick<Context, 'db' | 'isTemporalAway' | 'sealer' | 'runCaches'>,
  caller: Caller,
  runId: string,
): Promise<RunFields> {
  const view = await readRunFields(context, caller.organizationId, runId, caller)
  if (view === null) throw notFound('run', runId)
  return view
}

const runsQuery = z.object({
  ...listQuery.shape,
  workflow_id: filter.optional(),
  status: runStatus.optional(),
  requested_by: filter.optional(),
  workflow_name: filter.optional().describe('part of the workflow’s name, in upper or lower case'),
  requester_email: filter.optional().describe('part of the requester’s address, in upper or lower case'),
  since: instant.optional(),
  until: instant.optional(),
})

/** Each route of runs has two addresses with the same answers, below `/runs` and below `/executions`. */
function runRoutesAt(root: 'runs' | 'executions'): Route[] {
  return [
    route({
      key: `GET /${root}`,
      summary: 'Runs without their data, newest first',
      tag,
      query: runsQuery,
      responses: { 200: listOf(runSummary) },
      async handle({ context, caller, query }) {
        const { limit, cursor = null, organization_id: _, ...filters } = query
        return ok(
          await listRuns(context, caller.organizationId, filters, {
            limit,
            cursor,
          }),
        )
      },
    }),
    route({
      key: `GET /${root}/{id}`,
      summary: 'A run, with the reason why it has not started or the approvals it waits for',
      description:
        'Without `limit` and `cursor` it has all steps and their outputs. With one of them it has a page of both, and `next_cursor` leads to the next page.',
      tag,
      query: z.object({ limit: wholeNumber(1, 200).optional(), cursor: filter.optional() }),
      responses: { 200: run },
      async handle({ context, caller, params, query: { limit, cursor = null } }) {
        const { organizationId } = caller
        const isWhole = limit === undefined && cursor === null
        const found = await readRunFields(context, organizationId, params.id, caller, { limit, cursor })
        if (found !== null) return ok(objectInParts(found))
        const session = await readSessionRun(context.db, organizationId, params.id)
        if (session === null) throw notFound('run', params.id)
        return ok(objectInParts({ ...session, ...(isWhole ? {} : { next_cursor: null }) }))
      },
    }),
    route({
      key: `POST /${root}/{id}/cancel`,
      summary: 'Cancel your own run, or any run as an admin',
      tag,
      body: cancelBody,
      responses: { 200: run },
      async handle({ context, caller, params, body, once }) {
        const { reason } = body
        await actOnce(once, () => cancelRun(context, { caller, runId: params.id, reason, once }))
        return ok(objectInParts(await runOf(context, caller, params.id)))
      },
    }),
  ]
}

export const runRoutes: readonly Route[] = [...runRoutesAt('runs'), ...runRoutesAt('executions')]

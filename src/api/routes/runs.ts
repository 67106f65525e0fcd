import { sql } from 'kysely'
import { z } from 'zod'
import type { Context, UnsealingRuns } from '../../governance/context.ts'
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
import type { JsonObject, Json } from '../../policy/types.ts'
import { inputsBodyLimit } from '../json-body.ts'
import { filter, instant, wholeNumber } from '../query.ts'
import { accepted, ok, tagged } from '../route.ts'
import type { Inner } from '../subjects.ts'
import {
  approver,
  approvers,
  called,
  listOf,
  listQuery,
  anyJson,
  destination,
  id,
  labels,
  riskLevel,
  side,
  verdict,
  named,
} from '../schemas/common.ts'
import {
  cancelBody,
  executeBody,
  resolveBody,
  draftBody,
  previewBody,
  rerunBody,
} from '../schemas/run-requests.ts'
import {
  execution,
  cancelledExample,
  executionExample,
  receiptExample,
  runExample,
  summaryExample,
  run,
  runStatus,
  runSummary,
  receipt,
  stepCall,
  versionChange,
} from '../schemas/runs.ts'
import { pageWith, story } from '../schemas/example.ts'
import { waitForRun } from '../wait.ts'
import { getRunEvents } from './run-events.ts'
import { requireValues } from '../../governance/approvals/sight.ts'
import { readCalls } from '../../governance/runs/read/calls.ts'
import { readOutputParts } from '../../governance/runs/read/output-parts.ts'
import { readReceipt } from '../../governance/runs/read/receipt.ts'
import { rerun } from '../../governance/runs/start/rerun.ts'
import { resolveStep } from '../../calls/runs/resolve.ts'
import { previewRun } from '../../governance/runs/start/preview.ts'

const { route } = tagged('Runs')

export const postExecute = route({
  key: 'POST /workflows/{id}/execute',
  needs: { scope: 'runs:write', role: 'member', subject: 'workflow' },
  audit: ['workflow.execute', 'approval.requested'],
  summary: 'Start a run of a frozen version and wait for its end',
  description:
    '200 with the outputs if the run ends within `wait` seconds. 202 with its present status when it waits for a person, and after these seconds.',
  query: z.object({ wait: wholeNumber(0, 60).default(10) }),
  bodyLimit: inputsBodyLimit,
  body: executeBody,
  example: { body: { inputs: runExample.inputs }, answers: { 202: executionExample } },
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
      // The same `Idempotency-Key` may be used again with another body after 24 hours.
      idempotencyKey: idempotencyKey === null ? undefined : hashOf([once?.sender, idempotencyKey, body]),
      once,
    }
    const { runId } = await actOnce(once, () => acceptRun(context, request))
    leaveShare()
    await waitForRun(context, runId, query.wait, signal)
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
  context: UnsealingRuns & Pick<Context, 'isTemporalAway'>,
  caller: Caller,
  runId: string,
): Promise<RunFields> {
  const view = await readRunFields(context, caller, runId)
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

function runRoutesAt(root: 'runs' | 'executions') {
  return [
    route({
      key: `GET /${root}`,
      needs: { scope: 'runs:read', role: 'viewer', subject: 'own' },
      summary: 'Runs without their data, newest first',
      query: runsQuery,
      example: root === 'runs' ? { answers: { 200: pageWith(summaryExample) } } : undefined,
      responses: { 200: listOf(runSummary) },
      async handle({ context, caller, query }) {
        const { limit, cursor = null, organization_id: _, ...filters } = query
        return ok(await listRuns(context, caller.organizationId, filters, { limit, cursor }))
      },
    }),
    route({
      key: `GET /${root}/{id}`,
      needs: { scope: 'runs:read', role: 'viewer', subject: 'run' },
      summary: 'A run, with the reason why it has not started or the approvals it waits for',
      description:
        'Without `limit` and `cursor` it has all steps and their outputs. With one of them it has a page of both, and `next_cursor` leads to the next page.',
      query: z.object({ limit: wholeNumber(1, 200).optional(), cursor: filter.optional() }),
      example: root === 'runs' ? { answers: { 200: runExample } } : undefined,
      responses: { 200: run },
      async handle({ context, caller, params, query: { limit, cursor = null } }) {
        const { organizationId } = caller
        const isWhole = limit === undefined && cursor === null
        const found = await readRunFields(context, caller, params.id, { limit, cursor })
        if (found !== null) return ok(objectInParts(found))
        const session = await readSessionRun(context.db, organizationId, params.id)
        if (session === null) throw notFound('run', params.id)
        return ok(objectInParts({ ...session, ...(isWhole ? {} : { next_cursor: null }) }))
      },
    }),
    route({
      key: `POST /${root}/{id}/cancel`,
      needs: { scope: 'runs:write', role: 'member', subject: 'run' },
      audit: ['workflow.cancel', 'workflow.execute'],
      summary: 'Cancel your own run, or any run as an admin',
      body: cancelBody,
      example: root === 'runs' ? { body: {}, answers: { 200: cancelledExample } } : undefined,
      responses: { 200: run },
      async handle({ context, caller, params, body, once }) {
        const { reason } = body
        await actOnce(once, () => cancelRun(context, { caller, runId: params.id, reason, once }))
        return ok(objectInParts(await runOf(context, caller, params.id)))
      },
    }),
  ]
}

export const runRoutes = [...runRoutesAt('runs'), ...runRoutesAt('executions')]

const oneStep: Inner = {
  word: 'step',
  param: 'step',
  exists: ({ params }) =>
    sql`exists (select from run_steps where run_id = ${params['id']} and step_id = ${params['step']})`,
}

export const runDetailRoutes = [
  route({
    key: 'POST /runs/{id}/rerun',
    needs: { scope: 'runs:write', role: 'member', subject: 'run' },
    audit: ['workflow.execute', 'approval.requested'],
    summary: 'Run again from an ended run; a call that was made is not made again with the same parameters',
    description:
      'A completed step is not made again if its definition and what it reads are equal: the new run takes its output, with its labels. Nobody’s approval counts for the new run. Another person’s run only as an admin, who then is its requester.',
    bodyLimit: inputsBodyLimit,
    body: rerunBody,
    example: {
      body: { inputs: runExample.inputs },
      answers: { 202: { ...runExample, rerun_of: story.run } },
    },
    responses: { 202: run },
    async handle({ context, caller, params, body, idempotencyKey, once }) {
      const request = {
        caller,
        runId: params.id,
        from: body.from,
        version: body.version,
        inputs: body.inputs as JsonObject,
        onRepeat: body.on_repeat,
        unknownHappened: body.unknown_outcomes === undefined ? null : body.unknown_outcomes === 'happened',
        idempotencyKey:
          idempotencyKey === null ? undefined : hashOf([once?.sender, idempotencyKey, params.id, body]),
        once,
      }
      const { runId } = await actOnce(once, () => rerun(context, request))
      return accepted(objectInParts(await runOf(context, caller, runId)))
    },
  }),
  route({
    key: 'GET /runs/{id}/authorization',
    needs: { scope: 'runs:read', role: 'viewer', subject: 'run' },
    summary: 'The receipt: every decision with its rule, labels, approval and outcome',
    description:
      'Without `limit` and `cursor` the answer is whole. With one of them it is a page, and `next_cursor` leads to the next.',
    query: z.object({
      limit: wholeNumber(1, 200).optional(),
      cursor: filter.optional(),
      order: z.enum(['oldest', 'newest']).default('oldest').describe('`newest` is always a page'),
    }),
    example: { answers: { 200: receiptExample } },
    responses: { 200: receipt },
    async handle({ context, caller, params, query: { limit, cursor = null, order } }) {
      const page = { limit, cursor, isNewestFirst: order === 'newest' }
      return ok(await readReceipt(context.db, caller.organizationId, params.id, page))
    },
  }),
  getRunEvents,
  route({
    key: 'GET /runs/{id}/steps/{step}/output',
    needs: { scope: 'runs:read', role: 'viewer', subject: 'run' },
    inner: [oneStep],
    summary: 'The whole output of a step; for a `for_each` step the list of its items’ outputs',
    responses: { 200: anyJson },
    async handle({ context, caller, params }) {
      await requireValues(context.db, caller, params.id)
      return ok(await readOutputParts(context, caller.organizationId, params.id, params.step))
    },
  }),
  route({
    key: 'GET /runs/{id}/steps/{step}/calls',
    needs: { scope: 'runs:read', role: 'viewer', subject: 'run' },
    inner: [oneStep],
    summary: 'The calls of a step, with their parameters and errors, in the order of the items',
    description:
      'A step without `for_each` has one call. People who may not see values get `values_hidden` in place of `params`, `item` and `error.detail`. ' +
      'A page ends early when its parameters take more than 8 MiB.',
    query: z.object({ limit: wholeNumber(1, 200).default(50), cursor: filter.optional() }),
    responses: { 200: listOf(stepCall) },
    handle: async ({ context, caller, params, query: { limit, cursor = null } }) =>
      ok(await readCalls(context, caller, { runId: params.id, stepId: params.step }, { limit, cursor })),
  }),
  route({
    key: 'POST /runs/{id}/steps/{step}/resolve',
    needs: { scope: 'approvals:decide', role: 'admin', subject: 'run' },
    inner: [oneStep],
    audit: ['tool_call.resolved', 'tool_call.failed', 'tool_call.completed'],
    summary: 'Resolve a call whose outcome is unknown',
    description:
      '`retry` makes the call again, `done` counts it as completed, `fail` as failed. Without `item_index`, `item_indexes` and `all`: the call of a step without `for_each`.',
    body: resolveBody,
    responses: { 200: run },
    async handle({ context, caller, params, body, once }) {
      await actOnce(once, () =>
        resolveStep(context, {
          caller,
          runId: params.id,
          stepId: params.step,
          items: body.all === true ? 'all' : (body.item_indexes ?? body.item_index ?? null),
          attempt: body.attempt,
          outcome: body.outcome,
          output: body.output as Json | undefined,
          once,
        }),
      )
      return ok(objectInParts(await runOf(context, caller, params.id)))
    },
  }),
]

const certainty = z.enum(['definite', 'possible'])
const sentence = z.string().nullable()

const step = z.strictObject({
  step_id: z.string(),
  kind: z.string().describe('`tool`, or another kind of step, such as `wait`'),
  tool: z.string().nullable().describe('null: the step calls no tool'),
  side_effect: side.nullable(),
  waits: z
    .string()
    .nullable()
    .describe('what a step `wait` or `ask` waits for, in the words of its definition'),
  destination,
  verdict: verdict.describe('the strictest verdict that the step can get'),
  certainty: certainty.describe('`definite`: every run gets this verdict'),
  at_least: verdict.describe(
    'the least strict verdict that the step can get; a skipped step counts as allowed',
  ),
  runs: z.enum(['certainly', 'possibly', 'never']),
  labels: z.strictObject({
    definite: labels.describe('every run brings them to the step'),
    possible: labels.describe('some run brings them to the step; contains the definite ones'),
    others_from: z
      .array(z.string())
      .describe('steps and inputs (`input.NAME`) that can bring further labels, which nothing declares'),
    left_out: z.int().min(0).describe('labels of a very large plan that are not shown'),
  }),
  rules: z.array(
    z.strictObject({
      rule_id: id,
      name: z.string(),
      verdict,
      certainty,
      because: z.string().describe('one sentence'),
      shadow: z.boolean().describe('true: the rule is recorded and never enforced'),
    }),
  ),
  rules_left_out: z.int().min(0).describe('matching rules of a very large plan that are not shown'),
  role_policy: z
    .strictObject({
      verdict: z.literal('deny'),
      certainty,
      reason: z.string(),
      explanation: z.string(),
    })
    .nullable()
    .describe(
      'what tool policies say against the call for your role, or for the role of an author of the step',
    ),
  frozen: sentence.describe('why a freeze denies every call of the step; null without a freeze'),
  checked_during_call: z
    .array(z.string())
    .describe('limits of tool policies that only the call itself can check, one sentence each'),
  connected: z.boolean(),
  available: z.boolean(),
  unavailable_because: sentence,
  resolved: z
    .strictObject({
      condition: z
        .boolean()
        .nullable()
        .describe('whether `when` holds; null: it depends on what is not known'),
      calls: z
        .array(z.record(z.string(), anyJson))
        .describe('parameters of the call, or of each item; what is not known stays as it is written'),
      left_out: z.int().min(0),
    })
    .nullable()
    .describe('only with `mocks`'),
})

export const previewedStep = called('PreviewedStep', step)
const preview = named('AuthorizationPreview', {
  verdict: verdict.describe('the strictest verdict of all steps'),
  executable: z.boolean().describe('false: `execute` would answer `run_denied`'),
  not_executable_because: sentence,
  unknown_inputs: z.array(z.string()),
  run_approval: z.strictObject({
    required: z.boolean().describe('every run would wait for approval before it starts'),
    certainty: certainty.describe(
      '`possible`: some runs would wait and others would not; inputs or dates that are not known decide',
    ),
    risk_level: riskLevel.describe('the least risk that a run can have'),
    highest_risk_level: riskLevel.describe('the highest risk that a run can have'),
    reasons: z.array(z.string()).describe('hold for every run'),
    possible_reasons: z.array(z.string()).describe('hold for some runs, each with what decides'),
    approver: approver
      .nullable()
      .describe('the strictest that a run can need; null if no run would wait, or if only groups decide'),
    approvals_needed: z.int().nullable(),
    approvers: approvers.describe('who must approve, at the strictest; empty if no run would wait'),
  }),
  steps: z.array(previewedStep),
  changed_since_your_last_run: versionChange.describe(
    'a version that another person saved and you have not run yet',
  ),
})

export const postDraftPreview = route({
  key: 'POST /workflows/preview',
  needs: { scope: 'workflows:read', role: 'member', subject: 'own' },
  asks: true,
  summary: 'Ask what would be decided for every step of a draft, without saving or running anything',
  description: 'As `POST /workflows/{id}/authorization-preview`, for a workflow that does not exist yet.',
  bodyLimit: inputsBodyLimit,
  bodyValues: 40_000,
  body: draftBody,
  responses: { 200: preview },
  async handle({ context, caller, body }) {
    const request = {
      caller,
      workflowId: null,
      inputs: body.inputs as JsonObject | undefined,
      inputLabels: body.input_labels,
      files: body.files,
      mocks: body.mocks as JsonObject | undefined,
      definition: body.definition,
    }
    return ok(await previewRun(context, request))
  },
})

export const postPreview = route({
  key: 'POST /workflows/{id}/authorization-preview',
  needs: { scope: 'workflows:read', role: 'viewer', subject: 'workflow' },
  asks: true,
  summary: 'Ask what would be decided for every step of a run, without running anything',
  description:
    'Without `inputs` their values are unknown. `definition` is previewed in place of a saved version, and checked as on save.',
  bodyLimit: inputsBodyLimit,
  bodyValues: 40_000,
  body: previewBody,
  responses: { 200: preview },
  async handle({ context, caller, params, body }) {
    const request = {
      caller,
      workflowId: params.id,
      inputs: body.inputs as JsonObject | undefined,
      inputLabels: body.input_labels,
      files: body.files,
      mocks: body.mocks as JsonObject | undefined,
      version: body.version,
      definition: body.definition,
    }
    return ok(await previewRun(context, request))
  },
})

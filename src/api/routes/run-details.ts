import { z } from 'zod'
import { objectInParts } from '../../governance/json-parts.ts'
import { actOnce } from '../../governance/idempotency.ts'
import { readOutputParts } from '../../governance/runs/output-parts.ts'
import { readReceipt } from '../../governance/runs/receipt.ts'
import { resolveStep } from '../../governance/runs/resolve.ts'
import type { Json } from '../../policy/types.ts'
import { filter, wholeNumber } from '../query.ts'
import { ok, route } from '../route.ts'
import { anyJson } from '../schemas/common.ts'
import { receipt, run } from '../schemas/runs.ts'
import { runOf } from './runs.ts'

export const getReceipt = route({
  key: 'GET /runs/{id}/authorization',
  summary: 'The receipt: every decision with its rule, labels, approval and outcome',
  description:
    'Whole without `limit` and `cursor`; with one of them so many decisions, and `next_cursor` for those that follow.',
  tag: 'Runs',
  query: z.object({ limit: wholeNumber(1, 200).optional(), cursor: filter.optional() }),
  responses: { 200: receipt },
  async handle({ context, caller, params, query: { limit, cursor = null } }) {
    return ok(await readReceipt(context, caller.organizationId, params.id, { limit, cursor }))
  },
})

export const getStepOutput = route({
  key: 'GET /runs/{id}/steps/{step}/output',
  summary: 'The whole output of a step; of a `for_each` step the list of its items’',
  tag: 'Runs',
  responses: { 200: anyJson },
  async handle({ context, caller, params }) {
    return ok(await readOutputParts(context, caller.organizationId, params.id, params.step))
  },
})

export const postResolve = route({
  key: 'POST /runs/{id}/steps/{step}/resolve',
  summary: 'Say what became of a call whose outcome nobody knows',
  description: '`retry` makes the call again, `done` takes it as completed, `fail` as failed.',
  tag: 'Runs',
  body: z.strictObject({
    item_index: z.int().min(0).max(10_000).nullable().optional(),
    outcome: z.enum(['retry', 'done', 'fail']),
    output: anyJson.optional(),
  }),
  responses: { 200: run },
  async handle({ context, caller, params, body, once }) {
    await actOnce(once, () =>
      resolveStep(context, {
        caller,
        runId: params.id,
        stepId: params.step,
        itemIndex: body.item_index ?? null,
        outcome: body.outcome,
        output: body.output as Json | undefined,
        once,
      }),
    )
    return ok(objectInParts(await runOf(context, caller, params.id)))
  },
})

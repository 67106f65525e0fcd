import { z } from 'zod'
import { objectInParts } from '../../shared/json-parts.ts'
import { actOnce } from '../../governance/idempotency.ts'
import { readCalls, requireOutputs } from '../../governance/runs/read/calls.ts'
import { readOutputParts } from '../../governance/runs/read/output-parts.ts'
import { readReceipt } from '../../governance/runs/read/receipt.ts'
import { resolveStep } from '../../calls/runs/resolve.ts'
import type { Json } from '../../policy/types.ts'
import { filter, wholeNumber } from '../query.ts'
import { ok, route } from '../route.ts'
import { anyJson, listOf } from '../schemas/common.ts'
import { receipt } from '../schemas/receipts.ts'
import { resolveBody, run, stepCall } from '../schemas/runs.ts'
import { runOf } from './runs.ts'

export const getReceipt = route({
  key: 'GET /runs/{id}/authorization',
  summary: 'The receipt: every decision with its rule, labels, approval and outcome',
  description:
    'Without `limit` and `cursor` the answer is whole. With one of them it is a page, and `next_cursor` leads to the next.',
  tag: 'Runs',
  query: z.object({
    limit: wholeNumber(1, 200).optional(),
    cursor: filter.optional(),
    order: z.enum(['oldest', 'newest']).default('oldest').describe('`newest` is always a page'),
  }),
  responses: { 200: receipt },
  async handle({ context, caller, params, query: { limit, cursor = null, order } }) {
    const page = { limit, cursor, isNewestFirst: order === 'newest' }
    return ok(await readReceipt(context.db, caller.organizationId, params.id, page))
  },
})

export const getStepOutput = route({
  key: 'GET /runs/{id}/steps/{step}/output',
  summary: 'The whole output of a step; for a `for_each` step the list of its items’ outputs',
  tag: 'Runs',
  responses: { 200: anyJson },
  async handle({ context, caller, params }) {
    await requireOutputs(context.db, caller, params.id)
    return ok(await readOutputParts(context, caller.organizationId, params.id, params.step))
  },
})

export const getStepCalls = route({
  key: 'GET /runs/{id}/steps/{step}/calls',
  summary: 'The calls of a step, with their parameters and errors, in the order of the items',
  description:
    'A step without `for_each` has one call. The requester of the run and admins see `params`, `item` and `error.detail`. ' +
    'A page ends early when its parameters take more than 8 MiB.',
  tag: 'Runs',
  query: z.object({ limit: wholeNumber(1, 200).default(50), cursor: filter.optional() }),
  responses: { 200: listOf(stepCall) },
  async handle({ context, caller, params, query: { limit, cursor = null } }) {
    return ok(await readCalls(context, caller, { runId: params.id, stepId: params.step }, { limit, cursor }))
  },
})

export const postResolve = route({
  key: 'POST /runs/{id}/steps/{step}/resolve',
  summary: 'Resolve a call whose outcome is unknown',
  description:
    '`retry` makes the call again, `done` counts it as completed, `fail` as failed. Without `item_index`, `item_indexes` and `all`: the call of a step without `for_each`.',
  tag: 'Runs',
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
})

import { z } from 'zod'
import { listApprovals, readApproval } from '../../governance/approvals/read.ts'
import { readDetail } from '../../governance/approvals/detail.ts'
import { listResolutions, readResolution } from '../../governance/approvals/resolutions.ts'
import { readWaitingSummary } from '../../governance/approvals/summary.ts'
import { vote, type VoteRequest } from '../../governance/approvals/vote.ts'
import { DomainError } from '../../governance/errors.ts'
import { actOnce } from '../../governance/idempotency.ts'
import { filter, flag } from '../query.ts'
import { ok, route, type Call } from '../route.ts'
import { listOf, listQuery, riskLevel } from '../schemas/common.ts'
import { approval, approveBody, rejectBody, waitingSummary } from '../schemas/approvals.ts'
import { approvalStatus, waitingKind } from '../schemas/runs.ts'

const tag = 'Approvals'

export const getApprovals = route({
  key: 'GET /approvals',
  summary: 'Approvals, newest first; with `mine=true` those that you may decide',
  description:
    '`kind=resolution` lists the calls of open runs whose outcome is unknown, by run, with the route that resolves each. No other list has them.',
  tag,
  query: z.object({
    ...listQuery.shape,
    status: approvalStatus.optional(),
    kind: waitingKind.optional(),
    run_id: filter.optional(),
    mine: flag.optional(),
    rule_id: filter.optional(),
    requested_by: filter.optional(),
    // A new schema without the message of the setting `approval_required_from`, which may also be null.
    risk: z.enum(riskLevel.options).optional(),
  }),
  responses: { 200: listOf(approval) },
  async handle({ context, caller, query }) {
    const { limit, cursor = null, organization_id: _, ...filters } = query
    const page = { limit, cursor }
    if (filters.kind !== 'resolution')
      return ok(await listApprovals(context, caller, { ...filters, kind: filters.kind }, page))
    // A call with an unknown outcome is always pending and has no rule, and its risk is not stored. So a filter for
    // another status, for a rule or for a risk matches no such call.
    const isEmpty =
      (filters.status !== undefined && filters.status !== 'pending') ||
      filters.rule_id !== undefined ||
      filters.risk !== undefined
    return ok(
      isEmpty ? { data: [], next_cursor: null } : await listResolutions(context, caller, filters, page),
    )
  },
})

export const getWaitingSummary = route({
  key: 'GET /organizations/{id}/approvals/summary',
  summary: 'How many approvals wait, by kind, rule, requester and risk',
  description:
    'Each list has the values that `GET /approvals?status=pending` can be filtered by, at most 100, the most frequent first.',
  tag,
  responses: { 200: waitingSummary },
  async handle({ context, caller }) {
    return ok(await readWaitingSummary(context.db, caller.organizationId))
  },
})

export const getApproval = route({
  key: 'GET /approvals/{id}',
  summary: 'One approval; reading it decides nothing',
  tag,
  responses: { 200: approval },
  async handle({ context, caller, params }) {
    if (isResolution(params.id)) return ok(await readResolution(context, caller, params.id))
    const read = await readApproval(context, caller, params.id)
    return ok({ ...read, detail: await readDetail(context, caller, params.id) })
  },
})

/**
 * True if the id names a call with an unknown outcome, such as `RUN/STEP/ITEM`. The id of an approval contains no `/`.
 */
const isResolution = (id: string): boolean => id.includes('/')

async function notByVote(...read: Parameters<typeof readResolution>): Promise<DomainError> {
  const { resolve_with } = await readResolution(...read)
  return new DomainError(
    'bad_transition',
    `an unknown outcome has no votes: resolve it with \`${resolve_with}\``,
  )
}

export const postApprove = route({
  key: 'POST /approvals/{id}/approve',
  summary: 'Approve this exact call',
  tag,
  body: approveBody,
  responses: { 200: approval },
  handle: ({ body, ...call }) => decide(call, { decision: 'approve', comment: body.comment }),
})

export const postReject = route({
  key: 'POST /approvals/{id}/reject',
  summary: 'Reject this call; one rejection decides',
  tag,
  body: rejectBody,
  responses: { 200: approval },
  handle: ({ body, ...call }) =>
    decide(call, {
      decision: 'reject',
      comment: body.comment ?? body.reason ?? '',
      changesRequested: body.request_changes,
    }),
})

async function decide(
  {
    context,
    caller,
    params,
    once,
  }: Pick<Call<'POST /approvals/{id}'>, 'context' | 'caller' | 'params' | 'once'>,
  given: Pick<VoteRequest, 'decision' | 'comment' | 'changesRequested'>,
) {
  if (isResolution(params.id)) throw await notByVote(context, caller, params.id)
  await actOnce(once, () => vote(context, { caller, approvalId: params.id, once, ...given }))
  return ok(await readApproval(context, caller, params.id))
}

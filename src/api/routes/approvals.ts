import { z } from 'zod'
import { listApprovals, readApproval } from '../../governance/approvals/read.ts'
import { vote } from '../../governance/approvals/vote.ts'
import { actOnce } from '../../governance/idempotency.ts'
import { textField } from '../../policy/text.ts'
import { filter, flag } from '../query.ts'
import { ok, route } from '../route.ts'
import { listOf, listQuery } from '../schemas/common.ts'
import { approval, approvalKind, approvalStatus } from '../schemas/runs.ts'

const tag = 'Approvals'

export const getApprovals = route({
  key: 'GET /approvals',
  summary: 'Approvals, newest first; with `mine=true` those that you may decide',
  tag,
  query: z.object({
    ...listQuery.shape,
    status: approvalStatus.optional(),
    kind: approvalKind.optional(),
    run_id: filter.optional(),
    mine: flag.optional(),
  }),
  responses: { 200: listOf(approval) },
  async handle({ context, caller, query }) {
    const { limit, cursor = null, organization_id: _, ...filters } = query
    return ok(await listApprovals(context, caller, filters, { limit, cursor }))
  },
})

export const getApproval = route({
  key: 'GET /approvals/{id}',
  summary: 'One approval; reading it decides nothing',
  tag,
  responses: { 200: approval },
  async handle({ context, caller, params }) {
    return ok(await readApproval(context, caller, params.id))
  },
})

const decide = (decision: 'approve' | 'reject') =>
  route({
    key: `POST /approvals/{id}/${decision}`,
    summary: decision === 'approve' ? 'Approve exactly this call' : 'Reject it, which decides at once',
    tag,
    body: z.strictObject({ comment: textField(2000, 0).default('') }),
    responses: { 200: approval },
    async handle({ context, caller, params, body, once }) {
      await actOnce(once, () =>
        vote(context, { caller, approvalId: params.id, decision, comment: body.comment, once }),
      )
      return ok(await readApproval(context, caller, params.id))
    },
  })

export const postApprove = decide('approve')
export const postReject = decide('reject')

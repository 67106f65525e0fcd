import type { Selectable } from 'kysely'
import type { Context } from '../../context.ts'
import type { ApprovalsTable } from '../../db/schema/runs.ts'
import type { Role } from '../../policy/types.ts'
import type { ChainTx } from '../chain-tx.ts'
import { DomainError, notFound } from '../errors.ts'
import type { Once } from '../idempotency.ts'
import { actorOf, type Caller } from '../identity.ts'
import { expireNow, wakeOf } from './expire.ts'
import { countingVotes, mayDecide } from './requirement.ts'
import { runAs, type PresentCaller } from '../standing.ts'

export interface VoteRequest {
  readonly caller: Caller
  readonly approvalId: string
  readonly decision: 'approve' | 'reject'
  readonly comment: string
  readonly once?: Once | null
}

/** At most this many people are named in a refusal. */
const mostNamed = 3

type Approval = Selectable<ApprovalsTable>

/**
 * One person's vote (contract section 6; commit point `approval.vote`). Refused: `approval_already_decided`,
 * `approval_expired` (by the database's clock), `not_an_approver`, `self_approval`, `conflict` for a second vote of the
 * same person. A rejection decides at once; an approval when enough votes count.
 */
export async function vote(context: Context, request: VoteRequest): Promise<void> {
  const { caller, approvalId } = request
  const refused = await runAs(context, caller, 'approval.vote', async (tx, now) => {
    const approval = await tx.trx
      .selectFrom('approvals')
      .selectAll()
      .where('id', '=', approvalId)
      .where('organization_id', '=', caller.organizationId)
      .executeTakeFirst()
    if (approval === undefined) throw notFound('approval', approvalId)
    if (approval.status === 'expired') throw expired(approval)
    if (approval.status !== 'pending')
      throw new DomainError('approval_already_decided', `the approval is \`${approval.status}\` already`)
    if (approval.expires_at !== null && approval.expires_at <= tx.now) {
      // Must be saved although the vote is refused: thrown only after the commit.
      await expireNow(tx, approval)
      return expired(approval)
    }
    await refuseWrongVoter(tx, await now(), approval)
    await countVote(tx, request, approval)
    await request.once?.markActed(tx.trx)
    return null
  })
  if (refused !== null) throw refused
}

const expired = ({ kind }: Approval): DomainError =>
  new DomainError(
    'approval_expired',
    `the approval has expired: ${kind === 'agent_call' ? 'the agent must ask again' : 'run the workflow again'}`,
  )

async function refuseWrongVoter(tx: ChainTx, caller: PresentCaller, approval: Approval): Promise<void> {
  if (!mayDecide(caller.role, approval.approver))
    throw new DomainError('not_an_approver', `this approval needs the role \`${approval.approver}\``)
  if (approval.requested_by === caller.userId && !tx.policy.settings.allow_self_approval)
    throw new DomainError('self_approval', await whoElse(tx, caller, approval.approver))
  const voted = await tx.trx
    .selectFrom('approval_votes')
    .select('decision')
    .where('approval_id', '=', approval.id)
    .where('user_id', '=', caller.userId)
    .executeTakeFirst()
  if (voted !== undefined) throw new DomainError('conflict', 'you have voted on this approval already')
}

/** A refusal that ends at itself leaves the requester asking around: it names people who can decide. */
async function whoElse(tx: ChainTx, caller: Caller, approver: 'admin' | 'owner'): Promise<string> {
  const members = await tx.trx
    .selectFrom('memberships as m')
    .innerJoin('users as u', 'u.id', 'm.user_id')
    .select(['u.email', 'm.role'])
    .where('m.organization_id', '=', caller.organizationId)
    .where('m.user_id', '<>', caller.userId)
    .where('m.role', 'in', ['admin', 'owner'])
    .orderBy('u.email')
    .execute()
  const able = members.filter(({ role }) => mayDecide(role, approver)).map(({ email }) => `\`${email}\``)
  const own = 'your own request is decided by someone else'
  if (able.length === 0)
    return `${own}, and nobody else has the role \`${approver}\`: add a person who has, or set \`allow_self_approval\``
  const more = able.length > mostNamed ? ` or ${able.length - mostNamed} more` : ''
  return `${own}: ask ${able.slice(0, mostNamed).join(' or ')}${more}`
}

async function countVote(tx: ChainTx, request: VoteRequest, approval: Approval): Promise<void> {
  const { caller, decision } = request
  await tx.trx
    .insertInto('approval_votes')
    .values({
      approval_id: approval.id,
      user_id: caller.userId,
      decision,
      comment: request.comment,
      at: tx.now,
    })
    .execute()
  const needed = Math.max(approval.approvals_needed, tx.policy.settings.approval_threshold)
  const counting = decision === 'reject' ? 0 : await countApproving(tx, approval)
  const status = decision === 'reject' ? 'rejected' : counting >= needed ? 'approved' : 'pending'
  tx.append({
    eventType: { rejected: 'approval.rejected', approved: 'approval.granted', pending: 'approval.voted' }[
      status
    ],
    action: decision,
    status,
    actor: actorOf(caller),
    workflowId: approval.workflow_id,
    runId: approval.run_id,
    metadata: {
      approval_id: approval.id,
      step_id: approval.step_id,
      counting,
      needed,
      params_hash: approval.params_hash,
    },
  })
  if (status === 'pending') return
  await tx.trx
    .updateTable('approvals')
    .set({ status, decided_at: tx.now })
    .where('id', '=', approval.id)
    .execute()
  tx.touched.add(approval.id)
  if (approval.run_id === null) return
  tx.event(approval.run_id, 'approval.decided', { approval_id: approval.id, status })
  tx.deliver('run.wake', approval.run_id, wakeOf(approval))
}

async function countApproving(tx: ChainTx, approval: Approval): Promise<number> {
  const votes = await tx.trx
    .selectFrom('approval_votes as v')
    .leftJoin('memberships as m', (join) =>
      join.onRef('m.user_id', '=', 'v.user_id').on('m.organization_id', '=', approval.organization_id),
    )
    .select(['v.user_id', 'v.decision', 'm.role'])
    .where('v.approval_id', '=', approval.id)
    .execute()
  const roles = new Map(
    votes.flatMap((each) => (each.role === null ? [] : [[each.user_id, each.role] as [string, Role]])),
  )
  return countingVotes(
    { votes, requested_by: approval.requested_by },
    approval.approver,
    roles,
    tx.policy.settings,
  )
}

import { sql } from 'kysely'
import type { ChainTx } from '../audit/chain-tx.ts'
import { DomainError, notFound } from '../errors.ts'
import type { Once } from '../idempotency.ts'
import { actorOf, type Caller } from '../access/identity.ts'
import { runAs, type Acting } from '../access/recheck.ts'
import { expireNow } from './expire.ts'
import { decideByVote, writeAtOnce } from './moves.ts'
import { loadApproval, type ApprovalRecord } from './records.ts'
import { countingVotes, mayDecide, requirementOf, voteRefusal, type VoteWithRole } from './requirement.ts'
import { isDue } from './state.ts'

export interface VoteRequest {
  readonly caller: Caller
  readonly approvalId: string
  readonly decision: 'approve' | 'reject'
  readonly comment: string
  readonly once?: Once | null
}

/** The most people that a refusal names. */
const mostNamed = 3

/**
 * Saves one person's vote (commit point `approval.vote`). A rejection decides at once; an approval when enough votes
 * count. Throws `not_found`, `approval_already_decided`, `approval_expired` (by the database's clock),
 * `not_an_approver`, `self_approval`, or `conflict` for a second vote of the same person.
 */
export async function vote(context: Acting, request: VoteRequest): Promise<void> {
  const { caller, approvalId } = request
  const refused = await runAs(context, caller, 'approval.vote', async (tx, now) => {
    const found = await loadApproval(
      tx,
      sql`id = ${approvalId} and organization_id = ${caller.organizationId}`,
    )
    if (found === null) throw notFound('approval', approvalId)
    const { approval } = found
    if (approval.status === 'expired') throw expired(approval)
    if (approval.status !== 'pending')
      throw new DomainError('approval_already_decided', `the approval is already \`${approval.status}\``)
    if (isDue(approval, tx.now)) {
      // Returned, not thrown: the expiry must commit although the vote is refused.
      expireNow(tx, approval)
      return expired(approval)
    }
    const { role } = await now()
    const own = { user_id: caller.userId, decision: request.decision, role }
    await refuseWrongVoter(tx, own, approval)
    await countVote(tx, request, approval, [...found.votes, own])
    await request.once?.markActed(tx.trx)
    return null
  })
  if (refused !== null) throw refused
}

const expired = ({ kind }: ApprovalRecord): DomainError =>
  new DomainError(
    'approval_expired',
    `the approval has expired: ${kind === 'agent_call' ? 'the agent must ask again' : 'run the workflow again'}`,
  )

async function refuseWrongVoter(tx: ChainTx, voter: VoteWithRole, approval: ApprovalRecord): Promise<void> {
  const { approver, requested_by } = approval
  const refusal = voteRefusal(voter, requested_by, requirementOf(approval, tx.policy.settings))
  if (refusal === 'not_an_approver')
    throw new DomainError(refusal, `you need the role \`${approver}\` to decide this approval`)
  if (refusal === 'self_approval')
    throw new DomainError(refusal, await selfApprovalMessage(tx, voter.user_id, approver))
  if (approval.votes.some(({ user_id }) => user_id === voter.user_id))
    throw new DomainError('conflict', 'you have already voted on this approval')
}

/** The refusal of a self-approval. It names people who can decide. */
async function selfApprovalMessage(
  tx: ChainTx,
  userId: string,
  approver: 'admin' | 'owner',
): Promise<string> {
  const members = await tx.trx
    .selectFrom('memberships as m')
    .innerJoin('users as u', 'u.id', 'm.user_id')
    .select(['u.email', 'm.role'])
    .where('m.organization_id', '=', tx.organizationId)
    .where('m.user_id', '<>', userId)
    .where('m.role', 'in', ['admin', 'owner'])
    .orderBy('u.email')
    .execute()
  const able = members.filter(({ role }) => mayDecide(role, approver)).map(({ email }) => `\`${email}\``)
  const own = 'you cannot decide your own request'
  if (able.length === 0)
    return `${own}, and nobody else has the role \`${approver}\`: add a person with this role, or set \`allow_self_approval\``
  const more = able.length > mostNamed ? ` or ${able.length - mostNamed} more` : ''
  return `${own}: ask ${able.slice(0, mostNamed).join(' or ')}${more}`
}

async function countVote(
  tx: ChainTx,
  { caller, decision, comment }: VoteRequest,
  approval: ApprovalRecord,
  votes: readonly VoteWithRole[],
): Promise<void> {
  await tx.trx
    .insertInto('approval_votes')
    .values({ approval_id: approval.id, user_id: caller.userId, decision, comment, at: tx.now })
    .execute()
  const required = requirementOf(approval, tx.policy.settings)
  decideByVote(writeAtOnce(tx), approval, {
    actor: actorOf(caller),
    decision,
    counting: decision === 'reject' ? 0 : countingVotes(votes, approval.requested_by, required),
    needed: required.needed,
  })
}

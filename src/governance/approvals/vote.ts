import { sql } from 'kysely'
import type { ChainTx } from '../audit/chain-tx.ts'
import { DomainError, notFound } from '../errors.ts'
import type { Once } from '../idempotency.ts'
import { actorOf, type Caller } from '../access/identity.ts'
import { runAs, type Acting } from '../access/recheck.ts'
import { refuseEnded } from './expire.ts'
import { decideByVote, withdrawByRequester, writeAtOnce } from './moves.ts'
import { loadApproval, type ApprovalRecord } from './records.ts'
import { notByVote, voterRefusal } from './refusals.ts'
import { bestOf, countingVotes, requirementOf, type VoteWithRole } from './requirement.ts'
import { rightsOf } from './rights.ts'

/** What an approval of the kind `change` does, in the transaction of the vote (src/governance/applying/apply.ts). */
export type PrepareChange = (
  tx: ChainTx,
  approval: ApprovalRecord,
  approver: Caller,
) => Promise<{ readonly save: () => Promise<unknown> } | { readonly because: string }>

export interface VoteRequest {
  readonly caller: Caller
  readonly approvalId: string
  readonly decision: 'approve' | 'reject'
  readonly comment: string
  /** True if the voter rejects, and asks the requester to change something and ask again. */
  readonly changesRequested?: boolean
  readonly once?: Once | null
  readonly prepareChange: PrepareChange
}

/**
 * Commit point `approval.vote`. Throws `not_found`, `approval_already_decided`, `approval_expired` (by the
 * database's clock), `not_an_approver`, `self_approval`, and `conflict` for a second vote, except for an
 * approval if enough votes count now.
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
    const notVoted = notByVote(approval)
    if (notVoted !== null) throw notVoted
    const expired = refuseEnded(tx, approval)
    if (expired !== null) return expired
    const { role } = await now()
    const rights = await rightsOf(tx.trx, tx.organizationId, { ...caller, role }, sql`${tx.now}`)
    const required = requirementOf(approval, tx.policy.settings)
    const { kind, requested_by, authors } = approval
    const votes = { kind, requested_by, authors, votes: found.votes }
    const own = { ...bestOf(rights, votes, required), decision: request.decision }
    const refusal = await voterRefusal(tx.trx, tx.organizationId, own, votes, required)
    if (refusal !== null) throw refusal
    const change =
      approval.kind === 'change' && request.decision === 'approve'
        ? await request.prepareChange(tx, approval, caller)
        : null
    if (change !== null && 'because' in change) {
      withdrawByRequester(writeAtOnce(tx), approval, actorOf(caller), change.because)
      return new DomainError('conflict', `${change.because}: ask for the change again`)
    }
    await countVote(tx, request, own, found)
    if (change !== null && approval.status === 'approved') await change.save()
    await request.once?.markActed(tx.trx)
    return null
  })
  // The end of the approval is committed, so the error is thrown only now.
  if (refused !== null) throw refused
}

async function countVote(
  tx: ChainTx,
  { caller, decision, comment, changesRequested = false }: VoteRequest,
  own: VoteWithRole,
  { approval, tool, votes }: NonNullable<Awaited<ReturnType<typeof loadApproval>>>,
): Promise<void> {
  const isRepeated = votes.some(({ user_id }) => user_id === own.user_id)
  if (isRepeated && decision === 'reject')
    throw new DomainError('conflict', 'you have already approved: ask another approver to reject')
  // The stored vote stays: votes are evidence.
  if (!isRepeated)
    await tx.trx
      .insertInto('approval_votes')
      .values({
        approval_id: approval.id,
        user_id: caller.userId,
        for_user: own.for_user,
        decision,
        comment,
        changes_requested: changesRequested,
        at: tx.now,
      })
      .execute()
  const cast = isRepeated ? votes : [...votes, own]
  const required = requirementOf(approval, tx.policy.settings)
  decideByVote(writeAtOnce(tx), approval, {
    actor: actorOf(caller),
    forUser: isRepeated ? null : own.for_user,
    tool,
    decision,
    counting: decision === 'reject' ? 0 : countingVotes(cast, approval, required),
    needed: required.needed,
  })
}

import { sql } from 'kysely'
import type { Caller } from '../access/identity.ts'
import { actorOf } from '../access/identity.ts'
import { runAs, type Acting } from '../access/recheck.ts'
import { refuseEnded } from '../approvals/expire.ts'
import { withdrawByRequester, writeAtOnce } from '../approvals/moves.ts'
import { loadApproval } from '../approvals/records.ts'
import { notByVote } from '../approvals/refusals.ts'
import { DomainError, notFound } from '../errors.ts'
import type { Once } from '../idempotency.ts'

/**
 * Throws `not_found`, `not_an_approver` for another person's change, `bad_transition` for an approval of another kind,
 * `approval_already_decided` and `approval_expired`.
 */
export async function withdrawChange(
  context: Acting,
  caller: Caller,
  approvalId: string,
  once: Once | null,
): Promise<void> {
  const refused = await runAs(context, caller, 'approval.vote', async (tx) => {
    const found = await loadApproval(
      tx,
      sql`id = ${approvalId} and organization_id = ${caller.organizationId}`,
    )
    if (found === null) throw notFound('approval', approvalId)
    const { approval } = found
    const notVoted = notByVote(approval)
    if (notVoted !== null) throw notVoted
    if (approval.kind !== 'change')
      throw new DomainError(
        'bad_transition',
        'only a change is withdrawn here: cancel the run, or let the agent give up its call',
      )
    if (approval.requested_by !== caller.userId)
      throw new DomainError('not_an_approver', 'another person asked for this change: reject it instead')
    const expired = refuseEnded(tx, approval)
    if (expired !== null) return expired
    withdrawByRequester(writeAtOnce(tx), approval, actorOf(caller))
    await once?.markActed(tx.trx)
    return null
  })
  // The expiry is committed, so the error is thrown only now.
  if (refused !== null) throw refused
}

import { newId } from '../../contract/ids.ts'
import type { SideEffect, Verdict } from '../../policy/types.ts'
import type { ChainTx } from '../chain-tx.ts'
import { exceededEntry, type Exceeded } from '../quotas/run-quota.ts'
import type { AuthorizeOp } from './question.ts'

/** The answer to an agent (specification, "Decision"). */
export interface AgentDecision {
  readonly decision: Verdict
  /** The rule's name where a rule decided. */
  readonly reason: string
  readonly explanation: string
  readonly decision_id: string
  readonly session_run_id: string
  /** Of the session, as the call was decided on. */
  readonly labels: readonly string[]
  readonly side_effect: SideEffect
  readonly rule_name: string | null
  readonly approval_id?: string
  readonly expires_at?: string | null
}

/** A denial of which no decision is kept: there is no session it could belong to, or no room for it. */
export function unrecorded(reason: string, explanation: string): AgentDecision {
  return {
    decision: 'deny',
    reason,
    explanation,
    decision_id: newId('decision'),
    session_run_id: '',
    labels: [],
    side_effect: 'write',
    rule_name: null,
  }
}

/** How often an organization that is over its limit has that in its audit log again. */
const noteEveryMilliseconds = 3_600_000
const notedAt = new Map<string, number>()
const mostNoted = 10_000

/**
 * The denial of every question while the organization keeps more than `storage_mb`: a decision and its audit entry would be
 * kept for ever, so that they go unrecorded. An entry each hour and process says that this happened.
 */
export function withoutRoom(tx: ChainTx, over: Exceeded, op: AuthorizeOp): AgentDecision {
  const now = tx.now.getTime()
  if ((notedAt.get(tx.organizationId) ?? -Infinity) + noteEveryMilliseconds <= now) {
    if (notedAt.size >= mostNoted) notedAt.clear()
    notedAt.set(tx.organizationId, now)
    tx.append(exceededEntry(over, 'authorize', op.actor))
  }
  return unrecorded('storage limit', roomWords(over))
}

/** What an agent is told of a limit that denies its call. */
export const roomWords = ({ limit, value }: Exceeded): string =>
  limit === 'pending_approvals'
    ? `The organization is at its limit of ${value} approvals that wait for a person (\`pending_approvals\`): decide on some, or ask an owner to raise the limit.`
    : `The organization keeps more than its limit of ${value} MiB (\`storage_mb\`): delete something, or ask an owner to raise the limit.`

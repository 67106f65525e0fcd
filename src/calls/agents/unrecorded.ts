import { newId } from '../../contract/ids.ts'
import type { SideEffect, Verdict } from '../../policy/types.ts'
import type { ChainTx } from '../../governance/audit/chain-tx.ts'
import { exceededEntry, type Exceeded } from '../../governance/limits/run-quota.ts'
import type { AuthorizeOp } from './question.ts'

/** The answer to an agent. */
export interface AgentDecision {
  readonly decision: Verdict
  /** The rule's name if a rule decided, else a fixed reason. */
  readonly reason: string
  readonly explanation: string
  readonly decision_id: string
  readonly session_run_id: string
  /** The session's labels that the decision used. */
  readonly labels: readonly string[]
  readonly side_effect: SideEffect
  readonly rule_name: string | null
  readonly approval_id?: string
  readonly expires_at?: string | null
}

/** Makes a denial that is not stored as a decision, e.g. because no storage is left. */
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

/**
 * While an organization is over its storage limit, a process waits this many milliseconds between two audit entries
 * about the limit.
 */
const noteEveryMilliseconds = 3_600_000

/**
 * Returns the denial of a question. The organization stores more than `storage_mb`, so every question is denied.
 * Decisions would stay in the database for ever, so these denials are not stored. But each process writes an audit
 * entry about the limit at most once an hour.
 */
export function denyOverStorageLimit(tx: ChainTx, over: Exceeded, op: AuthorizeOp): AgentDecision {
  const now = tx.now.getTime()
  const notedAt = op.limitNotedAt
  if ((notedAt.get(tx.organizationId) ?? -Infinity) + noteEveryMilliseconds <= now) {
    notedAt.set(tx.organizationId, now)
    tx.append(exceededEntry(over, 'authorize', op.actor))
  }
  return unrecorded('storage limit', limitExplanation(over))
}

/** Returns the explanation of a denial for the agent, if the organization has reached a limit. */
export const limitExplanation = ({ limit, value }: Exceeded): string =>
  limit === 'pending_approvals'
    ? `The organization is at its limit of ${value} approvals that wait for a person (\`pending_approvals\`): decide on some, or ask an owner to raise the limit.`
    : `The organization stores more than its limit of ${value} MiB (\`storage_mb\`): delete something, or ask an owner to raise the limit.`

import type { Decided } from '../../policy/decide.ts'
import type { JsonObject, Label, SideEffect, Verdict } from '../../policy/types.ts'
import type { ChainTx } from '../../governance/audit/chain-tx.ts'
import type { Actor } from '../../governance/audit/entry.ts'
import type { SessionCache } from '../../governance/access/session-cache.ts'
import type { ReadCall } from './classify.ts'
import type { AgentLedger, CallKey, PriorDecision, SessionRecord } from './ledger.ts'
import { newId } from '../../contract/ids.ts'
import { exceededEntry, type Exceeded } from '../../governance/limits/run-quota.ts'

/*
 * The stages of one call of an agent. What its name and input say (`ReadCall`, classify.ts); what the agent asks
 * (`AskedCall`); the question under the lock (`LockedCall`); the decision (`DecidedCall`) and the answer. The row of an
 * earlier decision is `PriorDecision` (ledger.ts).
 */

/** An agent's question about one call. The question is prepared before the chain lock is taken. */
export interface AskedCall {
  readonly key: CallKey
  readonly agent: { readonly name: string; readonly kind: string }
  readonly actor: Extract<Actor, { type: 'user' }>
  /** The organization that the request names; null if it names none. */
  readonly named: string | null
  readonly call: ReadCall
  readonly params: JsonObject
  /** The hash of the tool and its arguments alone; null if `key.paramsHash` covers nothing else. */
  readonly inputHash: string | null
  /** The number of characters of the input. */
  readonly weight: number
  /** Seals the parameters for the approvers. */
  readonly seal: (approvalId: string) => Buffer
  /** Whether a person with an unconfirmed address is refused. */
  readonly mustBeConfirmed: boolean
  /**
   * An approval expires after this many seconds, unless the rule that required the approval sets another time. 0 means
   * that the approval never expires.
   */
  readonly approvalSeconds: number
  readonly limitNotedAt: SessionCache['limitNotedAt']
}

/** A question while it is decided. */
export interface LockedCall {
  readonly tx: ChainTx
  readonly ledger: AgentLedger
  readonly op: AskedCall
  readonly session: SessionRecord
  /** An earlier decision on the same call. Is null if there is none, or if the call has finished. */
  readonly earlier: PriorDecision | null
  readonly sideEffect: SideEffect
  /**
   * The labels that the decision uses. These are the session's present labels. But if the call was allowed earlier,
   * these are the labels of that earlier decision, because the call cannot contain data that the session got later. If
   * the gateway asks about a call of the hook's session, the labels of the gateway's session are added (authorize.ts).
   */
  readonly labels: readonly Label[]
  /** The id of the decision on this call. If the call is held, the log line about its approval contains this id. */
  readonly decisionId: string
}

/**
 * A decision with the approval of its call. `approvalId` is null if there is no approval. `expiresAt` is null if the
 * approval is not pending or never expires.
 */
export interface DecidedCall extends Decided {
  readonly approvalId: string | null
  readonly expiresAt: string | null
}

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
export function denyOverStorageLimit(tx: ChainTx, over: Exceeded, op: AskedCall): AgentDecision {
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

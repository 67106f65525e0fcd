import type { Decided } from '../../policy/decide.ts'
import type { JsonObject, Label, SideEffect, Verdict } from '../../policy/types.ts'
import type { ChainTx } from '../../governance/audit/chain-tx.ts'
import type { Actor } from '../../governance/audit/entry.ts'
import type { SessionCache } from '../../governance/access/identity.ts'
import type { Seal } from '../../governance/sealing/sealer.ts'
import type { ReadCall } from './classify.ts'
import type { AgentLedger, CallKey, PriorDecision, SessionRecord } from './ledger.ts'
import { newId } from '../../contract/ids.ts'
import { exceededEntry, type Exceeded } from '../../governance/limits/run-quota.ts'

/*
 * The stages of one call of an agent: its name and input (`ReadCall`, classify.ts), the question
 * (`AskedCall`), the question under the lock (`LockedCall`), and the decision (`DecidedCall`).
 * `PriorDecision` (ledger.ts) is an earlier one.
 */

/** Prepared before the chain lock is taken. */
export interface AskedCall {
  readonly key: CallKey
  readonly agent: { readonly name: string; readonly kind: string }
  readonly actor: Extract<Actor, { type: 'user' }>
  /** Who made the key of a service account. */
  readonly keyMadeBy: string | null
  /** Null if the request names none. */
  readonly named: string | null
  readonly call: ReadCall
  readonly params: JsonObject
  /** Covers the tool and its arguments alone. Null if `key.paramsHash` covers nothing else. */
  readonly inputHash: string | null
  /** This is in characters of the input. */
  readonly weight: number
  readonly seal: Seal
  /** Its canonical JSON. */
  readonly input: string
  /** A person with an unconfirmed address is refused. */
  readonly mustBeConfirmed: boolean
  /** A rule that requires the approval can set another time. 0 means that the approval never expires. */
  readonly approvalSeconds: number
  readonly limitNotedAt: SessionCache['limitNotedAt']
}

export interface LockedCall {
  readonly tx: ChainTx
  readonly ledger: AgentLedger
  readonly op: AskedCall
  readonly session: SessionRecord
  /** Null if there is none, or if the call has finished. */
  readonly earlier: PriorDecision | null
  readonly sideEffect: SideEffect
  /**
   * The session's present labels. A call that was allowed earlier keeps the labels of that decision, because
   * it cannot contain data that the session got later. The gateway's session adds its labels (authorize.ts).
   */
  readonly labels: readonly Label[]
  readonly decisionId: string
}

/** `expiresAt` is null if the approval is not pending or never expires. */
export interface DecidedCall extends Decided {
  readonly approvalId: string | null
  readonly expiresAt: string | null
}

export interface AgentDecision {
  readonly decision: Verdict
  /** The rule's name if a rule decided, else a fixed reason. */
  readonly reason: string
  readonly explanation: string
  readonly decision_id: string
  readonly session_run_id: string
  /** These are the session's labels that the decision used. */
  readonly labels: readonly string[]
  readonly side_effect: SideEffect
  readonly rule_name: string | null
  readonly approval_id?: string
  readonly expires_at?: string | null
}

/** The denial is not stored as a decision, e.g. because no storage is left. */
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

/** A process waits so long between two audit entries about the storage limit. */
const noteEveryMilliseconds = 3_600_000

/** These denials are not stored, because decisions would stay in the database for ever. */
export function denyOverStorageLimit(tx: ChainTx, over: Exceeded, op: AskedCall): AgentDecision {
  const now = tx.now.getTime()
  const notedAt = op.limitNotedAt
  if ((notedAt.get(tx.organizationId) ?? -Infinity) + noteEveryMilliseconds <= now) {
    notedAt.set(tx.organizationId, now)
    tx.append(exceededEntry(over, 'authorize', op.actor))
  }
  return unrecorded('storage limit', limitExplanation(over))
}

export const limitExplanation = ({ limit, value }: Exceeded): string =>
  limit === 'pending_approvals'
    ? `The organization is at its limit of ${value} approvals that wait for a person (\`pending_approvals\`): decide on some, or ask an owner to raise the limit.`
    : `The organization stores more than its limit of ${value} MiB (\`storage_mb\`): delete something, or ask an owner to raise the limit.`

import type { Decided } from '../../policy/decide.ts'
import type { JsonObject, Label, SideEffect } from '../../policy/types.ts'
import type { ChainTx } from '../../governance/audit/chain-tx.ts'
import type { Actor } from '../../governance/audit/entry.ts'
import type { SessionCache } from '../../governance/access/session-cache.ts'
import type { ReadCall } from './classify.ts'
import type { AgentLedger, CallKey, PriorDecision, SessionRecord } from './ledger.ts'

/** An agent's question about one call. The question is prepared before the chain lock is taken. */
export interface AuthorizeOp {
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
export interface Question {
  readonly tx: ChainTx
  readonly ledger: AgentLedger
  readonly op: AuthorizeOp
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
export interface Judged extends Decided {
  readonly approvalId: string | null
  readonly expiresAt: string | null
}

import type { Decided } from '../../policy/decide.ts'
import type { JsonObject, Label, SideEffect } from '../../policy/types.ts'
import type { Actor } from '../audit.ts'
import type { ReadCall } from './classify.ts'
import type { CallKey, PriorDecision, SessionRecord } from './ledger.ts'

/** One call that an agent asks about, read before the lock. */
export interface AuthorizeOp {
  readonly key: CallKey
  readonly agent: { readonly name: string; readonly kind: string }
  readonly actor: Extract<Actor, { type: 'user' }>
  /** The organization the request names, if any. */
  readonly named: string | null
  readonly call: ReadCall
  readonly params: JsonObject
  /** Characters of the input. */
  readonly weight: number
  /** Seals the parameters for the people who decide on this approval. */
  readonly seal: (approvalId: string) => Buffer
  /** Whether a person whose address is not confirmed is refused. */
  readonly mustBeConfirmed: boolean
  /** How long an approval waits unless its rule says otherwise; 0 = for ever. */
  readonly approvalSeconds: number
}

/** A question as it is being decided. */
export interface Question {
  readonly op: AuthorizeOp
  readonly session: SessionRecord
  /** The same call, asked about before and not yet finished. */
  readonly earlier: PriorDecision | null
  readonly sideEffect: SideEffect
  /** What it is decided on. A call that was let through on fewer labels cannot hold what the session has got since. */
  readonly labels: readonly Label[]
}

/** A decision with the approval it is about. */
export interface Judged extends Decided {
  readonly approvalId: string | null
  readonly expiresAt: string | null
}

import type { ToolDeclaration } from '../../../catalog/tool.ts'
import type { EffectKey } from '../../../contract/effect-key.ts'
import type { LabelSource, StepError } from '../../../db/schema/runs.ts'
import type { JsonObject, Label, Role } from '../../../policy/types.ts'
import type { Installation } from '../../tools/connections.ts'

/** The state of the thing that a call would change and of its connection, sealed for the call's next approval. */
export interface Seen {
  readonly approvalId: string
  readonly sealed: Buffer
}

/** A call of a run that is to be decided. */
export interface StepOp {
  readonly key: EffectKey
  readonly tool: ToolDeclaration
  /** false: the step's `when` does not hold, so the outcome is `skipped` without a decision. */
  readonly wanted: boolean
  /**
   * Whether the parameters were not read, because the run was cancelled or the organization is frozen: the call can
   * only end.
   */
  readonly isUnread?: boolean
  /** The reason why the call cannot be made (templates, parameters, no executor); the outcome is `failed`. */
  readonly problem: StepError | null
  /** Resolved parameters with the address for `me`, before defaults: for the rules and the tool. */
  readonly params: JsonObject
  /** The same parameters, checked and with defaults; absent if they were not checked yet. */
  readonly parsed?: JsonObject | undefined
  /** Hash of the sealed parameters, in which defaults and `me` are not filled in. */
  readonly paramsHash: string
  readonly paramLabels: ReadonlyMap<string, readonly Label[]>
  readonly sealed: Buffer
  readonly labels: Label[]
  readonly labelSources: LabelSource[]
  /** The installation's folder and mail server, for tools that need them. */
  readonly installation: Installation
  /** The state that was read for approvers; absent if it was not read. */
  readonly seen?: Seen | undefined
  /** The name of the part of that state that has changed since the call was approved. */
  readonly changed?: string
  /** Whether a person with an unconfirmed address is refused. */
  readonly mustBeConfirmed: boolean
  /** Seconds until an approval expires unless its rule says otherwise; 0 means never. */
  readonly approvalSeconds: number
}

/** The basis of a decision. While it is unchanged, a new decision would give the same answer. */
export interface Basis {
  readonly policyVersion: number
  /** The requester's role. */
  readonly role: Role
}

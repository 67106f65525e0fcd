import type { ToolDeclaration } from '../../../catalog/tool.ts'
import type { EffectKey } from '../../../contract/effect-key.ts'
import type { LabelSource, StepError } from '../../../db/schema/runs.ts'
import type { JsonObject, Label, Role } from '../../../policy/types.ts'
import type { Installation } from '../../tools/connections.ts'

/**
 * The sealed state that the approvers of a call see: the thing that the call would change, and the call's connection.
 * It is sealed for the approval with the id `approvalId`.
 */
export interface Seen {
  readonly approvalId: string
  readonly sealed: Buffer
}

/** A call of a run, prepared for its decision. */
export interface StepOp {
  readonly key: EffectKey
  readonly tool: ToolDeclaration
  /** false: the step's `when` does not hold, so the outcome is `skipped` without a decision. */
  readonly wanted: boolean
  /**
   * true: the parameters were not read, because the run was cancelled or the organization is frozen. The call can only
   * end.
   */
  readonly isUnread?: boolean
  /**
   * The reason why the call cannot be made, for example a wrong template or parameter. The outcome is then `failed`.
   */
  readonly problem: StepError | null
  /**
   * The resolved parameters, for the rules and the tool. `me` is replaced by the requester's address; defaults are not
   * filled in.
   */
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
  /** The state that approvers see; absent if it was not read. */
  readonly seen?: Seen | undefined
  /** Names the part of the shown state that has changed since the call was approved; absent if nothing has changed. */
  readonly changed?: string
  /** true: the call is refused if the person who started the run has not confirmed their mail address. */
  readonly mustBeConfirmed: boolean
  /** Seconds until an approval expires if its rule sets no other time; 0 means that the approval never expires. */
  readonly approvalSeconds: number
}

/** The basis of a decision. While it is unchanged, a new decision would give the same answer. */
export interface Basis {
  readonly policyVersion: number
  /** The requester's role. */
  readonly role: Role
}

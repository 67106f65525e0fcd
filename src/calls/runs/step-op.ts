import type { ToolDeclaration } from '../../tools/kit/tool.ts'
import type { EffectKey } from '../../contract/effect-key.ts'
import type { LabelSource, StepError } from '../../db/schema/runs.ts'
import type { JsonObject, Label, Role } from '../../policy/types.ts'
import type { Installation } from '../../governance/tools/connections.ts'

/**
 * The sealed state that the approvers of a call see: what the call would change, and the call's connection. The state
 * is sealed for the approval `approvalId`.
 */
export interface Seen {
  readonly approvalId: string
  readonly sealed: Buffer
}

/** A call of a run, prepared for its decision. */
export interface StepOp {
  readonly key: EffectKey
  readonly tool: ToolDeclaration
  /** Is false if the step's `when` is not true. The call is then `skipped` without a decision. */
  readonly wanted: boolean
  /**
   * Is true if the run was cancelled or the organization is frozen. In this case, the parameters were not read, and the
   * call can only end.
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
  /** The parameters in `params` after their check, with defaults filled in. Is absent if they were not checked yet. */
  readonly parsed?: JsonObject | undefined
  /** Hash of the sealed parameters, in which defaults and `me` are not filled in. */
  readonly paramsHash: string
  readonly paramLabels: ReadonlyMap<string, readonly Label[]>
  readonly sealed: Buffer
  readonly labels: Label[]
  readonly labelSources: LabelSource[]
  /** The installation's folder and mail server, for tools that need them. */
  readonly installation: Installation
  /** The state that approvers see. Is absent if this state was not read. */
  readonly seen?: Seen | undefined
  /**
   * Words for the part of the shown state that has changed since the call was approved. Is absent if nothing has
   * changed.
   */
  readonly changed?: string
  /** Whether the call is denied if the person who started the run has not confirmed their mail address. */
  readonly mustBeConfirmed: boolean
  /** Seconds until an approval expires if its rule sets no other time; 0 means that the approval never expires. */
  readonly approvalSeconds: number
}

/** The basis of a decision. As long as the basis does not change, a new decision gives the same answer. */
export interface Basis {
  readonly policyVersion: number
  /** The requester's role. */
  readonly role: Role
}

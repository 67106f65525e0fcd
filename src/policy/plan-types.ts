import type { Builtins } from './builtins.ts'
import type { Json, JsonObject, Label, SideEffect } from './types.ts'
import type { When } from './when.ts'

export interface PlanStep {
  readonly id: string
  /** The tool that the step calls. Null: the step makes no call, and `sideEffect` is null too. */
  readonly tool: string | null
  readonly sideEffect: SideEffect | null
  /**
   * The host to which the call goes; null if it stays here. Is undefined while it is not known, because the requester
   * has no connection.
   */
  readonly destination?: string | null | undefined
  /** The labels that the tool declares for its output. */
  readonly outputLabels: readonly Label[]
  /**
   * Whether the output can have labels that no tool and no rule declares, such as the labels stored with a value of the
   * memory.
   */
  readonly bringsOwnLabels?: boolean | undefined
  /** The parameters as the definition has them, with their templates. */
  readonly params: JsonObject
  /** The names of the parameters in which `me` stands for the requester. */
  readonly people?: readonly string[] | undefined
  /** Ids of all steps that this step waits for, because its `depends_on` or one of its templates names them. */
  readonly dependsOn: readonly string[]
  readonly when?: When | undefined
  readonly forEach?: Json | undefined
  readonly onError?: 'fail' | 'continue' | undefined
}

export interface Plan {
  /** The steps in any order. Their dependencies have no cycle. */
  readonly steps: readonly PlanStep[]
  /** Known inputs, with defaults filled in. */
  readonly inputs: JsonObject
  /**
   * Says what it means if `inputs` lacks an input. True: the input has no value, as in a run that is about to start.
   * False: the value is not known yet, as in a preview that was not given all inputs.
   */
  readonly areInputsComplete: boolean
  /**
   * The labels of each input, by the input's name. A step has the labels of each input to which it refers. A known
   * input that is not in this map has no labels. An unknown input can bring any label, because its value may later be
   * the output of another run.
   */
  readonly inputLabels?: ReadonlyMap<string, readonly Label[]> | undefined
  readonly builtins?: Builtins | undefined
  /** The address that `me` stands for; undefined if the requester is not known yet. */
  readonly requesterEmail?: string | undefined
}

export function isUnknownInput(plan: Pick<Plan, 'inputs' | 'areInputsComplete'>, name: string): boolean {
  return !plan.areInputsComplete && !Object.hasOwn(plan.inputs, name)
}

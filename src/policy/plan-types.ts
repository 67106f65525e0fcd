import type { Builtins } from './builtins.ts'
import type { Json, JsonObject, Label, SideEffect } from './types.ts'
import type { WhenOperator } from './when.ts'

export interface PlanStep {
  readonly id: string
  readonly tool: string
  readonly sideEffect: SideEffect
  /** Labels that the tool declares for its output. */
  readonly outputLabels: readonly Label[]
  /**
   * Whether the output can have labels that no tool and no rule declares, such as the labels stored with a value of the
   * memory.
   */
  readonly bringsOwnLabels?: boolean | undefined
  /** The parameters as the definition has them, with their templates. */
  readonly params: JsonObject
  /** Names of parameters in which `me` stands for the requester. */
  readonly people?: readonly string[] | undefined
  /** Ids of all steps that this step waits for. Its `depends_on` names them, or its templates refer to them. */
  readonly dependsOn: readonly string[]
  readonly when?:
    | {
        readonly value: Json
        readonly operator: WhenOperator
        readonly compare?: Json | undefined
      }
    | undefined
  readonly forEach?: Json | undefined
  readonly onError?: 'fail' | 'continue' | undefined
}

export interface Plan {
  /** The steps in any order. Their dependencies have no cycle. */
  readonly steps: readonly PlanStep[]
  /** Known inputs, with defaults filled in. */
  readonly inputs: JsonObject
  /**
   * True if inputs that are not given are absent, as in a run about to start. False if they are unknown, as in a
   * preview.
   */
  readonly areInputsComplete: boolean
  /**
   * The labels of inputs, by name. A step that refers to an input has the labels of this input. A known input that is
   * not in this map has no labels. An unknown input can bring any label, because it can be the output of another run.
   */
  readonly inputLabels?: ReadonlyMap<string, readonly Label[]> | undefined
  readonly builtins?: Builtins | undefined
  /** The address that `me` stands for; undefined if the requester is not known yet. */
  readonly requesterEmail?: string | undefined
}

export function isUnknownInput(plan: Pick<Plan, 'inputs' | 'areInputsComplete'>, name: string): boolean {
  return !plan.areInputsComplete && !Object.hasOwn(plan.inputs, name)
}

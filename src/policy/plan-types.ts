import type { Builtins } from './builtins.ts'
import type { Json, JsonObject, Label, SideEffect } from './types.ts'
import type { WhenOperator } from './when.ts'

export interface PlanStep {
  readonly id: string
  readonly tool: string
  readonly sideEffect: SideEffect
  /** Labels that the tool declares for its output. */
  readonly outputLabels: readonly Label[]
  /** The output can carry labels that nothing declares, e.g. those of a remembered value. */
  readonly bringsOwnLabels?: boolean | undefined
  /** With templates, as in the definition. */
  readonly params: JsonObject
  /** Names of parameters in which `me` stands for the requester. */
  readonly people?: readonly string[] | undefined
  /** All steps that this step waits for, whether named or referenced. */
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
  /** An acyclic graph, in any order. */
  readonly steps: readonly PlanStep[]
  /** Known inputs, with defaults filled in. */
  readonly inputs: JsonObject
  /** Whether inputs that are not given are absent (a run about to start) or unknown (a preview). */
  readonly areInputsComplete: boolean
  /**
   * Labels by input name; every step that refers to the input carries its labels. Other known inputs have no labels.
   * An unknown input can bring any label, because it can be the output of another run.
   */
  readonly inputLabels?: ReadonlyMap<string, readonly Label[]> | undefined
  readonly builtins?: Builtins | undefined
  /** The address that `me` stands for; undefined if the requester is not known yet. */
  readonly requesterEmail?: string | undefined
}

export function isUnknownInput(plan: Pick<Plan, 'inputs' | 'areInputsComplete'>, name: string): boolean {
  return !plan.areInputsComplete && !Object.hasOwn(plan.inputs, name)
}

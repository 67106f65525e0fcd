import type { Builtins } from './builtins.ts'
import type { Json, JsonObject, Label, SideEffect } from './types.ts'
import type { When } from './when.ts'

export interface PlanStep {
  readonly id: string
  /** Null: the step makes no call, and `sideEffect` is null too. */
  readonly tool: string | null
  readonly sideEffect: SideEffect | null
  /** Null if the call stays here; undefined while the requester has no connection. */
  readonly destination?: string | null | undefined
  /** As the tool declares them. */
  readonly outputLabels: readonly Label[]
  /** Labels that no tool and no rule declares, such as those stored with a value of the memory. */
  readonly bringsOwnLabels?: boolean | undefined
  /** With their templates. */
  readonly params: JsonObject
  /** The step makes no call: its output is `params`. */
  readonly isComputed?: boolean | undefined
  /** In these parameters, `me` stands for the requester. */
  readonly people?: readonly string[] | undefined
  /** Named in `depends_on` or in a template. */
  readonly dependsOn: readonly string[]
  readonly when?: When | undefined
  readonly forEach?: Json | undefined
  readonly onError?: 'fail' | 'continue' | undefined
  /** The step is skipped if all steps that it depends on were skipped. */
  readonly skipsWithOthers?: boolean | undefined
}

export interface Plan {
  /** In any order. Their dependencies have no cycle. */
  readonly steps: readonly PlanStep[]
  /** Known inputs, with defaults filled in. */
  readonly inputs: JsonObject
  /** True: an input that `inputs` lacks has no value. False: it is not known yet, as in a preview. */
  readonly areInputsComplete: boolean
  /**
   * A known input that is absent here has no labels. An unknown input can bring any label, because its value
   * may later be the output of another run.
   */
  readonly inputLabels?: ReadonlyMap<string, readonly Label[]> | undefined
  /** By the id of a step: its output, as a person assumes it in a preview. */
  readonly mocks?: ReadonlyMap<string, Json> | undefined
  readonly builtins?: Builtins | undefined
  /** For `me`; undefined if the requester is not known yet. */
  readonly requesterEmail?: string | undefined
}

export function isUnknownInput(plan: Pick<Plan, 'inputs' | 'areInputsComplete'>, name: string): boolean {
  return !plan.areInputsComplete && !Object.hasOwn(plan.inputs, name)
}

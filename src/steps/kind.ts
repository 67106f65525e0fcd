import type { z } from 'zod'
import type { Form } from '../contract/forms.ts'
import type { Issue } from '../contract/json.ts'
import type { PlanStep } from '../policy/plan-types.ts'
import type { Template } from '../policy/template-syntax.ts'
import type { JsonObject } from '../policy/types.ts'
import type { ToolCatalog, ToolDeclaration } from '../tools/kit/tool.ts'

/** The step of a definition, as a kind sees it: what all steps have, and the fields of this kind. */
export type StepOf<Fields extends z.ZodRawShape> = {
  readonly id: string
  readonly for_each?: unknown
} & z.infer<z.ZodObject<Fields>>

/** What is known when a definition is checked. `formOf` gives the form of a template (contract/forms.ts). */
export interface CheckScope {
  readonly catalog: ToolCatalog
  readonly formOf: (template: Template) => Form
}

/** What is known of a run when it is planned. */
export interface PlanScope {
  readonly catalog: ToolCatalog
  /** Where the requester's calls of a tool go. Null if they stay here, or if there is no connection. */
  readonly destinationOf: (tool: ToolDeclaration) => Destination | null
  /** Whether one of the values comes from a step or from an input that can have labels. */
  readonly takesResults: (values: JsonObject) => boolean
  /** The organization's setting `trust_answers`. */
  readonly trustsAnswers: boolean
}

interface Destination {
  readonly destination: string
  /** Whether the host is the service's own. */
  readonly ownHost: boolean
}

/** The part of a plan's step that depends on the kind. `tool` is null if the step makes no call. */
export type PlannedPart = Pick<
  PlanStep,
  | 'tool'
  | 'sideEffect'
  | 'destination'
  | 'outputLabels'
  | 'bringsOwnLabels'
  | 'params'
  | 'people'
  | 'isComputed'
>

/** What the Temporal workflow gets of a step of this kind. It never gets a value of the step. */
export interface SkeletonPart {
  /** The name of the activity that runs the step. */
  readonly activity: string
  /** Time limit of one attempt. */
  readonly timeoutSeconds: number
  /**
   * Whether the activity may run as a local activity. Such an activity runs again if its worker dies, and a workflow
   * task waits for its end. So it must allow repetition, and be short.
   */
  readonly isQuick: boolean
  /** Whether the activity usually takes milliseconds, so that a few items at the same time are enough. */
  readonly isShort: boolean
  /** The line in Temporal's UI if the step has no `summary`. */
  readonly title: string
}

/**
 * How a step runs:
 *
 * - `call`: the policy interceptor decides the call of the step's tool, and the tool's body runs.
 * - `pause`: nothing runs. `until` says when the step ends, from the resolved values and the time at which the step
 *   began. It throws TypeError with words for the author if the values give no such time.
 * - `compute`: nothing runs. The resolved values are the output.
 * - `ask`: nothing runs. A person answers, and the answer is the output.
 */
export type StepRun =
  | { readonly as: 'call' }
  | { readonly as: 'pause'; readonly until: (values: JsonObject, began: Date, timeZone: string) => Date }
  | { readonly as: 'compute' }
  | { readonly as: 'ask' }

/** One kind of steps. A kind is pure: the workflow's bundle loads it. */
export interface StepKind<Fields extends z.ZodRawShape = z.ZodRawShape> {
  /** A step is of this kind if its definition has the field with this name. */
  readonly name: string
  /** The fields of the definition that only steps of this kind have. Each of them is optional. */
  readonly fields: Fields
  /** The name of the field whose values may have templates. These values are resolved when the step begins. */
  readonly values: string
  /** Finds errors that are certain before any run. The paths begin at the step. */
  check(step: StepOf<Fields>, scope: CheckScope): Issue[]
  /** The form of the step's output, for references to it. `formOf` gives the form of a template of the step. */
  output(step: StepOf<Fields>, catalog: ToolCatalog, formOf: CheckScope['formOf']): Form
  plan(step: StepOf<Fields>, scope: PlanScope): PlannedPart
  skeleton(step: StepOf<Fields>): SkeletonPart
  /** Words for what the step waits for, as its definition says. Null: a preview shows its call. */
  waits(step: StepOf<Fields>): string | null
  readonly run: StepRun
}

/** A kind takes only steps that have its field, so its functions may be called with any step of `kindOf`. */
export const defineKind = <Fields extends z.ZodRawShape>(kind: StepKind<Fields>): StepKind<Fields> => kind

/** The output of a step that has none is null. No path leads into it. */
export const noOutput: Form = { type: 'object', properties: {}, additionalProperties: false }

/** The part of a plan for a step that calls no tool. `values` are its values with templates. */
export const noCall = (values: object): PlannedPart => ({
  tool: null,
  sideEffect: null,
  destination: null,
  outputLabels: [],
  params: values as JsonObject,
})

/** The skeleton of a step that only waits. */
export const pausing = (activity: string, id: string): SkeletonPart => ({
  activity,
  timeoutSeconds: 10,
  isQuick: true,
  isShort: true,
  title: `the ${activity} of ${id}`,
})

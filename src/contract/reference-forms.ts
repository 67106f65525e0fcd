import { kindOf } from '../steps/index.ts'
import type { ToolCatalog } from '../tools/kit/tool.ts'
import { type Reference, parseText, placeOfItem } from '../policy/template-syntax.ts'
import { filesInput } from '../policy/uploaded-files.ts'
import type { WorkflowDefinition, WorkflowStep } from './definition.ts'
import {
  type Form,
  type Steps,
  elementOf,
  follow,
  inputForm,
  listForm,
  numberForm,
  textForm,
  writtenForm,
} from './forms.ts'

/** The values to which the templates of a definition can refer. */
export interface Known {
  readonly inputs: NonNullable<WorkflowDefinition['inputs']>
  /**
   * Each key is the id of a step. `output` is the form of the step's output, and `name` describes this output in
   * messages.
   */
  readonly steps: ReadonlyMap<string, { readonly output: Form; readonly name: string }>
  /**
   * The forms that were found inside other forms. The check stores them, because many references follow the same path.
   */
  readonly below: Steps
}

/**
 * Collects the values to which the templates of a definition can refer. If a step's tool is not in the catalogue, the
 * output of the step can be any value.
 */
export function knownOf(definition: WorkflowDefinition, catalog: ToolCatalog): Known {
  // Steps with the same tool have the same form, which takes long to make.
  const forms = new Map<string, Form>()
  const steps = definition.steps.map((step) => {
    const key = `${kindOf(step).name} ${step.tool ?? ''}`
    const one = forms.get(key) ?? kindOf(step).output(step, catalog)
    forms.set(key, one)
    const name = `the output of step \`${step.id}\``
    if (step.for_each === undefined) return [step.id, { output: one, name }] as const
    return [step.id, { output: listForm(one), name: `${name}, which has \`for_each\`,` }] as const
  })
  return { inputs: definition.inputs ?? {}, steps: new Map(steps), below: new WeakMap() }
}

/**
 * Returns the form of `{{item}}` in a step. Returns null if the step has no `for_each`. If `isUsed` is false, does not
 * compute the form and returns `true` (any value).
 */
export function itemForm(step: WorkflowStep, known: Known, isUsed: boolean): Form | null {
  if (step.for_each === undefined) return null
  if (!isUsed) return true
  return elementOf(writtenForm(step.for_each, (reference) => formOf(reference, known, null))) ?? true
}

/** Returns the form of a reference. Returns `true` (any value) if the reference has an error. */
export function formOf(reference: Reference, known: Known, item: Form | null): Form {
  const form = referenceForm(reference, known, item)
  return typeof form === 'string' ? true : form
}

/**
 * Returns the form of a reference, or a message if the reference has an error. `item` is the form of `{{item}}`, or
 * null where `{{item}}` has no value. The form does not tell whether the value is null in a run: every value can be
 * null then. For example, the output of a skipped step is null.
 */
export function referenceForm(reference: Reference, known: Known, item: Form | null): Form | string {
  const { text } = reference
  if (item === null && 'path' in reference && reference.path.includes(placeOfItem))
    return outsideForEach(text)
  switch (reference.kind) {
    case 'unknown':
      return `\`${text}\` is not a reference: write ${insteadOf(text, known)}`
    case 'step': {
      const step = known.steps.get(reference.stepId)
      if (step === undefined) return `\`${text}\`: there is no step \`${reference.stepId}\``
      return follow(step.output, reference, { what: step.name, steps: known.below })
    }
    case 'input': {
      const { name, path } = reference
      if (name === filesInput)
        return path.length === 0
          ? filesForm
          : follow(filesList, { path, text }, { what: 'the list of files', steps: known.below })
      const input = Object.hasOwn(known.inputs, name) ? known.inputs[name] : undefined
      if (input === undefined) return `\`${text}\`: the workflow declares no input \`${name}\``
      return follow(inputForm(input.type), { path, text }, { what: `input \`${name}\``, steps: known.below })
    }
    case 'item':
      return item === null
        ? outsideForEach(text)
        : follow(item, reference, { what: '`item`', steps: known.below })
    case 'index':
      return item === null ? outsideForEach(text) : numberForm
    default:
      return textForm
  }
}

/** Matches a path behind a step's id in which `output` is missing, such as `{{read.text}}`. */
const withoutOutput = /^\{\{\s*((?:steps\.)?([\w-]{1,100}))([.[][^{}]{1,100})\}\}$/

/** Says what to write in place of a text that is not a reference. */
function insteadOf(text: string, { steps }: Known): string {
  const [, head, id, path] = withoutOutput.exec(text) ?? []
  if (head !== undefined && id !== undefined && path !== undefined && steps.has(id)) {
    const written = `{{${head}.output${path.trimEnd()}}}`
    const [only] = parseText(written)
    if (typeof only === 'object' && only.kind === 'step') return `\`${written}\``
  }
  return 'for example `{{input.name}}` or `{{steps.ID.output.path}}`'
}

const fileForm: Form = {
  type: 'object',
  properties: {
    id: textForm,
    name: textForm,
    media_type: textForm,
    size: numberForm,
    text: textForm,
    rows: listForm({ type: 'object' }),
  },
  additionalProperties: false,
}
const filesList = listForm(fileForm)
/**
 * The form of `{{input.uploaded_files}}`. The value is a list. Only for a parameter that takes nothing but text, the
 * value is text (files-as-text.ts).
 */
const filesForm: Form = { anyOf: [filesList, textForm] }

const outsideForEach = (text: string): string =>
  `\`${text}\` only has a value in the params and \`when\` of a step with \`for_each\``

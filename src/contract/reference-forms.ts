import type { ToolCatalog } from '../catalog/tool.ts'
import { type Reference, placeOfItem } from '../policy/template-syntax.ts'
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
  outputForm,
  textForm,
  writtenForm,
} from './forms.ts'

/** The values that the templates of a definition can name. */
export interface Known {
  readonly inputs: NonNullable<WorkflowDefinition['inputs']>
  /** The steps by id. `output` is the form of the step's output. */
  readonly steps: ReadonlyMap<string, { readonly output: Form; readonly name: string }>
  /** The forms that the check has found inside other forms so far. */
  readonly below: Steps
}

/**
 * Collects the values that the templates of a definition can name. If the catalogue does not have a step's tool, the
 * step's output can be any value.
 */
export function knownOf(definition: WorkflowDefinition, catalog: ToolCatalog): Known {
  const forms = new Map<string, Form>()
  const formOfTool = (name: string): Form => {
    const tool = catalog.get(name)
    const form = forms.get(name) ?? (tool === undefined ? true : outputForm(tool))
    forms.set(name, form)
    return form
  }
  const steps = definition.steps.map(({ id, tool, for_each }) => {
    const one = formOfTool(tool)
    const name = `the output of step \`${id}\``
    if (for_each === undefined) return [id, { output: one, name }] as const
    return [id, { output: listForm(one), name: `${name}, which has \`for_each\`,` }] as const
  })
  return { inputs: definition.inputs ?? {}, steps: new Map(steps), below: new WeakMap() }
}

/**
 * The form of `{{item}}` in a step; null for a step without `for_each`. If `isUsed` is false, the form is not computed,
 * and any value counts as possible.
 */
export function itemForm(step: WorkflowStep, known: Known, isUsed: boolean): Form | null {
  if (step.for_each === undefined) return null
  if (!isUsed) return true
  return elementOf(writtenForm(step.for_each, (reference) => formOf(reference, known, null))) ?? true
}

/** The form of a reference. If the reference has an error, any value counts as possible. */
export function formOf(reference: Reference, known: Known, item: Form | null): Form {
  const form = referenceForm(reference, known, item)
  return typeof form === 'string' ? true : form
}

/**
 * The form of a reference, or the error in it. `item` is the form of `{{item}}`, or null where `{{item}}` has no value.
 * Any value can be null in a run, for example the output of a skipped step.
 */
export function referenceForm(reference: Reference, known: Known, item: Form | null): Form | string {
  const { text } = reference
  if (item === null && 'path' in reference && reference.path.includes(placeOfItem))
    return outsideForEach(text)
  switch (reference.kind) {
    case 'unknown':
      return `\`${text}\` is not a reference: write for example \`{{input.name}}\` or \`{{steps.ID.output.path}}\``
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
/** The form of `{{input.uploaded_files}}`: a list, or text where a parameter takes only text (files-as-text.ts). */
const filesForm: Form = { anyOf: [filesList, textForm] }

const outsideForEach = (text: string): string =>
  `\`${text}\` only has a value in the params and \`when\` of a step with \`for_each\``

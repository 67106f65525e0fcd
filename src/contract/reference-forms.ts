import { kindOf } from '../steps/index.ts'
import type { ToolCatalog } from '../tools/kit/tool.ts'
import type { Expression } from '../policy/expressions/syntax.ts'
import { parseText, referencesOf, type Template } from '../policy/template-syntax.ts'
import { expressionForm, type Formed } from './expression-forms.ts'
import { type Reference, operatorHint, placeOfItem } from '../policy/reference.ts'
import { filesInput } from '../policy/templates.ts'
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

interface KnownStep {
  readonly output: Form
  readonly name: string
  readonly hasItems: boolean
}

export interface Known {
  readonly inputs: NonNullable<WorkflowDefinition['inputs']>
  /** The key is the id of a step. `name` describes its output in messages. */
  readonly steps: Pick<ReadonlyMap<string, KnownStep>, 'has' | 'get'>
  /** The check stores these, because many references follow the same path. */
  readonly below: Steps
}

/** Values that are computed from each other over more steps than this count as any value. */
const mostComputed = 20

/** The output of a step whose tool is not in the catalogue can be any value. */
export function knownOf(definition: WorkflowDefinition, catalog: ToolCatalog): Known {
  // A form takes long to make, so steps with the same tool share it.
  const ofTools = new Map<string, Form>()
  const steps = new Map(definition.steps.map((step) => [step.id, step]))
  const found = new Map<string, KnownStep>()
  let depth = 0
  const outputOf = (step: WorkflowStep): Form => {
    const kind = kindOf(step)
    const tool = step.tool === undefined || catalog.get(step.tool)?.formOf ? undefined : step.tool
    const shared = tool === undefined ? undefined : ofTools.get(tool)
    if (shared !== undefined) return shared
    if (depth >= mostComputed) return true
    depth += 1
    const made = kind.output(step, catalog, (template) =>
      formOf(template, known, itemForm(step, known, true)),
    )
    depth -= 1
    if (tool !== undefined) ofTools.set(tool, made)
    return made
  }
  const get = (id: string): KnownStep | undefined => {
    const [step, made] = [steps.get(id), found.get(id)]
    if (step === undefined || made !== undefined) return made
    const name = `the output of step \`${id}\``
    // This stands for the step while its form is made, because steps may wait for each other in a cycle.
    const hasItems = step.for_each !== undefined
    found.set(id, { output: true, name, hasItems })
    const one = orOtherwise(outputOf(step), step)
    const its = hasItems
      ? { output: listForm(one), name: `${name}, which has \`for_each\`,`, hasItems }
      : { output: one, name, hasItems }
    found.set(id, its)
    return its
  }
  const known: Known = {
    inputs: definition.inputs ?? {},
    steps: { has: (id) => steps.has(id), get },
    below: new WeakMap(),
  }
  return known
}

const orOtherwise = (form: Form, { otherwise }: WorkflowStep): Form =>
  otherwise === undefined ? form : { anyOf: [form, writtenForm(otherwise, () => true)] }

/** Null without `for_each`. If `isUsed` is false, returns `true` (any value) without computing the form. */
export function itemForm(step: WorkflowStep, known: Known, isUsed: boolean): Form | null {
  if (step.for_each === undefined) return null
  if (!isUsed) return true
  return elementOf(writtenForm(step.for_each, (reference) => formOf(reference, known, null))) ?? true
}

/** `true` (any value) if the template has an error. */
export function formOf(template: Template, known: Known, item: Form | null): Form {
  if (template.kind === 'expression') return formed(template, known, item).form
  const form = referenceForm(template, known, item)
  return typeof form === 'string' ? true : form
}

const formed = (expression: Expression, known: Known, item: Form | null): Formed =>
  expressionForm(expression, (reference) => formOf(reference, known, item), known.below)

/** What is certainly wrong with a template. */
export const templateIssues = (template: Template, known: Known, item: Form | null): readonly string[] =>
  formedBy(template, (reference) => referenceForm(reference, known, item), known.below).issues

/** `formOf` gives a message for a reference with an error. */
export function formedBy(
  template: Template,
  formOf: (reference: Reference) => Form | string,
  steps: Steps,
): Formed {
  const orAny = (reference: Reference): Form => {
    const form = formOf(reference)
    return typeof form === 'string' ? true : form
  }
  const own = referencesOf(template)
    .map(formOf)
    .filter((form) => typeof form === 'string')
  if (template.kind !== 'expression') return { form: orAny(template), issues: own }
  const { form, issues } = expressionForm(template, orAny, steps)
  return { form, issues: [...own, ...issues] }
}

/**
 * Returns a message for an error. `item` is null where `{{item}}` has no value. The form does not tell
 * whether the value is null in a run: every value can be, e.g. the output of a skipped step.
 */
export function referenceForm(reference: Reference, known: Known, item: Form | null): Form | string {
  const { text } = reference
  if (item === null && 'path' in reference && reference.path.includes(placeOfItem))
    return outsideForEach(text)
  switch (reference.kind) {
    case 'unknown':
      return notReadable(reference, known)
    case 'step': {
      const step = known.steps.get(reference.stepId)
      if (step === undefined) return `\`${text}\`: there is no step \`${reference.stepId}\``
      if (reference.of === 'status') return textForm
      if (reference.of === 'approval') {
        if (step.hasItems)
          return `\`${text}\`: step \`${reference.stepId}\` has \`for_each\`, and each item has an approval of its own`
        return follow(approvalForm, reference, { what: 'an approval', steps: known.below })
      }
      return follow(step.output, reference, { what: step.name, steps: known.below })
    }
    case 'input': {
      const { name, path } = reference
      if (name === filesInput)
        return path.length === 0
          ? filesForm
          : follow(filesList, { path, text }, { what: 'the list of files', steps: known.below })
      const input = Object.hasOwn(known.inputs, name) ? known.inputs[name] : undefined
      if (input === undefined)
        return `\`${text}\`: the workflow declares no input \`${name}\`${operatorHint(name)}`
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

function notReadable({ text, why }: Extract<Reference, { kind: 'unknown' }>, known: Known): string {
  const instead = insteadOf(text, known)
  if (instead !== null) return `\`${text}\` is not a reference: write ${instead}`
  const reason = why === undefined ? '' : `: ${why}`
  return `\`${text}\` is neither a reference such as \`{{input.name}}\` or \`{{steps.ID.output.path}}\`, nor an expression${reason}`
}

/** `output` is missing after a step's id, such as in `{{read.text}}`. */
const withoutOutput = /^\{\{\s*((?:steps\.)?([\w-]{1,100}))([.[][^{}]{1,100})\}\}$/

function insteadOf(text: string, { steps }: Known): string | null {
  const [, head, id, path] = withoutOutput.exec(text) ?? []
  if (head !== undefined && id !== undefined && path !== undefined && steps.has(id)) {
    const written = `{{${head}.output${path.trimEnd()}}}`
    const [only] = parseText(written)
    if (typeof only === 'object' && only.kind === 'step') return `\`${written}\``
  }
  return null
}

/** Null if no person was asked. */
const approvalForm: Form = {
  type: 'object',
  properties: { verdict: textForm, comment: textForm, by: textForm },
  additionalProperties: false,
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
/** A list. Only for a parameter that takes nothing but text, the value is text (files-as-text.ts). */
const filesForm: Form = { anyOf: [filesList, textForm] }

const outsideForEach = (text: string): string =>
  `\`${text}\` only has a value in the params and \`when\` of a step with \`for_each\``

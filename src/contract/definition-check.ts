import type { ToolCatalog } from '../tools/kit/tool.ts'
import { inWhen } from '../policy/operators/index.ts'
import {
  hasMoreReferences,
  isTemplate,
  references,
  referencesOf,
  templates,
  type Template,
} from '../policy/template-syntax.ts'
import { whenParts } from '../policy/when.ts'
import { nameForm, reservedWords } from '../policy/reference.ts'
import { kindOf, valuesOf } from '../steps/index.ts'
import type { Json } from '../policy/types.ts'
import { mostItems, mostSteps, type WorkflowDefinition, type WorkflowStep } from './definition.ts'
import { dependencies, findCycle, stepTemplates } from './definition-graph.ts'
import { checkInputDeclarations } from './inputs.ts'
import { type Issue, isForbiddenName, jsonIssues } from './json.ts'
import { typeOf, wholeTemplate, words, writtenForm, type Form } from './forms.ts'
import { formOf, itemForm, knownOf, templateIssues, type Known } from './reference-forms.ts'
import { mostIssues, shownPath } from '../policy/issues.ts'

/** Each reference is looked up when the workflow is saved, when a run is planned, and in each step. */
export const mostReferences = 10_000

/** The shape must already be valid. The time is linear in the size of the definition. */
export function checkDefinition(definition: WorkflowDefinition, catalog: ToolCatalog): Issue[] {
  const malformed = jsonIssues(definition)
  if (malformed.length > 0) return malformed
  if (definition.steps.length > mostSteps) {
    return [
      {
        path: 'steps',
        message: `a workflow has at most ${inWords(mostSteps)} steps, not ${definition.steps.length}`,
      },
    ]
  }
  if (hasMoreReferences([definition.steps, definition.result ?? {}] as unknown as Json, mostReferences))
    return [
      {
        path: 'steps',
        message: `a workflow has at most ${inWords(mostReferences)} templates`,
      },
    ]
  const tooLong = pathIssues(definition)
  if (tooLong.length > 0) return tooLong
  const known = knownOf(definition, catalog)
  const issues = [...checkInputDeclarations(known.inputs), ...checkIds(definition.steps)]
  for (const [index, step] of definition.steps.entries()) {
    if (issues.length >= mostIssues) return issues.slice(0, mostIssues)
    const add = (field: string, message: string) =>
      issues.push({
        path: `steps.${index}.${field}`,
        message: `step \`${step.id}\`: ${message}`,
      })
    checkStep(step, catalog, known, { add, isFull: () => issues.length >= mostIssues })
  }
  for (const [key, value] of Object.entries(definition.result ?? {})) {
    const add = (message: string) =>
      issues.push({
        path: `result.${key}`,
        message: `result \`${key}\`: ${message}`,
      })
    for (const template of templates(value)) {
      if (issues.length >= mostIssues) break
      for (const issue of templateIssues(template, known, null)) add(issue)
    }
    checkNames({ [key]: value }, add)
  }
  const cycle = findCycle(dependencies(definition))
  if (cycle !== null) {
    const steps = [...cycle, cycle[0] ?? ''].map((id) => `\`${id}\``).join(' → ')
    issues.push({
      path: 'steps',
      message: `steps wait for each other in a cycle: ${steps}`,
    })
  }
  return issues.slice(0, mostIssues)
}

type Add = (field: string, message: string) => void

function checkIds(steps: readonly WorkflowStep[]): Issue[] {
  const issues: Issue[] = []
  const seen = new Set<string>()
  steps.forEach((step, index) => {
    const add = (message: string) =>
      issues.push({
        path: `steps.${index}.id`,
        message: `step \`${step.id}\`: ${message}`,
      })
    if (!nameForm.test(step.id)) add('an id has letters, digits, `_` and `-`, and does not start with `-`')
    else if (isForbiddenName(step.id) || reservedWords.has(step.id))
      add('this id means something else: choose another')
    else if (seen.has(step.id)) add('another step has the same id')
    seen.add(step.id)
  })
  return issues
}

function checkStep(
  step: WorkflowStep,
  catalog: ToolCatalog,
  known: Known,
  { add, isFull }: { readonly add: Add; readonly isFull: () => boolean },
): void {
  const found = stepTemplates(step)
  const usesItem = found.some(({ template }) => referencesOf(template).some(({ kind }) => kind === 'item'))
  const item = itemForm(step, known, usesItem)
  const kind = kindOf(step)
  for (const issue of kind.check(step, { catalog, formOf: (template) => formOf(template, known, item) }))
    add(issue.path, issue.message)
  for (const id of step.depends_on ?? []) {
    if (id === step.id) add('depends_on', 'a step cannot wait for itself')
    else if (!known.steps.has(id)) add('depends_on', `there is no step \`${id}\``)
  }
  for (const { field, template } of found) {
    if (isFull()) return
    if (referencesOf(template).some((each) => each.kind === 'step' && each.stepId === step.id)) {
      add(field, `\`${template.text}\` refers to the step itself`)
      continue
    }
    for (const issue of templateIssues(template, known, field === 'for_each' ? null : item))
      add(field, inParam(field, issue))
  }
  checkNames(valuesOf(step), (message) => add(kind.values, message))
  checkNames(step.for_each ?? null, (message) => add('for_each', message))
  checkNames([...whenParts(step.when)], (message) => add('when', message))
  if (step.parallel !== undefined && step.for_each === undefined)
    add('parallel', 'only a step with `for_each` has `parallel`: leave it out')
  if (step.otherwise !== undefined && step.on_error !== 'continue')
    add('otherwise', '`otherwise` needs `on_error: continue`: without it, the run ends with the step')
  if (templates(step.otherwise ?? null).length > 0)
    add('otherwise', '`otherwise` is a plain value: a template in it is not filled in')
  checkForEach(step, known, add)
  checkWhen(step, (template) => formOf(template, known, item), add)
}

const inParam = (field: string, message: string): string =>
  field.startsWith('params.') ? `parameter \`${field.slice('params.'.length)}\`: ${message}` : message

/** A template in a field name would not be filled in. */
function templateInName(value: Json): string | null {
  if (typeof value !== 'object' || value === null) return null
  for (const [name, each] of Object.entries(value)) {
    const found = isTemplate(name) ? name.slice(0, 100) : templateInName(each)
    if (found !== null) return found
  }
  return null
}

function checkNames(value: Json, add: (message: string) => void): void {
  const name = templateInName(value)
  if (name !== null)
    add(
      `\`${name}\` is the name of a field, and a template in a name is not filled in: write the name without \`{{\``,
    )
}

const inWords = (count: number): string => count.toLocaleString('en-US')

function checkForEach(step: WorkflowStep, known: Known, add: Add): void {
  if (typeof step.for_each === 'string') {
    const type = typeOf(writtenForm(step.for_each, (template) => formOf(template, known, null)))
    const given = isTemplate(step.for_each) && type !== null ? `, and this gives ${words[type]}` : ''
    if (type !== null && type !== 'array')
      add(
        'for_each',
        `\`for_each\` must be a template that gives a list, such as \`{{steps.ID.output.items}}\`${given}`,
      )
  }
  if (Array.isArray(step.for_each) && step.for_each.length > mostItems)
    add('for_each', `\`for_each\` has more than ${inWords(mostItems)} items`)
}

/** If `compare` has templates, its type is checked only during the run. */
function checkWhen({ when }: WorkflowStep, formOf: (template: Template) => Form, add: Add): void {
  if (when === undefined) return
  if (typeof when === 'string') {
    const template = wholeTemplate(when)
    const type = template === null ? 'string' : typeOf(formOf(template))
    if (type !== null && type !== 'boolean')
      add(
        'when',
        `\`when\` as text must be one template that gives true or false, such as \`{{ input.amount > 100 }}\``,
      )
    return
  }
  const { operator, compare } = when
  const { asksForPresence, compareIssues } = inWhen(operator)
  if (compare === undefined) {
    if (!asksForPresence) add('when.compare', `the operator \`${operator}\` needs a value in \`compare\``)
  } else if (references(compare).length === 0) {
    for (const issue of compareIssues(compare, operator)) add('when.compare', issue)
  }
}

/**
 * The unit is characters. V8 hashes a text with more than 16,383 characters by its length only. Every
 * template is stored under its path, so many long paths would take quadratic time.
 */
export const longestPath = 2_000

/** Returns at most ten issues. Does not look inside a value whose path is too long. */
export function pathIssues({ steps, result }: Pick<WorkflowDefinition, 'steps' | 'result'>): Issue[] {
  const issues: Issue[] = []
  const way: string[] = []
  const visit = (value: unknown, length: number): void => {
    if (length > longestPath) {
      const most = longestPath.toLocaleString('en-US')
      const message = `the names on the way to this value have more than ${most} characters together: shorten them`
      issues.push({ path: shownPath(way), message })
      return
    }
    if (typeof value !== 'object' || value === null) return
    for (const [key, each] of Object.entries(value)) {
      if (issues.length >= 10) return
      way.push(key)
      visit(each, length + 1 + key.length)
      way.pop()
    }
  }
  for (const [field, values] of [
    ['steps', steps],
    ['result', result ?? {}],
  ] as const)
    for (const [key, value] of Object.entries(values)) {
      way.splice(0, way.length, field, key)
      if (issues.length < 10) visit(value, 0)
    }
  return issues
}

import type { ToolDeclaration } from '../catalog/tool.ts'
import { ruleDomain } from '../policy/hosts.ts'
import {
  type Reference,
  hasMoreReferences,
  isTemplate,
  references,
  reservedWords,
} from '../policy/template-syntax.ts'
import { catalogueNames, nearestNames } from '../policy/tool-names.ts'
import type { Json } from '../policy/types.ts'
import type { WorkflowDefinition, WorkflowStep } from './definition.ts'
import { dependencies, findCycle, stepReferences } from './definition-graph.ts'
import { hasInputType } from './definition-inputs.ts'
import { type Issue, isForbiddenName, jsonIssues, typeOfJson } from './json.ts'
import { checkConstantParams } from './tool-params.ts'

export interface ToolCatalog {
  get(name: string): ToolDeclaration | undefined
}

const name = /^[A-Za-z0-9_][A-Za-z0-9_-]{0,99}$/
const mostSteps = 1000
/** A definition of a thousand mistakes needs no thousand lines. */
const mostIssues = 100
/** Each is looked up when the workflow is saved, when a run of it is planned and in each step. */
const mostReferences = 10_000

/**
 * Everything that is wrong with a definition of the right shape, each issue naming its step (contract section 3); an
 * empty list means it can be saved; at most 100 of them. Linear in the definition's size.
 */
export function checkDefinition(definition: WorkflowDefinition, catalog: ToolCatalog): Issue[] {
  const malformed = jsonIssues(definition)
  if (malformed.length > 0) return malformed
  if (definition.steps.length > mostSteps) {
    return [{ path: 'steps', message: `a workflow has at most 1,000 steps, not ${definition.steps.length}` }]
  }
  if (hasMoreReferences([definition.steps, definition.result ?? {}] as unknown as Json, mostReferences))
    return [{ path: 'steps', message: 'a workflow has at most 10,000 templates' }]
  const known = { inputs: definition.inputs ?? {}, steps: new Set(definition.steps.map((step) => step.id)) }
  const issues = [...checkInputDeclarations(known.inputs), ...checkIds(definition.steps)]
  for (const [index, step] of definition.steps.entries()) {
    if (issues.length >= mostIssues) return issues.slice(0, mostIssues)
    const add = (place: string, message: string) =>
      issues.push({ path: `steps.${index}.${place}`, message: `step \`${step.id}\`: ${message}` })
    checkStep(step, catalog, known, add)
  }
  for (const [key, value] of Object.entries(definition.result ?? {})) {
    for (const reference of references(value)) {
      const message = problemOf(reference, known, false)
      if (message !== null) issues.push({ path: `result.${key}`, message: `result \`${key}\`: ${message}` })
    }
  }
  const cycle = findCycle(dependencies(definition))
  if (cycle !== null) {
    const steps = [...cycle, cycle[0] ?? ''].map((id) => `\`${id}\``).join(' → ')
    issues.push({ path: 'steps', message: `steps wait for each other in a circle: ${steps}` })
  }
  return issues.slice(0, mostIssues)
}

interface Known {
  readonly inputs: NonNullable<WorkflowDefinition['inputs']>
  readonly steps: ReadonlySet<string>
}

type Add = (place: string, message: string) => void

function checkInputDeclarations(inputs: Known['inputs']): Issue[] {
  const issues: Issue[] = []
  for (const [input, declaration] of Object.entries(inputs)) {
    const add = (message: string) =>
      issues.push({ path: `inputs.${input}`, message: `input \`${input}\`: ${message}` })
    if (!name.test(input)) add('a name has letters, digits, `_` and `-`, and does not start with `-`')
    if (input === 'uploaded_files') add('`uploaded_files` is always there: choose another name')
    const value = declaration.default
    if (value !== undefined && value !== null && !hasInputType(value, declaration.type)) {
      add(`the default must be of type ${declaration.type}, not ${typeOfJson(value)}`)
    }
  }
  return issues
}

function checkIds(steps: readonly WorkflowStep[]): Issue[] {
  const issues: Issue[] = []
  const seen = new Set<string>()
  steps.forEach((step, index) => {
    const add = (message: string) =>
      issues.push({ path: `steps.${index}.id`, message: `step \`${step.id}\`: ${message}` })
    if (!name.test(step.id)) add('an id has letters, digits, `_` and `-`, and does not start with `-`')
    else if (isForbiddenName(step.id) || reservedWords.has(step.id))
      add('this id means something else: choose another')
    else if (seen.has(step.id)) add('another step has the same id')
    seen.add(step.id)
  })
  return issues
}

function checkStep(step: WorkflowStep, catalog: ToolCatalog, known: Known, add: Add): void {
  const tool = catalog.get(step.tool)
  if (tool === undefined) add('tool', unknownTool(step.tool, catalog))
  else {
    for (const issue of checkConstantParams(tool, step.params)) add(`params.${issue.path}`, issue.message)
  }
  for (const id of step.depends_on ?? []) {
    if (id === step.id) add('depends_on', 'a step cannot wait for itself')
    else if (!known.steps.has(id)) add('depends_on', `there is no step \`${id}\``)
  }
  for (const { place, reference } of stepReferences(step)) {
    const hasItem = step.for_each !== undefined && place !== 'for_each'
    if (reference.kind === 'step' && reference.stepId === step.id) {
      add(place, `\`${reference.text}\` refers to the step itself`)
      continue
    }
    const message = problemOf(reference, known, hasItem)
    if (message !== null) add(place, message)
  }
  checkForEach(step, add)
  checkWhen(step, add)
}

function unknownTool(name: string, catalog: ToolCatalog): string {
  const near = nearestNames(name, catalogueNames).filter((each) => catalog.get(each) !== undefined)
  const hint = near.length === 0 ? '' : `did you mean ${near.map((each) => `\`${each}\``).join(' or ')}; `
  return `there is no tool \`${name}\`: ${hint}\`GET /tools\` lists the tools`
}

function problemOf(reference: Reference, known: Known, hasItem: boolean): string | null {
  const { text } = reference
  switch (reference.kind) {
    case 'unknown':
      return `\`${text}\` is not a reference: write for example \`{{input.name}}\` or \`{{steps.ID.output.path}}\``
    case 'step':
      return known.steps.has(reference.stepId)
        ? null
        : `\`${text}\`: there is no step \`${reference.stepId}\``
    case 'input':
      return Object.hasOwn(known.inputs, reference.name)
        ? null
        : `\`${text}\`: the workflow declares no input \`${reference.name}\``
    case 'item':
    case 'index':
      return hasItem
        ? null
        : `\`${text}\` only has a value in the params and \`when\` of a step with \`for_each\``
    default:
      return null
  }
}

function checkForEach(step: WorkflowStep, add: Add): void {
  if (typeof step.for_each === 'string' && !isTemplate(step.for_each)) {
    add('for_each', 'must be a template that gives a list, such as `{{steps.ID.output.items}}`')
  }
  if (Array.isArray(step.for_each) && step.for_each.length > 10_000)
    add('for_each', 'has more than 10,000 items')
}

const isScalar = (value: Json) => ['string', 'number', 'boolean'].includes(typeof value)

/** A constant `compare` must be one that the operator can compare with; one with templates shows at run time. */
function checkWhen(step: WorkflowStep, add: Add): void {
  if (step.when === undefined) return
  const { operator } = step.when
  const compare: Json | undefined = step.when.compare
  if (compare === undefined) {
    if (operator !== 'exists') add('when.compare', `\`${operator}\` needs a value to compare with`)
    return
  }
  if (references(compare).length > 0 || operator === 'equals' || operator === 'not_equals') return
  const list: readonly Json[] | null = Array.isArray(compare) ? compare : null
  if (operator === 'exists') {
    if (typeof compare !== 'boolean') add('when.compare', '`exists` compares with true or false')
  } else if (
    operator === 'contains' ? !isScalar(compare) : operator === 'startswith' && typeof compare !== 'string'
  ) {
    add('when.compare', `\`${operator}\` compares with ${operator === 'contains' ? 'one value' : 'text'}`)
  } else if (operator !== 'contains' && operator !== 'startswith') {
    if (list === null || !list.every(isScalar))
      add('when.compare', `\`${operator}\` compares with a list of values`)
    else if (operator === 'domain_in' || operator === 'domain_not_in') {
      for (const domain of list) {
        const read = ruleDomain(typeof domain === 'string' ? domain : JSON.stringify(domain))
        if ('issue' in read) add('when.compare', read.issue)
      }
    }
  }
}

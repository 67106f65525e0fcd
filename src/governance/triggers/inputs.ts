import { isObject, type Issue } from '../../contract/json.ts'
import { Budget } from '../../policy/budget.ts'
import { builtinsOf } from '../../policy/builtins.ts'
import { operatorHint, type Roots } from '../../policy/reference.ts'
import { templates } from '../../policy/template-syntax.ts'
import {
  expressionBudget,
  mostResolvedText,
  resolve,
  TemplateError,
  type Scope,
} from '../../policy/templates.ts'
import { unionLabels, type Json, type JsonObject, type Label } from '../../policy/types.ts'
import { DomainError } from '../errors.ts'
import type { TriggerRow } from './trigger-view.ts'

/* The inputs of a trigger are written with expressions over what has arrived, and become the inputs of the run. */

/** What expressions can read, by the kind of trigger. */
const roots: Readonly<Record<TriggerRow['kind'], Roots>> = {
  schedule: new Set(['due_at']),
  webhook: new Set(['body', 'headers', 'query']),
  poll: new Set(['item', 'output']),
}

/** What is certainly wrong with the inputs, before anything has arrived. */
export function inputIssues(kind: TriggerRow['kind'], inputs: JsonObject): Issue[] {
  return Object.entries(inputs).flatMap(([name, value]) => {
    const path = `inputs.${name}`
    return refersToRun(value) ? [{ path, message: noReference }] : expressionIssues(path, value, roots[kind])
  })
}

/** For the expressions in a value, which read these names. */
export function expressionIssues(path: string, value: Json, names: Roots): Issue[] {
  const wrong = templates(value, names).find((template) => template.kind === 'unknown')
  if (wrong === undefined) return []
  const readable = [...names].map((name) => `\`${name}\``).join(', ')
  const why =
    wrong.kind === 'unknown' && wrong.why !== undefined ? `: ${wrong.why}` : operatorHint(wrong.text)
  return [{ path, message: `\`${wrong.text}\` cannot be read: an expression here reads ${readable}${why}` }]
}

const noReference =
  'a trigger cannot refer to the output of a run (`from_run`): read it in a step of the workflow'

/** A message from outside must not choose an earlier run whose output the service account may read. */
const refersToRun = (value: Json): boolean => isObject(value) && Object.hasOwn(value, 'from_run')

/** Expressions here cannot read them: there is no run yet. */
const builtins = builtinsOf({
  id: '',
  requesterEmail: '',
  workflowName: '',
  startedAt: new Date(0),
  timeZone: 'UTC',
})

/** What expressions read of what has arrived. */
export const arrivalScope = (arrived: JsonObject, names: Roots): Scope => ({
  inputs: arrived,
  roots: names,
  step: () => undefined,
  builtins,
})

/** All inputs share one budget. Throws `validation_error`. The messages contain no value. */
export function inputsFor(kind: TriggerRow['kind'], inputs: JsonObject, arrived: JsonObject): JsonObject {
  const issues: Issue[] = []
  const scope = arrivalScope(arrived, roots[kind])
  const budget = new Budget(expressionBudget)
  const found = Object.entries(inputs).map(([name, value]) => {
    if (budget.isUsedUp) return [name, null] as const
    try {
      const { value: resolved } = resolve(value, scope, mostResolvedText, budget)
      if (refersToRun(resolved)) issues.push({ path: `inputs.${name}`, message: noReference })
      return [name, resolved] as const
    } catch (error) {
      if (!(error instanceof TemplateError)) throw error
      issues.push({ path: `inputs.${name}`, message: error.message })
      return [name, null] as const
    }
  })
  const [first] = issues
  if (first !== undefined)
    throw new DomainError('validation_error', `${first.path}: ${first.message}`.slice(0, 500), issues)
  return Object.fromEntries(found)
}

/** What a run's inputs carry. `arrived`: what the arrival carries itself; a trigger takes no label off. */
export function labelsFor(
  { untrusted }: Pick<TriggerRow, 'untrusted'>,
  inputs: JsonObject,
  arrived: readonly Label[] = [],
): Record<string, readonly Label[]> {
  const labels = unionLabels(arrived, untrusted ? ['untrusted'] : [])
  return labels.length === 0 ? {} : Object.fromEntries(Object.keys(inputs).map((name) => [name, labels]))
}

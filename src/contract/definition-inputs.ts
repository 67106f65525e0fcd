import { shownPath } from '../policy/issues.ts'
import type { Json, JsonObject } from '../policy/types.ts'
import type { InputType, WorkflowDefinition } from './definition.ts'
import { type Issue, jsonIssues, typeOfJson } from './json.ts'

/** An answer names at most this many inputs that the workflow does not have. */
const mostUnknown = 100

export function hasInputType(value: Json, type: InputType): boolean {
  return typeOfJson(value) === type
}

/**
 * Incomplete inputs are only for a preview. They get no defaults, because the later run may get other values.
 */
export interface CheckedInputs {
  readonly inputs: JsonObject
  readonly areComplete: boolean
}

/**
 * null counts as not given. An optional input without a value and a default is left out. Only with `mayLack`
 * may a required input be missing. Inputs that are unknown, of the wrong type or cannot be stored as JSON are
 * errors.
 */
export function checkInputs(
  definition: Pick<WorkflowDefinition, 'inputs'>,
  inputs: JsonObject,
  { mayLack = false } = {},
): CheckedInputs | Issue[] {
  const declared = Object.entries(definition.inputs ?? {})
  const issues = jsonIssues(inputs, 'inputs')
  // A body can have many thousand long names that the workflow does not declare.
  const unknown = Object.keys(inputs).filter((name) => !Object.hasOwn(definition.inputs ?? {}, name))
  for (const name of unknown.slice(0, mostUnknown))
    issues.push({
      path: shownPath(['inputs', name]),
      message: `the workflow has no input \`${shownPath([name])}\``,
    })
  const given = ([name]: (typeof declared)[number]): Json =>
    Object.hasOwn(inputs, name) ? (inputs[name] ?? null) : null
  const missing = declared.filter(
    (each) => each[1].required === true && (given(each) ?? each[1].default ?? null) === null,
  )
  const areComplete = missing.length === 0
  const known: [string, Json][] = []
  for (const each of declared) {
    const [name, { type, default: fallback }] = each
    const value = given(each) ?? (areComplete ? (fallback ?? null) : null)
    if (value === null) continue
    if (!hasInputType(value, type)) {
      const message = `input \`${name}\` must be of type ${type}, not ${typeOfJson(value)}`
      issues.push({ path: `inputs.${name}`, message })
    } else known.push([name, value])
  }
  if (!mayLack)
    for (const [name] of missing)
      issues.push({ path: `inputs.${name}`, message: `input \`${name}\` is required` })
  return issues.length > 0 ? issues : { inputs: Object.fromEntries(known), areComplete }
}

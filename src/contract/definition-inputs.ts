import type { Json, JsonObject } from '../policy/types.ts'
import type { InputType, WorkflowDefinition } from './definition.ts'
import { type Issue, jsonIssues, typeOfJson } from './json.ts'

export function hasInputType(value: Json, type: InputType): boolean {
  return typeOfJson(value) === type
}

/**
 * A run's inputs with the defaults filled in, or what is wrong with them: a required one missing, one the workflow does
 * not have, one of another type. null counts as not given; an optional input without default then stays away.
 */
export function checkInputs(
  definition: Pick<WorkflowDefinition, 'inputs'>,
  inputs: JsonObject,
): { inputs: JsonObject } | Issue[] {
  const declared = definition.inputs ?? {}
  const issues = jsonIssues(inputs, 'inputs')
  for (const name of Object.keys(inputs)) {
    if (!Object.hasOwn(declared, name)) {
      issues.push({ path: `inputs.${name}`, message: `the workflow has no input \`${name}\`` })
    }
  }
  const complete: [string, Json][] = []
  for (const [name, declaration] of Object.entries(declared)) {
    const given = Object.hasOwn(inputs, name) ? inputs[name] : null
    const value = given ?? declaration.default ?? null
    const path = `inputs.${name}`
    if (value === null) {
      if (declaration.required === true) issues.push({ path, message: `input \`${name}\` is required` })
    } else if (!hasInputType(value, declaration.type)) {
      const message = `input \`${name}\` must be of type ${declaration.type}, not ${typeOfJson(value)}`
      issues.push({ path, message })
    } else complete.push([name, value])
  }
  return issues.length > 0 ? issues : { inputs: Object.fromEntries(complete) }
}

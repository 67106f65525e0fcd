import { compileRule, joinRules } from './compile.ts'
import { decide, type Call, type CompiledPolicy } from './decide.ts'
import { headsOf, labelSetsOf, valuesOf, type Head } from './example-parts.ts'
import type { Matching } from './implication.ts'
import { withPlainPaths } from './readers/file-paths.ts'
import type { StoredRule } from './rule.ts'
import { toolParams } from './tool-params.ts'
import {
  unionLabels,
  type CallSource,
  type Json,
  type JsonObject,
  type Label,
  type SideEffect,
} from './types.ts'

/** A call in the form of `rules/test`. */
export interface ExampleCall {
  readonly source: CallSource
  readonly tool: string
  readonly side_effect: SideEffect
  readonly params: JsonObject
  readonly labels: readonly Label[]
}

/** The values of a call. The key is a dotted path such as `message.body`, or `*` for any parameter. */
export type Assignment = ReadonlyMap<string, Json>

/** The parts of an example, which can be changed one by one. */
export interface Draft {
  readonly head: Head
  readonly labels: readonly Label[]
  readonly values: Assignment
}

/**
 * Makes an example from its parts. Returns null if no tool takes such a call. This is the case if a tool of the
 * catalogue does not have one of the parameters, or if one value is in the way of another value.
 */
export function exampleOf({ head, labels, values }: Draft): ExampleCall | null {
  const params = paramsOf(head, values)
  if (params === null) return null
  return {
    source: head.source,
    tool: head.tool,
    side_effect: head.sideEffect,
    params,
    labels: unionLabels(labels),
  }
}

/** Returns the call as rules see it. Returns null if the call is refused before any rule is asked. */
export function callOf(example: ExampleCall): Call | null {
  const { source, tool, side_effect: sideEffect, labels } = example
  const params = source === 'agents' ? withPlainPaths(tool, example.params) : example.params
  return params === null ? null : { source, tool, sideEffect, params, labels }
}

function paramsOf(head: Head, values: Assignment): JsonObject | null {
  const known = head.source === 'workflows' ? new Map(Object.entries(toolParams)).get(head.tool) : undefined
  const params: Record<string, Json> = {}
  for (const [path, value] of values) {
    if (path !== '*' && !setAt(params, path.split('.'), value)) return null
  }
  const any = values.get('*')
  if (any !== undefined) {
    const free = (known ?? ['value']).find((name) => !Object.hasOwn(params, name))
    if (free === undefined) return null
    params[free] = any
  }
  return known === undefined || Object.keys(params).every((name) => known.includes(name)) ? params : null
}

/** Sets a value inside nested objects. Returns false if another value is in the way. */
function setAt(params: Record<string, Json>, path: readonly string[], value: Json): boolean {
  let object = params
  for (const [index, name] of path.entries()) {
    const present = Object.hasOwn(object, name) ? object[name] : undefined
    if (index === path.length - 1) {
      if (present !== undefined) return false
      object[name] = value
    } else {
      if (present !== undefined && (typeof present !== 'object' || present === null)) return false
      object = object[name] = { ...(present as JsonObject | undefined) }
    }
  }
  return true
}

const policyOf = (rule: Matching): CompiledPolicy => {
  const stored: StoredRule = { ...rule, id: 'r', name: 'r', status: 'active' }
  const compiled = compileRule(stored)
  return joinRules({ rules: compiled === null ? [] : [compiled], labelRules: [], approvalsEnabled: true })
}

/** Whether the only rule of the policy matches the example. */
function isMatch(policy: CompiledPolicy, draft: Draft): boolean {
  const example = exampleOf(draft)
  const call = example === null ? null : callOf(example)
  return call !== null && decide(policy, call).matchedRules.length > 0
}

/**
 * Looks for calls that the rule matches, at most one call for each tool of `headsOf`. May find none, because only a few
 * combinations are tried.
 */
export function witnessesOf(rule: Matching): Draft[] {
  const [labels = []] = labelSetsOf(rule)
  const whole = policyOf(rule)
  const parts = [...Map.groupBy(rule.params ?? [], ({ param }) => param)].map(([param, conditions]) => ({
    param,
    policy: policyOf({ verdict: rule.verdict, params: conditions }),
    choices: choicesFor(conditions.flatMap(valuesOf)),
  }))
  return headsOf(rule).flatMap((head) => {
    const values = new Map<string, Json>()
    for (const { param, policy, choices } of parts) {
      const fitting = choices.find((choice) =>
        isMatch(policy, {
          head,
          labels,
          values: choice === undefined ? new Map() : new Map([[param, choice]]),
        }),
      )
      if (fitting !== undefined) values.set(param, fitting)
    }
    const draft = { head, labels, values }
    return isMatch(whole, draft) ? [draft] : []
  })
}

/**
 * Returns the choices for one parameter: each value by itself, no value (undefined), and a list of the simple values.
 */
const choicesFor = (values: readonly Json[]): (Json | undefined)[] => [
  ...values,
  undefined,
  values.filter((value) => typeof value !== 'object'),
]

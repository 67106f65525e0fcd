import { compileRule, joinRules } from './compile.ts'
import type { Call, CompiledPolicy } from './decide.ts'
import { headsOf, labelSetsOf, paramsFor, valuesOf, type ExampleTools, type Head } from './example-parts.ts'
import { Tries } from './example-tries.ts'
import type { Matching } from './implication.ts'
import { withPlainPaths } from './readers/file-paths.ts'
import type { StoredRule } from './rule.ts'
import { destinationParam, type ToolFacts } from './tool-facts.ts'
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
  /** The host to which a call of a workflow goes. If absent, it stays here. */
  readonly destination?: string
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
export function exampleOf(
  { head, labels, values }: Draft,
  { facts, effectsOf }: ExampleTools,
): ExampleCall | null {
  const { source, tool, sideEffect } = head
  const host = source === 'workflows' ? values.get(destinationParam) : undefined
  if (host !== undefined && typeof host !== 'string') return null
  const params = paramsOf(facts, head, host === undefined ? values : without(values, destinationParam))
  if (params === null) return null
  const all = unionLabels(labels)
  const possible = source === 'agents' ? effectsOf(tool, params, all) : [sideEffect]
  const effect = possible.includes(sideEffect) ? sideEffect : (possible[0] ?? sideEffect)
  return {
    ...{ source, tool, side_effect: effect, params },
    ...(host === undefined ? {} : { destination: host }),
    labels: all,
  }
}

/** Returns the call as rules see it. Returns null if the call is refused before any rule is asked. */
export function callOf(example: ExampleCall): Call | null {
  const { source, tool, side_effect: sideEffect, destination, labels } = example
  const params = source === 'agents' ? withPlainPaths(tool, example.params) : example.params
  return params === null ? null : { source, tool, sideEffect, destination, params, labels }
}

const without = (values: Assignment, param: string): Assignment =>
  new Map([...values].filter(([path]) => path !== param))

function paramsOf(facts: ToolFacts, head: Head, values: Assignment): JsonObject | null {
  const known = head.source === 'workflows' ? facts.get(head.tool)?.params : undefined
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

const policyOf = (facts: ToolFacts, rule: Matching): CompiledPolicy => {
  const stored: StoredRule = { ...rule, id: 'r', name: 'r', status: 'active' }
  const compiled = compileRule(stored)
  return joinRules(facts, {
    rules: compiled === null ? [] : [compiled],
    labelRules: [],
    approvalsEnabled: true,
  })
}

/** The tries for one rule make at most this many comparisons. */
const mostComparisons = 50_000
/** At most this many calls are tried for one rule. */
const mostTries = 500
/** At most this many values are tried for one parameter of a rule. */
const mostChoices = 40

interface Part {
  readonly param: string
  readonly policy: CompiledPolicy
  /** The last value that fitted comes first. */
  choices: readonly (Json | undefined)[]
}

/**
 * What a step of a search has done. `tried` is a call that both sets decided. `too large` is a call or a rule that
 * needs too many comparisons. Null is any other step.
 */
export type Step = 'tried' | 'too large' | null

/**
 * Looks for calls that the rule matches, at most one call for each tool of `headsOf`. May find none, because only a few
 * combinations are tried. Yields after each try.
 */
export function* witnessesOf(
  rule: Matching,
  tools: ExampleTools,
): Generator<Exclude<Step, 'tried'>, readonly Draft[]> {
  const tries = new Tries(mostComparisons, mostTries)
  const isMatch = (policy: CompiledPolicy, draft: Draft): boolean => {
    const example = exampleOf(draft, tools)
    const call = example === null ? null : callOf(example)
    return call !== null && (tries.decide(policy, call)?.matchedRules.length ?? 0) > 0
  }
  const [labels = []] = labelSetsOf(rule)
  const whole = policyOf(tools.facts, rule)
  yield null
  const parts = yield* partsOf(tools.facts, rule)
  const found: Draft[] = []
  for (const head of headsOf(rule, tools)) {
    const values = new Map<string, Json>(Object.entries(paramsFor(head)))
    for (const part of parts) {
      for (const choice of part.choices) {
        if (tries.areUsedUp) {
          yield 'too large'
          return found
        }
        const chosen = choice === undefined ? new Map<string, Json>() : new Map([[part.param, choice]])
        const isFit = isMatch(part.policy, { head, labels, values: chosen })
        yield null
        if (!isFit) continue
        if (choice === undefined) values.delete(part.param)
        else values.set(part.param, choice)
        part.choices = [choice, ...part.choices.filter((each) => each !== choice)]
        break
      }
    }
    const draft = { head, labels, values }
    if (isMatch(whole, draft)) found.push(draft)
    yield null
  }
  return found
}

/** Returns the conditions of the rule by parameter. Yields after each parameter. */
function* partsOf(facts: ToolFacts, { verdict, params = [] }: Matching): Generator<null, readonly Part[]> {
  const parts: Part[] = []
  for (const [param, conditions] of Map.groupBy(params, (condition) => condition.param)) {
    const choices = choicesFor(conditions.flatMap(valuesOf))
    parts.push({ param, policy: policyOf(facts, { verdict, params: conditions }), choices })
    yield null
  }
  return parts
}

/**
 * Returns the choices for one parameter: some values by themselves, no value (undefined), and a list of simple values.
 */
const choicesFor = (values: readonly Json[]): readonly (Json | undefined)[] => [
  ...values.slice(0, mostChoices),
  undefined,
  values.filter((value) => typeof value !== 'object').slice(0, mostChoices),
]

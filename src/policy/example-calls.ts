import { compileRule, joinRules } from './compile.ts'
import { type Call, type CompiledPolicy, decide, type Decided } from './decide.ts'
import type { Matching } from './implication.ts'
import { withPlainPaths } from './readers/file-paths.ts'
import type { StoredRule } from './rule.ts'
import { destinationParam, type ToolFacts } from './tool-facts.ts'
import {
  type CallSource,
  type Json,
  type JsonObject,
  type Label,
  type SideEffect,
  unionLabels,
} from './types.ts'
import { Budget } from './budget.ts'
import { agentTool, agentToolNames } from './agent-tools.ts'
import { matchesGlob } from './glob.ts'
import { inRules, type ParamCondition } from './operators/index.ts'
import { listOf, type Scalar } from './operators/operator.ts'

/* Parts of example calls: tools, labels and values, mostly as the conditions of rules mention them. */

/** A call without its parameters and labels. */
export interface Head {
  readonly source: CallSource
  readonly tool: string
  /** A call of an agent has another one if this one is not possible. */
  readonly sideEffect: SideEffect
}

/** The usual one comes first. */
export type AgentEffects = (
  tool: string,
  params: JsonObject,
  labels: readonly Label[],
) => readonly SideEffect[]

export interface ExampleTools {
  readonly facts: ToolFacts
  readonly effectsOf: AgentEffects
}
const mostOfList = 3
/** Probably no rule mentions it. */
const anyProtocolTool = 'mcp__server__tool'

/** Some tools that the rule covers and that have its parameters and one of its side effects. */
export function headsOf(rule: Matching, { facts, effectsOf }: ExampleTools): Head[] {
  const { tools, applies_to: sources = ['workflows', 'agents'], side_effects: effects } = rule
  const fits = (tool: string): boolean => tools?.some((glob) => matchesGlob(glob, tool)) ?? true
  const has = (effect: SideEffect): boolean => effects?.includes(effect) ?? true
  const wanted = (rule.params ?? []).flatMap(({ param }) =>
    param === '*' || param === destinationParam ? [] : [firstOf(param)],
  )
  const ofWorkflows = facts
    .covered(tools)
    .filter(({ sideEffect, params }) => has(sideEffect) && wanted.every((param) => params.includes(param)))
    .map(({ name, sideEffect }): Head => ({ source: 'workflows', tool: name, sideEffect }))
  const globs = tools ?? [anyProtocolTool]
  const names = [
    ...agentToolNames.filter(fits),
    ...globs.map((glob) => ({ glob, name: nameFor(glob) })).flatMap(({ glob, name }) => (matchesGlob(glob, name) ? [name] : [])), // prettier-ignore
  ]
  const [labels = []] = labelSetsOf(rule)
  const ofAgents = [...new Set(names)].flatMap((tool): Head[] => {
    const sideEffect = effectsOfTool(tool, labels, effectsOf).find(has)
    return sideEffect === undefined ? [] : [{ source: 'agents', tool, sideEffect }]
  })
  const half = 3
  return [
    ...(sources.includes('workflows') ? ofWorkflows.slice(0, half) : []),
    ...(sources.includes('agents') ? ofAgents.slice(-half) : []),
  ]
}

const firstOf = (path: string): string => path.split('.')[0] ?? path

/** A name that the glob nearly always matches, and few other globs do. */
function nameFor(glob: string): string {
  const name = glob.replaceAll('*', 'any').replaceAll('?', 'q')
  return name.length <= 200 ? name : glob.replaceAll('*', '').replaceAll('?', 'q') || 'any'
}

const runsCommands = (tool: string): boolean => {
  const code = agentTool(tool)?.code
  return code === 'bash' || code === 'powershell'
}

const effectsOfTool = (
  tool: string,
  labels: readonly Label[],
  effectsOf: AgentEffects,
): readonly SideEffect[] => [
  ...new Set([
    ...effectsOf(tool, {}, labels),
    // Their command decides.
    ...(runsCommands(tool) ? [...effectsOf(tool, quiet, labels), ...effectsOf(tool, sending, labels)] : []),
  ]),
]

const quiet = { command: 'echo hello' }
const sending = { command: 'curl https://outside.example' }

const paramsFor = ({ source, tool, sideEffect }: Head): JsonObject =>
  source === 'agents' && runsCommands(tool) ? (sideEffect === 'egress' ? sending : quiet) : {}

/** Sets that just meet the rule's conditions, or just do not. Usually the first meets them. */
export function labelSetsOf(rule: Matching): (readonly Label[])[] {
  const { any_of: any = [], all_of: all = [], none_of: none = [] } = rule.labels ?? {}
  const sources = (rule.params ?? []).flatMap(labelsOfSources)
  const allowed = any.filter((label) => !none.includes(label))
  const least = unique([...all, ...allowed.slice(0, 1), ...sources.slice(0, 1)])
  return [
    least,
    [],
    ...least.map((label) => least.filter((each) => each !== label)),
    ...allowed.slice(0, mostOfList).map((label) => unique([...all, label, ...sources.slice(0, 1)])),
    ...sources.slice(0, mostOfList).map((label) => unique([...all, ...allowed.slice(0, 1), label])),
    ...none.slice(0, mostOfList).map((label) => unique([...least, label])),
  ]
}

export const labelsOfSources = ({ operator, value }: ParamCondition): readonly Label[] =>
  inRules(operator).reads === 'sources' ? listOf<Scalar>(value).map(String) : []

const unique = <T>(values: readonly T[]): T[] => [...new Set(values)]

export const valuesOf = ({ operator, value }: ParamCondition): readonly Json[] =>
  inRules(operator).examples(listOf<Scalar>(value).slice(0, mostOfList))

/** A tenth of what a real call may need, because many tries follow each other on one thread. */
export const mostOfTry = 20_000

/** Decides calls that are only tried, and limits the comparisons of each try and of all together. */
export class Tries {
  #comparisons: number
  #calls: number
  constructor(comparisons = Infinity, calls = Infinity) {
    this.#comparisons = comparisons
    this.#calls = calls
  }
  get areUsedUp(): boolean {
    return this.#comparisons <= 0 || this.#calls <= 0
  }
  /** Null if the decision needs more comparisons than are left. */
  decide(policy: CompiledPolicy, call: Call): Decided | null {
    const most = Math.min(this.#comparisons, mostOfTry)
    const budget = new Budget(most)
    const decided = decide(policy, call, budget)
    this.#comparisons -= most - budget.left
    this.#calls -= 1
    return budget.isUsedUp ? null : decided
  }
}

/** In the form of `rules/test`. */
export interface ExampleCall {
  readonly source: CallSource
  readonly tool: string
  readonly side_effect: SideEffect
  readonly params: JsonObject
  /** Where a call of a workflow goes; absent if it stays here. */
  readonly destination?: string
  readonly labels: readonly Label[]
}

/** By dotted path such as `message.body`; `*` for any parameter. */
export type Assignment = ReadonlyMap<string, Json>

/** The parts of an example, which can be changed one by one. */
export interface Draft {
  readonly head: Head
  readonly labels: readonly Label[]
  readonly values: Assignment
}

/** Null if no tool takes such a call: it lacks one of the parameters, or one value is in the way of another. */
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

/** The call as rules see it; null if it is refused before any rule is asked. */
export function callOf(example: ExampleCall): Call | null {
  const { source, tool, side_effect: sideEffect, destination, labels } = example
  const params = source === 'agents' ? withPlainPaths(tool, example.params) : example.params
  return params === null ? null : { source, tool, sideEffect, destination, params, labels }
}

export const without = (values: Assignment, path: string): Assignment =>
  new Map([...values].filter(([each]) => each !== path))

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

/** False if another value is in the way. */
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

/** Comparisons of all tries for one rule. */
const mostComparisons = 50_000
/** Values for one parameter of a rule. */
const mostChoices = 40

interface Part {
  readonly param: string
  readonly policy: CompiledPolicy
  /** The last value that fitted comes first. */
  choices: readonly (Json | undefined)[]
}

/** `tried`: both sets decided a call. `too large`: a call or rule needs too many comparisons. Null: anything else. */
export type Step = 'tried' | 'too large' | null

/** At most one matching call for each tool of `headsOf`, of only a few combinations. Yields after each try. */
export function* witnessesOf(
  rule: Matching,
  tools: ExampleTools,
): Generator<Exclude<Step, 'tried'>, readonly Draft[]> {
  const tries = new Tries(mostComparisons, 500)
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

/** Yields after each parameter. */
function* partsOf(facts: ToolFacts, { verdict, params = [] }: Matching): Generator<null, readonly Part[]> {
  const parts: Part[] = []
  for (const [param, conditions] of Map.groupBy(params, (condition) => condition.param)) {
    const choices = choicesFor(conditions.flatMap(valuesOf))
    parts.push({ param, policy: policyOf(facts, { verdict, params: conditions }), choices })
    yield null
  }
  return parts
}

/** Some values by themselves, no value, and a list of simple values. */
const choicesFor = (values: readonly Json[]): readonly (Json | undefined)[] => [
  ...values.slice(0, mostChoices),
  undefined,
  values.filter((value) => typeof value !== 'object').slice(0, mostChoices),
]

import { agentTool, agentToolNames } from './agent-tools.ts'
import { matchesGlob } from './glob.ts'
import type { Matching } from './implication.ts'
import { inRules, type ParamCondition } from './operators/index.ts'
import { listOf, type Scalar } from './operators/operator.ts'
import { destinationParam, type ToolFacts } from './tool-facts.ts'
import type { CallSource, Json, JsonObject, Label, SideEffect } from './types.ts'

/*
 * Examples of calls are built from these parts: tools, labels and values. The conditions of rules mention most of them,
 * but not all.
 */

/** A call without its parameters and labels. */
export interface Head {
  readonly source: CallSource
  readonly tool: string
  /** The side effect that the example should have. A call of an agent has another one if this one is not possible. */
  readonly sideEffect: SideEffect
}

/** Returns the side effects that a call of an agent can have. The first one is the usual one. */
export type AgentEffects = (
  tool: string,
  params: JsonObject,
  labels: readonly Label[],
) => readonly SideEffect[]

/** What is known of the tools of workflows and of agents. */
export interface ExampleTools {
  readonly facts: ToolFacts
  readonly effectsOf: AgentEffects
}

/** A rule gives at most this many heads. */
const mostHeads = 6
/** At most this many values of a list in a rule are taken. */
const mostOfList = 3
/** A tool of an agent's protocol server. Probably no rule mentions it. */
const anyProtocolTool = 'mcp__server__tool'
/** A tool's name has at most this many characters. */
const longestName = 200

/**
 * Returns some tools that the rule covers, as workflows and agents call them. Leaves out tools of workflows that do not
 * have all parameters of the rule, and tools that cannot have a side effect of the rule.
 */
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
  const half = mostHeads / 2
  return [
    ...(sources.includes('workflows') ? ofWorkflows.slice(0, half) : []),
    ...(sources.includes('agents') ? ofAgents.slice(-half) : []),
  ]
}

const firstOf = (path: string): string => path.split('.')[0] ?? path

/** Returns a name that matches the glob, in nearly all cases. Few other globs match this name. */
function nameFor(glob: string): string {
  const name = glob.replaceAll('*', 'any').replaceAll('?', 'q')
  return name.length <= longestName ? name : glob.replaceAll('*', '').replaceAll('?', 'q') || 'any'
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
    // The command decides which side effect these tools have.
    ...(runsCommands(tool) ? [...effectsOf(tool, quiet, labels), ...effectsOf(tool, sending, labels)] : []),
  ]),
]

const quiet = { command: 'echo hello' }
const sending = { command: 'curl https://outside.example' }

/** Returns parameters with which the head has its side effect. */
export const paramsFor = ({ source, tool, sideEffect }: Head): JsonObject =>
  source === 'agents' && runsCommands(tool) ? (sideEffect === 'egress' ? sending : quiet) : {}

/**
 * Returns sets of labels that just meet the rule's conditions, or just do not meet them. Usually the first set meets
 * them.
 */
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

/** Returns the labels that a condition asks for in the sources of a parameter. */
export const labelsOfSources = ({ operator, value }: ParamCondition): readonly Label[] =>
  inRules(operator).reads === 'sources' ? listOf<Scalar>(value).map(String) : []

const unique = <T>(values: readonly T[]): T[] => [...new Set(values)]

/** Returns values for a condition: some that fit, and some that do not fit. */
export const valuesOf = ({ operator, value }: ParamCondition): readonly Json[] =>
  inRules(operator).examples(listOf<Scalar>(value).slice(0, mostOfList))

import { needsClass } from './external-tools.ts'
import { inRules, type ParamCondition, wholesOf } from './operators/index.ts'
import { fold } from './operators/membership.ts'
import { listOf, type Scalar } from './operators/operator.ts'
import { WantedPlaces, type PlaceKind } from './readers/places.ts'
import type { KnownTool, ToolFacts } from './tool-facts.ts'
import { isAgentsTool } from './tool-names.ts'
import type { SideEffect } from './types.ts'

/* A rule that would never match, which nobody would notice. Refused only if certain (docs/decisions/0192). */

interface Issue {
  readonly path: readonly (string | number)[]
  readonly message: string
}

export interface Fields {
  /** Label rules have none, and match like a rule that restricts. */
  readonly verdict?: string | undefined
  readonly tools?: readonly string[] | undefined
  readonly side_effects?: readonly SideEffect[] | undefined
  readonly params?: readonly ParamCondition[] | undefined
  readonly applies_to?: readonly string[] | undefined
  readonly classed?: false | undefined
  readonly approver_may_edit?: readonly string[] | undefined
}

interface Checked extends Fields {
  readonly facts: ToolFacts
}

const isForWorkflowsAlone = ({ applies_to: sources }: Fields): boolean =>
  sources !== undefined && !sources.includes('agents')

/** Each issue names the field to change. */
export function contradictions(facts: ToolFacts, fields: Fields): readonly Issue[] {
  const rule = { ...fields, facts }
  const found = [
    foreignTools(rule),
    classedTools(rule),
    otherSideEffects(rule),
    absentAndThere(rule),
    differentValues(rule),
  ]
  return [...found.filter((issue) => issue !== null), ...noPlaces(rule)]
}

/** The rule is for workflows alone, and names only tools that none has. */
function foreignTools(rule: Fields): Issue | null {
  const [tool] = rule.tools ?? []
  if (tool === undefined || !isForWorkflowsAlone(rule)) return null
  if (!rule.tools?.every((glob) => isAgentsTool(glob))) return null
  return {
    path: ['applies_to'],
    message: `leaves agents out, but only agents have the tool \`${tool}\`, so the rule would never match: add \`agents\`, or name tools of the catalogue`,
  }
}

/** The rule is only for unclassed tools, but for none that can be unclassed. */
function classedTools({ classed, tools, ...rule }: Fields): Issue | null {
  if (classed === undefined) return null
  if (!isForWorkflowsAlone(rule) && tools?.some(needsClass) !== false) return null
  return {
    path: ['classed'],
    message:
      'false means a tool of agents that the service does not know, and the rule names none, so the rule would never match: leave `classed` out, or name other tools and `agents`',
  }
}

/** None of the rule's tools has a listed one. Not for agents, whose tools may declare other side effects. */
function otherSideEffects(rule: Checked): Issue | null {
  const { tools, side_effects: wanted } = rule
  if (tools === undefined || wanted === undefined || !isForWorkflowsAlone(rule)) return null
  const named = rule.facts.covered(tools)
  const [first] = named
  const effectsOf = ({ sideEffect, freeTexts }: KnownTool): readonly SideEffect[] =>
    freeTexts.length > 0 ? [sideEffect, 'egress'] : [sideEffect]
  if (first === undefined || named.some((tool) => effectsOf(tool).some((each) => wanted.includes(each))))
    return null
  const own = [...new Set(named.map(({ sideEffect }) => `\`${sideEffect}\``))].join(' or ')
  const what = named.length === 1 ? `\`${first.name}\` is` : 'the named tools are'
  return {
    path: ['side_effects'],
    message: `${what} ${own}, so the rule would never match: leave \`side_effects\` out, or name other tools`,
  }
}

const needsValue = ({ operator, value }: ParamCondition): boolean =>
  inRules(operator).needsValue(listOf<Scalar>(value))

/** A call may leave out the parameter. Only rules that restrict see defaults. */
function mayFitDefault(
  { facts, verdict, tools }: Checked,
  { param, operator, value }: ParamCondition,
): boolean {
  if (verdict === 'allow' || inRules(operator).reads !== 'values') return false
  const defaults = facts.covered(tools).flatMap((tool) => [...(tool.defaults ?? [])])
  const values = defaults.flatMap(([name, each]) => (param === '*' || param === name ? [each] : []))
  if (wholesOf(operator) !== 'listed') return values.length > 0
  const wanted = new Set<unknown>(listOf<Scalar>(value))
  return values.some((each) => wanted.has(each))
}

/** Only whole parameters: paths may lead to different elements. In a rule that restricts, a default may fit both. */
function absentAndThere(rule: Checked): Issue | null {
  const { params = [] } = rule
  const absent = new Set(
    params.flatMap((condition) => {
      const { param, operator } = condition
      const asksForNone = inRules(operator).reads === 'presence' && !needsValue(condition)
      return asksForNone && !param.includes('.') ? [param] : []
    }),
  )
  const at = params.findIndex(
    (condition) => absent.has(condition.param) && needsValue(condition) && !mayFitDefault(rule, condition),
  )
  const { param, operator } = params[at] ?? {}
  if (param === undefined) return null
  return {
    path: ['params', at],
    message: `\`${operator}\` needs a value in \`${param}\`, and another condition says that there is none (\`exists\` is false), so the rule would never match: take one of them out`,
  }
}

interface Comparison {
  readonly at: number
  readonly param: string
  readonly isNegative: boolean
  readonly values: readonly Scalar[]
}

/** No single value fits every condition on one parameter. */
function differentValues(rule: Checked): Issue | null {
  const compared = (rule.params ?? []).flatMap(({ param, operator, value }, at): Comparison[] => {
    const wholes = wholesOf(operator)
    if (wholes === null) return []
    return [{ at, param, isNegative: wholes === 'excluded', values: listOf<Scalar>(value) }]
  })
  for (const [param, group] of Map.groupBy(compared, (each) => each.param)) {
    if (group.length === 1 || !comparesOneValue(rule, param, group)) continue
    const unfit = group[firstUnfit(rule, param, group)]
    if (unfit === undefined) continue
    return {
      path: ['params', unfit.at],
      message: `no value of \`${param}\` fits this condition and the conditions before it, so the rule would never match: ${adviceFor(unfit)}`,
    }
  }
  return null
}

const adviceFor = ({ isNegative }: Comparison): string =>
  isNegative
    ? 'take one of them out'
    : 'take one of them out, or list all values in one `in` (a text such as `"1"` never equals a number)'

/** The first condition at which no value is left; -1 if one is. For `allow`, texts may be names of one place. */
function firstUnfit({ facts, verdict }: Checked, param: string, conditions: readonly Comparison[]): number {
  const texts = firstEmpty(conditions, (values) => values.map(fold))
  if (texts < 0 || verdict !== 'allow') return texts
  const places = kindsIn(facts, param).map((kind) => firstEmpty(conditions, placesAs(kind)))
  return places.includes(-1) ? -1 : Math.max(texts, ...places)
}

/** Compared as a whole, but no place in any tool of the rule, such as `acme/*`. With `@` it may be an address. */
function noPlaces({ facts, tools = [], params = [] }: Checked): Issue[] {
  const found: Issue[] = []
  for (const [at, { param, operator, value }] of params.entries()) {
    if (wholesOf(operator) !== 'listed') continue
    const kinds = [...new Set(tools.map((tool) => facts.get(tool)?.places?.get(param) ?? null))]
    if (kinds.length === 0 || kinds.includes(null)) continue
    for (const [index, each] of listOf<Scalar>(value).entries()) {
      if (found.length >= 100) return found
      if (typeof each !== 'string' || each.includes('@') || isPlace(each, kinds)) continue
      const path = ['params', at, 'value', ...(Array.isArray(value) ? [index] : [])]
      const message = `cannot be a value of \`${param}\`, and is compared as a whole: write the full name, or compare the beginning of the name with \`startswith\``
      found.push({ path, message })
    }
  }
  return found
}

const isPlace = (text: string, kinds: readonly (PlaceKind | null)[]): boolean =>
  kinds.some((kind) => kind !== null && new WantedPlaces([text], true).wholes(kind).size > 0)

type Read = (values: readonly Scalar[], isNegative: boolean) => Iterable<Scalar>

/** The first condition after which no listed value is left; -1 if one is left, or if there is no positive one. */
function firstEmpty(conditions: readonly Comparison[], read: Read): number {
  let left: Set<Scalar> | null = null
  const excluded = new Set<Scalar>()
  return conditions.findIndex(({ isNegative, values: written }) => {
    const values = new Set(read(written, isNegative))
    if (isNegative) for (const each of values) excluded.add(each)
    if (!isNegative) left = left === null ? values : new Set([...left].filter((each) => values.has(each)))
    for (const each of left ?? []) if (excluded.has(each)) left?.delete(each)
    return left?.size === 0
  })
}

function kindsIn({ tools }: ToolFacts, path: string): readonly PlaceKind[] {
  const [param = ''] = path.split('.')
  return [...new Set(tools.flatMap(({ places }) => places?.get(param) ?? []))]
}

/** In an `allow` rule, two texts can name one place: `owner/name` and its link. */
const placesAs =
  (kind: PlaceKind): Read =>
  (values, isNegative) =>
    new WantedPlaces(values, false, isNegative).wholes(kind)

/**
 * Whether all conditions on a parameter compare the same single value. In an `allow` rule every value must fit every
 * condition, so this is true but for `*`. In any other, a different element of a list may fit each, so all of this must
 * hold:
 * - The path is a whole parameter that holds one value in each tool of the rule.
 * - It names no place there, because a place that cannot be read fits every condition.
 * - No condition compares with an address, because a text can have several.
 * - With a negative condition, no tool has a default for it: the default may fit a positive condition, and the absent
 *   parameter the negative one.
 */
function comparesOneValue(
  { facts, verdict, tools = ['*'] }: Checked,
  param: string,
  conditions: readonly Comparison[],
): boolean {
  if (verdict === 'allow') return param !== '*'
  if (param.includes('.')) return false
  if (conditions.flatMap(({ values }) => values).some((each) => `${each}`.includes('@'))) return false
  const hasExceptions = conditions.some(({ isNegative }) => isNegative)
  return tools.every((tool) => {
    const { places, defaults } = facts.reading(tool, 'workflows')
    if (facts.mayHoldSeveral(tool, param) || places?.has(param) === true) return false
    return !hasExceptions || defaults?.has(param) !== true
  })
}

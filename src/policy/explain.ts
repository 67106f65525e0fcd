import { inRules, type ParamCondition } from './operators/index.ts'
import { listOf, type Scalar } from './operators/operator.ts'
import type { RuleBody } from './rule.ts'
import type { Verdict } from './types.ts'
import { list, quote } from './words.ts'

export type Described = Pick<RuleBody, 'side_effects' | 'tools' | 'labels' | 'params' | 'classed'>

/**
 * Describes a rule's conditions in one clause, e.g. "it sends data out and `to` is outside `acme.com`". Never throws,
 * so that a damaged rule can still restrict.
 */
export function describeConditions(rule: Described): string {
  try {
    return describeAll(rule)
  } catch {
    return 'its conditions cannot be read'
  }
}

function describeAll(rule: Described): string {
  return joinClauses([
    ...describeScope(rule),
    ...labelConditions.flatMap((which) => describeLabels(rule, which) ?? []),
    ...(rule.params ?? []).map(describeCondition),
  ])
}

/** Joins clauses into one. Without clauses, returns words that say that the rule covers every call. */
export function joinClauses(clauses: readonly string[]): string {
  return clauses.length === 0 ? 'it covers every call' : list(clauses, 'and', clauses.length)
}

/** Returns the words for a side effect in a sentence about a call, e.g. "sends data out" for `egress`. */
export const effectWord = (effect: string): string => effectWords[effect] ?? effect

const effectWords: Readonly<Record<string, string>> = {
  read: 'reads data',
  write: 'changes something',
  egress: 'sends data out',
}

/** Returns one clause for each condition that depends only on the tool. */
export function describeScope(rule: Described): string[] {
  return [
    ...(rule.side_effects === undefined ? [] : [`it ${list(rule.side_effects.map(effectWord), 'or')}`]),
    ...(rule.tools === undefined ? [] : [`the tool matches ${list(rule.tools.map(quote), 'or')}`]),
    ...(rule.classed === undefined ? [] : ['nobody has said what the tool does (`external_tools`)']),
  ]
}

export const labelConditions = ['any_of', 'all_of', 'none_of'] as const

/** Describes the rule's condition `which` on labels; null if the rule has none. */
export function describeLabels(
  { labels }: Described,
  which: (typeof labelConditions)[number],
): string | null {
  const wanted = labels?.[which]
  if (!wanted) return null
  const is = which === 'none_of' ? 'is not' : 'is'
  return `the data ${is} labelled ${list(wanted, which === 'all_of' ? 'and' : 'or')}`
}

export function describeCondition(condition: ParamCondition): string {
  const param = condition.param === '*' ? 'a parameter' : quote(condition.param)
  return inRules(condition.operator).words(param, listOf<Scalar>(condition.value))
}

const verbs: Record<Verdict, string> = { allow: 'allows', require_approval: 'holds', deny: 'denies' }

/** Returns one sentence that says why a rule decided a call. */
export function explainVerdict(
  rule: { name: string; verdict: Verdict; because: string },
  tool: string,
): string {
  return `Rule ${quote(rule.name)} ${verbs[rule.verdict]} ${quote(tool)} because ${becauseFor(rule, tool)}.`
}

/**
 * Returns the reason of a rule, for a sentence that already names the tool. If the rule names the tool too, the reason
 * says `it names this tool`, and does not list all names in the rule.
 */
function becauseFor({ because }: { because: string }, tool: string): string {
  return because.replace(toolsClause, (clause) =>
    clause.includes(quote(tool)) ? 'it names this tool' : clause,
  )
}

const toolsClause = /the tool matches `[^`]*`(?:, `[^`]*`)*(?: or (?:`[^`]*`|\d+ more))?/

/** Returns one sentence for a call that is denied because a rule requires an approval and approvals are off. */
export function explainApprovalsOff(rule: { name: string; because: string }, tool: string): string {
  return `Rule ${quote(rule.name)} wants an approval for ${quote(tool)} because ${becauseFor(rule, tool)}, but approvals are off for this organization, so the call is denied.`
}

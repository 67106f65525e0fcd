import { inRules, type ParamCondition } from './operators/index.ts'
import { listOf, type Scalar } from './operators/operator.ts'
import type { RuleBody } from './rule.ts'
import type { Verdict } from './types.ts'
import { list, quote } from './text.ts'

export type Described = Pick<RuleBody, 'side_effects' | 'tools' | 'labels' | 'params' | 'classed'>

/** "it sends data out and `to` is outside `acme.com`". Never throws, so that a damaged rule can still restrict. */
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

export function joinClauses(clauses: readonly string[]): string {
  return clauses.length === 0 ? 'it covers every call' : list(clauses, 'and', clauses.length)
}

export const effectWord = (effect: string): string => effectWords[effect] ?? effect

const effectWords: Readonly<Record<string, string>> = {
  read: 'reads data',
  write: 'changes something',
  egress: 'sends data out',
}

/** One clause for each condition that depends only on the tool. */
export function describeScope(rule: Described): string[] {
  return [
    ...(rule.side_effects === undefined ? [] : [`it ${list(rule.side_effects.map(effectWord), 'or')}`]),
    ...(rule.tools === undefined ? [] : [`the tool matches ${list(rule.tools.map(quote), 'or')}`]),
    ...(rule.classed === undefined ? [] : ['nobody has said what the tool does (`external_tools`)']),
  ]
}

export const labelConditions = ['any_of', 'all_of', 'none_of'] as const

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

export function explainVerdict(
  rule: { name: string; verdict: Verdict; because: string },
  tool: string,
): string {
  return `Rule ${quote(rule.name)} ${verbs[rule.verdict]} ${quote(tool)} because ${becauseFor(rule, tool)}.`
}

/** A rule may list many tools, but the sentence names the tool already. */
function becauseFor({ because }: { because: string }, tool: string): string {
  return because.replace(toolsClause, (clause) =>
    clause.includes(quote(tool)) ? 'it names this tool' : clause,
  )
}

const toolsClause = /the tool matches `[^`]*`(?:, `[^`]*`)*(?: or (?:`[^`]*`|\d+ more))?/

export function explainApprovalsOff(rule: { name: string; because: string }, tool: string): string {
  return `Rule ${quote(rule.name)} wants an approval for ${quote(tool)} because ${becauseFor(rule, tool)}, but approvals are off for this organization, so the call is denied.`
}

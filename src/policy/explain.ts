import type { ParamCondition } from './condition.ts'
import type { RuleBody } from './rule.ts'
import type { Verdict } from './types.ts'

const shown = 5

type Described = Pick<RuleBody, 'side_effects' | 'tools' | 'labels' | 'params'>

/**
 * A rule's conditions as one clause, e.g. "its side effect is egress and `to` is outside acme.com"; built once, when
 * compiling. Never throws, so that a damaged rule can still restrict.
 */
export function describeConditions(rule: Described): string {
  try {
    return describeAll(rule)
  } catch {
    return 'its conditions cannot be read'
  }
}

function describeAll(rule: Described): string {
  const clauses: string[] = []
  if (rule.side_effects !== undefined) clauses.push(`its side effect is ${list(rule.side_effects, 'or')}`)
  if (rule.tools !== undefined) clauses.push(`the tool matches ${list(rule.tools.map(quote), 'or')}`)
  if (rule.labels?.any_of) clauses.push(`the data is labelled ${list(rule.labels.any_of, 'or')}`)
  if (rule.labels?.all_of) clauses.push(`the data is labelled ${list(rule.labels.all_of, 'and')}`)
  if (rule.labels?.none_of) clauses.push(`the data is not labelled ${list(rule.labels.none_of, 'or')}`)
  for (const condition of rule.params ?? []) clauses.push(describeCondition(condition))
  return clauses.length === 0 ? 'it covers every call' : list(clauses, 'and', clauses.length)
}

function describeCondition(condition: ParamCondition): string {
  const param = condition.param === '*' ? 'a parameter' : quote(condition.param)
  switch (condition.operator) {
    case 'equals':
      return `${param} is ${value(condition.value)}`
    case 'in':
      return `${param} is ${list(condition.value.map(value), 'or')}`
    case 'not_in':
      return `${param} is not ${list(condition.value.map(value), 'or')}`
    case 'contains':
      return `${param} contains ${value(condition.value)}`
    case 'startswith':
      return `${param} starts with ${value(condition.value)}`
    case 'domain_in':
      return `${param} is in ${list(condition.value, 'or')}`
    case 'domain_not_in':
      return `${param} is outside ${list(condition.value, 'and')}`
    case 'exists':
      return `${param} is ${condition.value ? 'there' : 'missing'}`
    default:
      return `${param} comes from data labelled ${list(condition.value, 'or')}`
  }
}

const verbs: Record<Verdict, string> = { allow: 'allows', require_approval: 'holds', deny: 'denies' }

/** One plain sentence on why a rule decided a call. */
export function explainVerdict(
  rule: { name: string; verdict: Verdict; because: string },
  tool: string,
): string {
  return `Rule ${quote(rule.name)} ${verbs[rule.verdict]} ${quote(tool)} because ${rule.because}.`
}

/** The same for a hold that cannot be granted. */
export function explainApprovalsOff(rule: { name: string; because: string }, tool: string): string {
  return `Rule ${quote(rule.name)} wants an approval for ${quote(tool)} because ${rule.because}, but approvals are off for this organization, so the call is denied.`
}

function value(of: string | number | boolean): string {
  const text = String(of)
  return quote(text.length > 80 ? `${text.slice(0, 79)}…` : text)
}

function quote(text: string): string {
  return `\`${text}\``
}

function list(items: readonly string[], word: 'and' | 'or', most = shown): string {
  const kept = items.slice(0, most)
  if (items.length > most) kept.push(`${items.length - most} more`)
  const last = kept.pop() ?? ''
  return kept.length === 0 ? last : `${kept.join(', ')} ${word} ${last}`
}

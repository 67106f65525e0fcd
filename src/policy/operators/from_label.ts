import { anyOf } from '../label-sets.ts'
import { labelSlug, list } from '../text.ts'
import { least, maybe, no, type Tri, yes } from '../tri.ts'
import type { Label } from '../types.ts'
import type { Found } from '../values.ts'
import { isSubset, otherText } from './comparison.ts'
import type { AskingSources, Operator, Place, TestedCall } from './operator.ts'
import { listed } from './operands.ts'

const rules = {
  reads: 'sources',
  operand: { form: 'Label', schema: listed(labelSlug) },
  compile(values, place) {
    if (!values.every((each) => typeof each === 'string')) throw new TypeError('labels must be text')
    const wanted = new Set(values)
    return (found, call) => origin(found, wanted, place, call)
  },
  words: (param, values) => `${param} comes from data labelled ${list(values.map(String), 'or')}`,
  verb: 'carries it',
  examples: () => [otherText, ''],
  needsValue: () => false,
  implies: isSubset,
} as const satisfies AskingSources

export const fromLabel = { name: 'from_label', rules } as const satisfies Operator

function origin(
  found: Found,
  wanted: ReadonlySet<Label>,
  { path, isRestrictive }: Place,
  { labels, origins, budget }: TestedCall,
): Tri {
  if (origins === null) {
    const isThere = found.isThere ? yes : found.mayBeThere ? maybe : no
    return least(isThere, anyOf(wanted, labels, budget))
  }
  let any: Tri = no
  let all: Tri = yes
  for (const [built, labels] of origins) {
    budget.spend(1)
    if (!overlaps(path, built === '' ? [] : built.split('.'))) continue
    const each = anyOf(wanted, labels, budget)
    if (each > any) any = each
    all = least(all, each)
  }
  return isRestrictive ? any : least(any, all)
}

/** Whether one path begins the other. The rule's may omit list positions: `to.email` overlaps `to.0.email`. */
export function overlaps(rule: readonly string[], built: readonly string[]): boolean {
  let r = 0
  let b = 0
  while (r < rule.length && b < built.length) {
    if (rule[r] === '*' || rule[r] === built[b]) r++
    else if (!isPosition(built[b]) || isPosition(rule[r])) return false
    b++
  }
  return true
}

function isPosition(segment: string | undefined): boolean {
  return segment !== undefined && /^\d+$/.test(segment)
}

import type { Budget } from './budget.ts'
import { maybe, no, type Tri, yes } from './tri.ts'
import type { Label } from './types.ts'

/** What the data certainly has, and what it may have. Of a concrete call, both are the same. */
export interface LabelSets {
  readonly definite: ReadonlySet<Label>
  readonly possible: ReadonlySet<Label>
  /** Unknown values can bring further labels. */
  readonly isOpen: boolean
}

export function knownLabels(labels: readonly Label[]): LabelSets {
  const set = new Set(labels)
  return { definite: set, possible: set, isOpen: false }
}

/** By parameter (a dotted path), the labels of its sources. */
export type Origins = ReadonlyMap<string, LabelSets>

export function anyOf(wanted: ReadonlySet<Label>, labels: LabelSets, budget: Budget): Tri {
  if (meet(wanted, labels.definite, budget)) return yes
  if (labels.isOpen) return maybe
  return labels.possible !== labels.definite && meet(wanted, labels.possible, budget) ? maybe : no
}

export function allOf(wanted: ReadonlySet<Label>, labels: LabelSets, budget: Budget): Tri {
  if (isWithin(wanted, labels.definite, budget)) return yes
  if (labels.isOpen) return maybe
  return labels.possible !== labels.definite && isWithin(wanted, labels.possible, budget) ? maybe : no
}

/** Spends one comparison for each label of the smaller set. */
function meet(a: ReadonlySet<Label>, b: ReadonlySet<Label>, budget: Budget): boolean {
  const [few, many] = a.size < b.size ? [a, b] : [b, a]
  budget.spend(few.size)
  for (const label of few) if (many.has(label)) return true
  return false
}

function isWithin(part: ReadonlySet<Label>, whole: ReadonlySet<Label>, budget: Budget): boolean {
  if (part.size > whole.size) return false
  budget.spend(part.size)
  for (const label of part) if (!whole.has(label)) return false
  return true
}

import type { Budget } from './budget.ts'
import { maybe, no, type Tri, yes } from './tri.ts'
import type { Label } from './types.ts'

/**
 * The labels that the data certainly has (`definite`), and those that it may have (`possible`). In a concrete call,
 * both sets are the same.
 */
export interface LabelSets {
  readonly definite: ReadonlySet<Label>
  readonly possible: ReadonlySet<Label>
  /** True if unknown values can bring further labels, which are not in `possible`. */
  readonly isOpen: boolean
}

/** Returns the labels of a concrete call as sets. */
export function knownLabels(labels: readonly Label[]): LabelSets {
  const set = new Set(labels)
  return { definite: set, possible: set, isOpen: false }
}

/** For each parameter (a dotted path), the labels of the sources from which it was built. */
export type Origins = ReadonlyMap<string, LabelSets>

/** Whether the labels have one of the wanted labels. */
export function anyOf(wanted: ReadonlySet<Label>, labels: LabelSets, budget: Budget): Tri {
  if (meet(wanted, labels.definite, budget)) return yes
  if (labels.isOpen) return maybe
  return labels.possible !== labels.definite && meet(wanted, labels.possible, budget) ? maybe : no
}

/** Whether the labels have all wanted labels. */
export function allOf(wanted: ReadonlySet<Label>, labels: LabelSets, budget: Budget): Tri {
  if (isWithin(wanted, labels.definite, budget)) return yes
  if (labels.isOpen) return maybe
  return labels.possible !== labels.definite && isWithin(wanted, labels.possible, budget) ? maybe : no
}

/** Whether the two sets share a label. Spends one comparison for each label of the smaller set. */
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

import type { Budget } from './budget.ts'
import type { LabelSets, Origins } from './label-sets.ts'

/** The labels of a value if nothing is known about them. */
const anything: LabelSets = { definite: new Set(), possible: new Set(), isOpen: true }

/** Each copied label costs one comparison. Once the budget is used up, any label is possible. */
export function unite(
  ids: readonly string[],
  outputs: ReadonlyMap<string, LabelSets>,
  budget: Budget,
): LabelSets {
  const sets = ids.map((id) => outputs.get(id) ?? anything)
  const size = sets.reduce((sum, set) => sum + set.definite.size + set.possible.size, 0)
  if (size > 0 && !budget.affords(size)) return anything
  return {
    definite: new Set(sets.flatMap((set) => [...set.definite])),
    possible: new Set(sets.flatMap((set) => [...set.possible])),
    isOpen: sets.some((set) => set.isOpen),
  }
}

/** By the dotted path of the parameter. */
export function originsOf(
  sources: ReadonlyMap<string, readonly string[]>,
  outputs: ReadonlyMap<string, LabelSets>,
  budget: Budget,
): Origins {
  return new Map([...sources].map(([path, ids]) => [path, unite(ids, outputs, budget)] as const))
}

import type { CompiledPolicy } from './compile.ts'
import type { LabelSets } from './label-sets.ts'
import { type Planned, type Running, isDefinite, outcomeOf } from './plan-cases.ts'
import { type Tri, no, yes } from './tri.ts'
import type { Label } from './types.ts'

/** No label is definite if the step may be skipped, run for no item, or fail with `on_error: continue`. */
export function outputLabels(policy: CompiledPolicy, planned: Planned, { runs, calls }: Running): LabelSets {
  const { step, labels, budget, atStart } = planned
  if (runs === no) {
    const passedOn = { definite: new Set<Label>(), possible: labels.possible, isOpen: labels.isOpen }
    atStart.add(planned, passedOn, [])
    return passedOn
  }
  const made: { labels: readonly Label[]; occurs: Tri }[] = [{ labels: step.outputLabels, occurs: runs }]
  const definite = new Set([...labels.definite, ...step.outputLabels])
  const possible = new Set([...labels.possible, ...step.outputLabels])
  let isOpen = labels.isOpen || step.bringsOwnLabels === true
  for (const rule of step.tool === null ? [] : policy.labelRulesFor(step.tool)) {
    const outcome = outcomeOf(rule, calls)
    if (outcome.matches === no) continue
    if (!budget.affords(rule.addLabels.length)) {
      isOpen = true
      break
    }
    for (const label of rule.addLabels) {
      possible.add(label)
      if (isDefinite(outcome)) definite.add(label)
    }
    if (outcome.matches === yes) made.push({ labels: rule.addLabels, occurs: outcome.occurs })
  }
  const isCertain = runs === yes && step.onError !== 'continue'
  const output = { definite: isCertain ? definite : new Set<Label>(), possible, isOpen }
  atStart.add(planned, output, made)
  return output
}

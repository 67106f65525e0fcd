import type { StepView } from '../../governance/runs/read/read.ts'
import { wordOf } from './state.ts'

/** The progress of a `for_each` step as a short and a full text; null for a step without items. */
export function itemWords({
  items,
}: Pick<StepView, 'items'>): { readonly short: string; readonly whole: string } | null {
  if (items === null) return null
  const { total, states } = items
  const number = (count: number): string => count.toLocaleString('en')
  const counts = Object.entries(states).filter(([, count]) => count > 0)
  const begun = counts.reduce((sum, [, count]) => sum + count, 0)
  const parts = counts.map(([state, count]) => {
    const word = state === 'held' && count !== 1 ? 'wait for approval' : wordOf(state).toLowerCase()
    return `${number(count)} ${word}`
  })
  if (begun < total) parts.push(`${number(total - begun)} not started`)
  const noun = total === 1 ? 'item' : 'items'
  return {
    short: `${number(states.completed ?? 0)} of ${number(total)} ${noun}`,
    whole: total === 0 ? 'no items' : `${number(total)} ${noun}: ${parts.join(', ')}`,
  }
}

import type { StepView } from '../../governance/runs/read/read.ts'
import { wordOf } from './state.ts'

/** How far the items of a `for_each` step are, in few words and in all; null for a step without items. */
export function itemWords({
  items,
}: Pick<StepView, 'items'>): { readonly short: string; readonly whole: string } | null {
  if (items === null) return null
  const { total, states } = items
  const number = (count: number): string => count.toLocaleString('en')
  const counts = Object.entries(states).filter(([, count]) => count > 0)
  const begun = counts.reduce((sum, [, count]) => sum + count, 0)
  const parts = counts.map(([state, count]) => `${number(count)} ${wordOf(state).toLowerCase()}`)
  if (begun < total) parts.push(`${number(total - begun)} not started`)
  const noun = total === 1 ? 'item' : 'items'
  return {
    short: `${number(states.completed ?? 0)} of ${number(total)} ${noun}`,
    whole: total === 0 ? 'no items' : `${number(total)} ${noun}: ${parts.join(', ')}`,
  }
}

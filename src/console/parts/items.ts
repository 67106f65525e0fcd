import type { StepView } from '../../governance/runs/read/read.ts'
import { wordOf } from './state.ts'

/**
 * Returns the progress of a `for_each` step as a short text and as a full text. Returns null for any other step, and
 * for a `for_each` step whose items are not counted yet.
 */
export function itemWords({
  kind,
  items,
}: Pick<StepView, 'kind' | 'items'>): { readonly short: string; readonly whole: string } | null {
  if (items === null) return null
  const { total, states } = items
  const number = (count: number): string => count.toLocaleString('en')
  const counts = Object.entries(states).filter(([, count]) => count > 0)
  const begun = counts.reduce((sum, [, count]) => sum + count, 0)
  const parts = counts.map(([state, count]) => {
    const shown = state === 'held' && kind !== 'tool' ? 'waiting' : state
    const word = shown === 'held' && count !== 1 ? 'wait for approval' : wordOf(shown).toLowerCase()
    return `${number(count)} ${word}`
  })
  if (begun < total) parts.push(`${number(total - begun)} not started`)
  const noun = total === 1 ? 'item' : 'items'
  return {
    short: `${number(states.completed ?? 0)} of ${number(total)} ${noun}`,
    whole: total === 0 ? 'no items' : `${number(total)} ${noun}: ${parts.join(', ')}`,
  }
}

/** Returns the number of an item as a page shows it. Pages count items from 1, and the API counts from 0. */
export const itemNumber = (index: number): string => (index + 1).toLocaleString('en')

/** Matches item numbers in the sentences of the API: `item 0 of step`, and `at item 0 of 6 (counted from 0)`. */
const apiItem = /\bitem (\d+) of (?:step $|\d+ \(counted from 0\))/g

/**
 * Returns a sentence of the API about a run, with items counted from 1. Example: `at item 0 of 6 (counted from 0)`
 * becomes `at item 1 of 6`. Names in backticks stay as they are.
 */
export const countedFromOne = (text: string): string =>
  text
    .split('`')
    .map((part, index) =>
      index % 2 === 1
        ? part
        : part.replaceAll(apiItem, (found: string, item: string) =>
            found.replace(item, itemNumber(Number(item))).replace(' (counted from 0)', ''),
          ),
    )
    .join('`')

interface OfItem {
  readonly step_id: string | null
  readonly item_index: number | null
}

/**
 * Sorts the items of each step by their number. Only items of the same step change places with each other. All other
 * entries of the list stay where they are.
 */
export function inItemOrder<T extends OfItem & { readonly run_id?: string | null }>(
  list: readonly T[],
): readonly T[] {
  const keyOf = ({ run_id, step_id }: T): string => `${run_id ?? ''}#${step_id ?? ''}`
  const items = list.filter(({ item_index: index }) => index !== null)
  const groups = Map.groupBy(
    items.toSorted((a, b) => (a.item_index ?? 0) - (b.item_index ?? 0)),
    keyOf,
  )
  return list.map((each) => (each.item_index === null ? each : (groups.get(keyOf(each))?.shift() ?? each)))
}

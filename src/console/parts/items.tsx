import type { StepView, RunView } from '../visit.ts'
import { wordOf } from './state.tsx'
import { runEnded } from '../../contract/status.ts'
import { Message, Sentence } from './words.tsx'

/** The words of states that differ for several items. */
const plurals: Readonly<Record<string, string>> = { held: 'wait for approval', waiting: 'wait' }

/** The progress of a `for_each` step; null for others, and before the items are counted. */
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
    const word = (count === 1 ? undefined : plurals[shown]) ?? wordOf(shown).toLowerCase()
    return `${number(count)} ${word}`
  })
  if (begun < total) parts.push(`${number(total - begun)} not started`)
  const noun = total === 1 ? 'item' : 'items'
  return {
    short: `${number(states.completed ?? 0)} of ${number(total)} ${noun}`,
    whole: total === 0 ? 'no items' : `${number(total)} ${noun}: ${parts.join(', ')}`,
  }
}

/** Pages count items from 1, and the API from 0. */
export const itemNumber = (index: number): string => (index + 1).toLocaleString('en')

/** Item numbers in sentences of the API: `item 0 of step`, and `at item 0 of 6 (counted from 0)`. */
const apiItem = /\bitem (\d+) of (?:step $|\d+ \(counted from 0\))/g

/** `at item 0 of 6 (counted from 0)` becomes `at item 1 of 6`. Names in backticks stay. */
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

/** Only items of the same step change places with each other. */
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

type Run = Pick<RunView, 'status' | 'status_reason' | 'steps'>

/** For a run that ended badly: `3 of 6 items of step x completed.` */
export function partlyDone({ status, steps }: Run): string {
  if (!runEnded(status) || status === 'completed') return ''
  const parts = steps.flatMap(({ id, items }) => {
    const done = items?.states.completed ?? 0
    return items === null || done === 0 || done === items.total
      ? []
      : [
          `${done.toLocaleString('en')} of ${items.total.toLocaleString('en')} items of step \`${id}\` completed.`,
        ]
  })
  return parts.slice(0, 3).join(' ')
}

export function RunReason({ run, most }: { run: Run; most?: number }) {
  const done = partlyDone(run)
  return (
    <>
      <Message text={countedFromOne(run.status_reason)} {...(most === undefined ? {} : { most })} />
      {done === '' ? null : (
        <>
          {' '}
          <Sentence text={done} />
        </>
      )}
    </>
  )
}

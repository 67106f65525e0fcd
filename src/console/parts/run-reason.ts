import { h, type ComponentChild } from 'preact'
import { runEnded } from '../../contract/status.ts'
import type { RunView } from '../../governance/runs/read/read.ts'
import { countedFromOne } from './items.ts'
import { Message, Sentence } from './words.ts'

type Run = Pick<RunView, 'status' | 'status_reason' | 'steps'>

/** Maximum number of steps that the sentences name. */
const mostNamed = 3

/**
 * Returns which items of a run completed before the run ended badly. Example: `3 of 6 items of step x completed.`
 * Returns an empty text for other runs.
 */
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
  return parts.slice(0, mostNamed).join(' ')
}

/** Shows the reason for the run's state. If the run ended badly, also shows which items completed before. */
export function RunReason({ run, most }: { readonly run: Run; readonly most?: number }): ComponentChild {
  const done = partlyDone(run)
  return [
    h(Message, { text: countedFromOne(run.status_reason), ...(most === undefined ? {} : { most }) }),
    done === '' ? null : [' ', h(Sentence, { text: done })],
  ]
}

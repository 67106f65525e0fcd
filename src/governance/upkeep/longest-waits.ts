import { longestWaits, type LongestWait } from '../../db/queries/upkeep.ts'
import type { Context } from '../context.ts'

/** One query reads at most this many pending approvals, and at most this many open runs. */
const mostRows = 10_000
/** A wait that is shorter than this is not logged, because somebody probably decides soon. */
const leastSeconds = 60
/** The same wait is logged again after this time, so that the newest log file contains it too. */
const againMilliseconds = 3_600_000

/**
 * Returns a function that logs what has waited longest for a person: the oldest approval of each kind, and the oldest
 * unknown outcome. The function logs an item when the item becomes the oldest of its kind, and again once an hour. The
 * metrics contain only the duration of the longest wait, so the log must name the item.
 */
export function longestWaitsTeller({ db, log }: Pick<Context, 'db' | 'log'>): () => Promise<void> {
  const told = new Map<LongestWait['kind'], { readonly what: string; readonly at: number }>()
  return async () => {
    const { rows } = await longestWaits(mostRows).execute(db)
    for (const { kind, ...wait } of rows) {
      if (wait.waiting_seconds < leastSeconds) continue
      const what = wait.approval_id ?? `${wait.run_id}/${wait.step_id}/${wait.item_index}`
      const last = told.get(kind)
      const now = performance.now()
      if (last?.what === what && now < last.at + againMilliseconds) continue
      told.set(kind, { what, at: now })
      const known = Object.entries(wait).filter(([, value]) => value !== null)
      log.info({ kind, ...Object.fromEntries(known) }, 'this waits longest')
    }
  }
}

import type { Context } from '../context.ts'
import { runEnded } from '../contract/status.ts'

/**
 * Resolves once the run is over, `seconds` have passed or the signal aborts, whichever is first. Subscribes before it
 * looks, and holds no database connection while it waits.
 */
export async function waitForEnd(
  context: Context,
  runId: string,
  seconds: number,
  signal: AbortSignal,
): Promise<void> {
  const wakeUps = subscribeTo(context, runId, AbortSignal.any([signal, AbortSignal.timeout(seconds * 1000)]))
  try {
    while (!(await hasEnded(context, runId)) && (await wakeUps.next())) {
      // look again
    }
  } finally {
    wakeUps.end()
  }
}

async function hasEnded(context: Context, runId: string): Promise<boolean> {
  const row = await context.db.selectFrom('runs').select('status').where('id', '=', runId).executeTakeFirst()
  return row === undefined || runEnded(row.status)
}

/** Wake-ups of one run. One that comes while nobody waits is kept for the next who does. */
export interface WakeUps {
  /** True when the run may have changed since the last call; false once the signal has aborted. */
  next(): Promise<boolean>
  end(): void
}

export function subscribeTo(context: Context, runId: string, signal: AbortSignal): WakeUps {
  let woken = false
  let resume: () => void = () => {}
  const stir = (): void => {
    woken = true
    resume()
  }
  const unsubscribe = context.notifier.subscribe(runId, stir)
  signal.addEventListener('abort', stir)
  return {
    async next() {
      if (!woken && !signal.aborted) await new Promise<void>((resolve) => (resume = resolve))
      woken = false
      return !signal.aborted
    },
    end() {
      unsubscribe()
      signal.removeEventListener('abort', stir)
    },
  }
}

import type { Context } from '../context.ts'
import { runEnded } from '../contract/status.ts'
import type { Asker } from '../governance/agents/ask.ts'
import { readAgentApproval } from '../governance/agents/waiting.ts'

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

/**
 * Resolves once the approval no longer waits, its own time or `seconds` have passed, or the signal aborts. Throws
 * `not_found` for one that is not the asker's.
 */
export async function waitForApproval(
  context: Context,
  asker: Asker,
  approvalId: string,
  seconds: number,
  signal: AbortSignal,
): Promise<void> {
  const until = AbortSignal.any([signal, AbortSignal.timeout(seconds * 1000)])
  const wakeUps = subscribeTo(context, approvalId, until)
  try {
    for (;;) {
      const { status, expires_at } = await readAgentApproval(context, asker, approvalId)
      if (status !== 'pending') return
      const expiry = wakeAt(wakeUps, expires_at)
      const goesOn = await wakeUps.next().finally(() => clearTimeout(expiry))
      if (!goesOn) return
    }
  } finally {
    wakeUps.end()
  }
}

/** Nobody announces that time has passed. */
function wakeAt(wakeUps: WakeUps, time: string | null): NodeJS.Timeout | undefined {
  if (time === null) return undefined
  const left = Math.max(100, new Date(time).getTime() - Date.now())
  return left > longestWait ? undefined : setTimeout(() => wakeUps.stir(), left)
}

const longestWait = 60_000

/** Wake-ups of one run or approval. One that comes while nobody waits is kept for the next who does. */
export interface WakeUps {
  /** True when it may have changed since the last call; false once the signal has aborted. */
  next(): Promise<boolean>
  stir(): void
  end(): void
}

export function subscribeTo(context: Context, id: string, signal: AbortSignal): WakeUps {
  let woken = false
  let resume: () => void = () => {}
  const stir = (): void => {
    woken = true
    resume()
  }
  const unsubscribe = context.notifier.subscribe(id, stir)
  signal.addEventListener('abort', stir)
  return {
    async next() {
      if (!woken && !signal.aborted) await new Promise<void>((resolve) => (resume = resolve))
      woken = false
      return !signal.aborted
    },
    stir,
    end() {
      unsubscribe()
      signal.removeEventListener('abort', stir)
    },
  }
}

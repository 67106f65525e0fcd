import { sql } from 'kysely'
import type { Db } from '../db/schema/index.ts'
import type { Context, Changing } from '../governance/context.ts'
import { runEnded } from '../contract/status.ts'
import type { Asker } from '../calls/agents/ask.ts'
import { readAgentApproval } from '../governance/agents/waiting.ts'

/**
 * Until the run has ended or waits for a person, `seconds` have passed, or the signal aborts. Subscribes before the first read, so no change
 * is missed. Holds no database connection while it waits.
 */
export async function waitForRun(
  context: Pick<Context, 'db' | 'notifier'>,
  runId: string,
  seconds: number,
  signal: AbortSignal,
): Promise<void> {
  const wakeUps = subscribeTo(context, runId, AbortSignal.any([signal, AbortSignal.timeout(seconds * 1000)]))
  try {
    while (!(await isOver(context.db, runId)) && (await wakeUps.next())) {
      // The run may have changed, so the loop reads it again.
    }
  } finally {
    wakeUps.end()
  }
}

async function isOver(db: Db, runId: string): Promise<boolean> {
  const row = await db
    .selectFrom('runs as r')
    .select('r.status')
    .select(
      sql<boolean>`exists (select from approvals a where a.run_id = r.id and a.status = 'pending')`.as(
        'is_held',
      ),
    )
    .where('r.id', '=', runId)
    .executeTakeFirst()
  return row === undefined || runEnded(row.status) || row.is_held
}

/** Until the approval is not pending, `seconds` have passed, or the signal aborts. Throws `not_found` if not own. */
export async function waitForApproval(
  context: Changing & Pick<Context, 'notifier'>,
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
      const expiry = wakeAt(wakeUps, expires_at, seconds)
      const goesOn = await wakeUps.next().finally(() => clearTimeout(expiry))
      if (!goesOn) return
    }
  } finally {
    wakeUps.end()
  }
}

/** No notification announces an expiry. */
function wakeAt(wakeUps: WakeUps, time: string | null, seconds: number): NodeJS.Timeout | undefined {
  if (time === null) return undefined
  const left = Math.max(100, new Date(time).getTime() - Date.now())
  return left > seconds * 1_000 ? undefined : setTimeout(() => wakeUps.stir(), left)
}

/** For one run or approval. After an earlier wake-up, `next()` returns at once. */
export interface WakeUps {
  /** True if the row may have changed since the last call, false if the signal has aborted. */
  next(): Promise<boolean>
  stir(): void
  end(): void
}

export function subscribeTo(context: Pick<Context, 'notifier'>, id: string, signal: AbortSignal): WakeUps {
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

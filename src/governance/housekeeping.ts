import { sql } from 'kysely'
import type { Context } from '../context.ts'
import { pruneStarts } from './runs/load-starts.ts'

/** Says that this process lives; `/health` looks for a worker's row of the last seconds. */
export async function beat(context: Context, kind: 'api' | 'worker'): Promise<void> {
  const row = { process_id: context.config.processId, kind, seen_at: sql<Date>`clock_timestamp()` }
  await context.db
    .insertInto('process_heartbeats')
    .values(row)
    .onConflict((conflict) => conflict.column('process_id').doUpdateSet(row))
    .execute()
}

/** Takes this process's row away when it stops cleanly. */
export async function leave(context: Context): Promise<void> {
  await context.db
    .deleteFrom('process_heartbeats')
    .where('process_id', '=', context.config.processId)
    .execute()
}

/** Forgets what has served: the idempotency marks of runs after 24 h (contract section 1), rows of processes long gone. */
export async function prune(context: Context): Promise<void> {
  await sql`update runs set idempotency_key = null
            where idempotency_key is not null and created_at < now() - interval '24 hours'`.execute(
    context.db,
  )
  await pruneStarts(context)
  await sql`delete from process_heartbeats where seen_at < now() - interval '1 hour'`.execute(context.db)
}

/** Runs `work` again and again until stopped, `seconds` after the last end; a failure is logged and tried again. */
export function every(
  context: Context,
  name: string,
  seconds: number,
  work: () => Promise<unknown>,
): { stop(): Promise<void> } {
  let stopped = false
  let timer: NodeJS.Timeout | undefined
  let running: Promise<unknown> = Promise.resolve()
  const round = (): void => {
    running = work()
      .catch((error: Error) => context.log.warn({ err: error, task: name }, 'a periodic task failed'))
      .finally(() => {
        if (!stopped) timer = setTimeout(round, seconds * 1_000)
      })
  }
  round()
  return {
    async stop() {
      stopped = true
      clearTimeout(timer)
      await running
    },
  }
}

import { sql } from 'kysely'
import { writeRefusal } from '../../db/errors.ts'
import type { Db } from '../../db/schema/index.ts'
import type { Context } from '../context.ts'
import { keptHours } from '../idempotency.ts'

/** `/health` checks that some worker has a recent row, and reports a refusal to write one. */
export async function beat(
  context: Pick<Context, 'config' | 'db' | 'writeTrouble'>,
  kind: 'api' | 'worker',
): Promise<void> {
  const row = { process_id: context.config.processId, kind, seen_at: sql<Date>`clock_timestamp()` }
  try {
    await context.db
      .insertInto('process_heartbeats')
      .values(row)
      .onConflict((conflict) => conflict.column('process_id').doUpdateSet(row))
      .execute()
  } catch (error) {
    const reason = writeRefusal(error)
    if (reason !== null) context.writeTrouble = { at: performance.now(), reason }
    throw error
  }
}

/** On a clean stop. */
export async function leave(context: Pick<Context, 'config' | 'db'>): Promise<void> {
  await context.db
    .deleteFrom('process_heartbeats')
    .where('process_id', '=', context.config.processId)
    .execute()
}

/** Keys of runs after `keptHours`, counts of starts after the run, heartbeats after an hour, claims after a day. */
export async function prune(db: Db): Promise<void> {
  await sql`
    update runs set idempotency_key = null
    where idempotency_key is not null and created_at < now() - make_interval(hours => ${keptHours})`.execute(
    db,
  )
  await sql`delete from call_starts c using runs r where r.id = c.run_id and r.finished_at is not null`.execute(
    db,
  )
  await sql`delete from process_heartbeats where seen_at < now() - interval '1 hour'`.execute(db)
  await sql`delete from connection_attempts where expires_at < now()`.execute(db)
  await sql`delete from slack_claims where created_at < now() - interval '1 day'`.execute(db)
}

/** Each round begins `seconds` after the end of the one before. Logs each failure, and the first success after one. */
export function every(
  context: Pick<Context, 'log' | 'metrics' | 'sparseLog'>,
  name: string,
  seconds: number,
  work: () => Promise<unknown>,
): { stop(): Promise<void> } {
  let stopped = false
  let timer: NodeJS.Timeout | undefined
  let running: Promise<unknown> = Promise.resolve()
  let failed = false
  const round = (): void => {
    running = work()
      .then(
        () => {
          if (failed) context.log.info({ task: name }, 'a periodic task works again')
          failed = false
          context.metrics.tasks.inc({ task: name, result: 'success' })
          context.metrics.taskSuccess.set({ task: name }, Date.now() / 1_000)
        },
        (error: Error) => {
          failed = true
          context.metrics.tasks.inc({ task: name, result: 'failure' })
          context.sparseLog.warn(`task ${name}`, { err: error, task: name }, 'a periodic task failed')
        },
      )
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

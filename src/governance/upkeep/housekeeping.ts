import { sql } from 'kysely'
import { writeRefusal } from '../../db/errors.ts'
import type { Db } from '../../db/schema/index.ts'
import type { Context, Configured } from '../context.ts'
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
export async function leave(context: Configured): Promise<void> {
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
  await sql`delete from sign_in_attempts where expires_at < now()`.execute(db)
  await sql`delete from slack_claims where created_at < now() - interval '1 day'`.execute(db)
}

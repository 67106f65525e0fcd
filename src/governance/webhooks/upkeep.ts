import { sql } from 'kysely'
import type { Db } from '../../db/schema/index.ts'

/** How many ended deliveries a webhook keeps, and for how many days. */
export const keptDays = 30
export const keptDeliveries = 1_000

/** Rows of one statement. */
const batch = 1_000

/** Fails deliveries after `give_up_at`, then removes old ones and events without any. Processes take different rows. */
export async function removeOldDeliveries(db: Db): Promise<void> {
  await inBatches(() => expire(db))
  await inBatches(() => remove(db, sql`ended_at < clock_timestamp() - make_interval(days => ${keptDays})`))
  await inBatches(() => remove(db, sql`not exists (select from webhooks w where w.id = webhook_id)`))
  await inBatches(() =>
    remove(
      db,
      sql`id in (select d.id from webhooks w cross join lateral (
                   select id from webhook_deliveries
                   where webhook_id = w.id and ended_at is not null
                   order by id desc offset ${keptDeliveries} limit ${batch}
                 ) as d limit ${batch})`,
    ),
  )
  // Their deliveries were removed above, or their webhooks were gone or turned off before one was written.
  await inBatches(async () => {
    const { numAffectedRows = 0n } = await sql`
      delete from webhook_events where id in (
        select e.id from webhook_events e
        where e.message is not null and not exists (select from webhook_deliveries d where d.event_id = e.id)
        limit ${batch} for update skip locked)`.execute(db)
    return numAffectedRows
  })
}

async function expire(db: Db): Promise<bigint> {
  const { numAffectedRows = 0n } = await sql`
    update webhook_deliveries set state = 'failed', next_attempt_at = null, ended_at = clock_timestamp(),
      last_error = coalesce(last_error, 'the webhook was turned off or failing for a day')
    where id in (select id from webhook_deliveries where state = 'waiting' and give_up_at <= clock_timestamp()
                 limit ${batch} for update skip locked)`.execute(db)
  return numAffectedRows
}

async function remove(db: Db, where: ReturnType<typeof sql>): Promise<bigint> {
  const { numAffectedRows = 0n } = await sql`
    delete from webhook_deliveries
    where id in (select id from webhook_deliveries where ${where} limit ${batch} for update skip locked)`.execute(
    db,
  )
  return numAffectedRows
}

async function inBatches(work: () => Promise<bigint>): Promise<void> {
  for (;;) if ((await work()) < batch) return
}

import { sql, type Transaction } from 'kysely'
import { newId } from '../../contract/ids.ts'
import { newWebhookEvents } from '../../db/queries/webhooks.ts'
import type { Database } from '../../db/schema/index.ts'
import { publicBase } from '../../shared/config.ts'
import { faultSwitch } from '../audit/commit-points.ts'
import type { Context } from '../context.ts'
import { giveUpSeconds } from './deliveries.ts'
import { messageOf, type EventRow } from './message.ts'

/** One transaction handles at most this many events. */
const batch = 100

/** A webhook has at most this many waiting deliveries. Further deliveries fail at once. */
export const mostWaiting = 10_000

/**
 * Writes the message of each new event (commit point `webhook.fan_out`). Also writes one delivery for each webhook that
 * the event names and that is still active. Concurrent processes take different events. Returns the number of events.
 */
export async function fanOut(context: Pick<Context, 'config' | 'db'>): Promise<number> {
  for (let total = 0; ;) {
    const count = await context.db.transaction().execute(async (trx) => {
      const done = await fanOutBatch(trx, publicBase(context.config))
      if (done > 0) faultSwitch('webhook.fan_out:before')
      return done
    })
    if (count > 0) faultSwitch('webhook.fan_out:after')
    total += count
    if (count < batch) return total
  }
}

type NewEvent = EventRow & { readonly webhook_ids: readonly string[] }

async function fanOutBatch(trx: Transaction<Database>, base: string): Promise<number> {
  const events = await newEvents(trx)
  if (events.length === 0) return 0
  const webhooks = await lockWebhooks(trx, [...new Set(events.flatMap((event) => event.webhook_ids))])
  await sql`
    update webhook_events e set message = m.message
    from json_to_recordset(${JSON.stringify(events.map((each) => ({ id: each.id, message: messageOf(each, base) })))}::json)
         as m(id text, message text)
    where e.id = m.id`.execute(trx)
  const rows = events.flatMap((event) =>
    event.webhook_ids.flatMap((id) => {
      const webhook = webhooks.get(id)
      if (webhook === undefined) return []
      webhook.waiting += 1
      return [deliveryOf(event, id, webhook.waiting > mostWaiting)]
    }),
  )
  if (rows.length === 0) return events.length
  await trx.insertInto('webhook_deliveries').values(rows).execute()
  await sql`
    update webhooks set due_at = least(due_at, clock_timestamp())
    where id = any(${[...webhooks.keys()]}::text[])`.execute(trx)
  return events.length
}

async function newEvents(trx: Transaction<Database>): Promise<readonly NewEvent[]> {
  const { rows } = await newWebhookEvents<NewEvent>(batch).execute(trx)
  return rows
}

/**
 * Locks and returns the active webhooks among `ids`. `waiting` is a webhook's number of waiting deliveries, counted up
 * to `mostWaiting`. Without the lock, a worker that ends a lease at the same time could miss the new deliveries.
 */
async function lockWebhooks(
  trx: Transaction<Database>,
  ids: readonly string[],
): Promise<Map<string, { waiting: number }>> {
  const { rows } = await sql<{ id: string }>`
    select id from webhooks where id = any(${ids}::text[]) and active order by id for update`.execute(trx)
  const { rows: counts } = await sql<{ id: string; waiting: number }>`
    select w.id, (select count(*) from (select from webhook_deliveries d
                                        where d.webhook_id = w.id and d.state = 'waiting'
                                        limit ${mostWaiting}) as few) as waiting
    from unnest(${rows.map((row) => row.id)}::text[]) as w(id)`.execute(trx)
  return new Map(counts.map(({ id, waiting }) => [id, { waiting }]))
}

function deliveryOf(event: NewEvent, webhookId: string, isOver: boolean) {
  const now = sql<Date>`clock_timestamp()`
  return {
    id: newId('delivery'),
    organization_id: event.organization_id,
    webhook_id: webhookId,
    event_id: event.id,
    state: isOver ? ('failed' as const) : ('waiting' as const),
    next_attempt_at: isOver ? null : now,
    give_up_at: sql<Date>`${event.created_at}::timestamptz + make_interval(secs => ${giveUpSeconds})`,
    created_at: event.created_at,
    ended_at: isOver ? now : null,
    last_error: isOver ? `${mostWaiting.toLocaleString('en-US')} other deliveries waited` : null,
  }
}

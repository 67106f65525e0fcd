import { sql } from 'kysely'
import { restartLane } from '../../db/queries/lanes.ts'
import type { Db } from '../../db/schema/index.ts'
import { requireThawed } from '../access/frozen.ts'
import type { Caller } from '../access/identity.ts'
import { runAs, type Acting } from '../access/recheck.ts'
import { DomainError, notFound } from '../errors.ts'
import { keepMade, type Once } from '../idempotency.ts'
import { growAs } from '../limits/storage.ts'
import { listPage, type Page, type PageRequest } from '../page.ts'
import { deliveryView, type DeliveryView } from './webhook-view.ts'
import { findWebhook, auditWebhook } from './webhooks.ts'

/** After its event, a delivery is given up. */
export const giveUpSeconds = 24 * 3_600

/** Throws `not_found`. */
export async function listDeliveries(
  db: Db,
  organizationId: string,
  { webhookId, state }: { readonly webhookId: string; readonly state: DeliveryView['state'] | undefined },
  page: PageRequest,
): Promise<Page<DeliveryView>> {
  await findWebhook(db, organizationId, webhookId)
  const query = db
    .selectFrom('webhook_deliveries as d')
    .innerJoin('webhook_events as e', 'e.id', 'd.event_id')
    .selectAll('d')
    .select('e.type as event_type')
    .where('d.webhook_id', '=', webhookId)
    .$if(state !== undefined, (some) => some.where('d.state', '=', state as DeliveryView['state']))
  return listPage(db, query, 'delivery', page, deliveryView, 'd.id')
}

export interface AcceptedDelivery {
  /** The `webhook-id` of the requests. */
  readonly event_id: string
}

/** Throws `not_found`, and `conflict` for a webhook that is turned off, and while the organization is frozen. */
export async function testWebhook(
  context: Acting,
  caller: Caller,
  webhookId: string,
  once: Once | null = null,
): Promise<AcceptedDelivery> {
  return growAs(context, caller, 'org.change', {
    action: 'test',
    async work(tx) {
      const row = await findWebhook(tx.trx, tx.organizationId, webhookId)
      if (!row.active) throw turnedOff()
      requireThawed(tx)
      auditWebhook(tx, caller, 'tested', row)
      return keepMade(once, tx, { event_id: tx.publish('webhook.test', {}, [webhookId]) as string })
    },
  })
}

/** With the same `webhook-id`, for a day. Throws `not_found`; `conflict` if off, and for a test during a freeze. */
export async function redeliver(
  context: Acting,
  caller: Caller,
  { webhookId, deliveryId }: { readonly webhookId: string; readonly deliveryId: string },
  once: Once | null = null,
): Promise<AcceptedDelivery> {
  return runAs(context, caller, 'org.change', async (tx) => {
    const webhook = await findWebhook(tx.trx, tx.organizationId, webhookId)
    if (!webhook.active) throw turnedOff()
    const row = await tx.trx
      .updateTable('webhook_deliveries')
      .set({
        state: 'waiting',
        next_attempt_at: tx.now,
        give_up_at: sql<Date>`${tx.now}::timestamptz + make_interval(secs => ${giveUpSeconds})`,
        ended_at: null,
      })
      .where('id', '=', deliveryId)
      .where('webhook_id', '=', webhookId)
      .returning((eb) => [
        'event_id',
        eb
          .selectFrom('webhook_events as e')
          .select('e.type')
          .whereRef('e.id', '=', 'webhook_deliveries.event_id')
          .as('type'),
      ])
      .executeTakeFirst()
    if (row === undefined) throw notFound('delivery', deliveryId)
    if (row.type === 'webhook.test') requireThawed(tx)
    await restartLane({ kind: 'webhook', id: webhookId, organizationId: tx.organizationId }).execute(tx.trx)
    auditWebhook(tx, caller, 'redelivered', webhook, { delivery_id: deliveryId })
    return keepMade(once, tx, { event_id: row.event_id })
  })
}

const turnedOff = (): DomainError =>
  new DomainError('conflict', 'the webhook is turned off: set `active` to true first')

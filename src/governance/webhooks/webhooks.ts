import { chosenEvents } from '../../contract/webhook-events.ts'
import { newId } from '../../contract/ids.ts'
import { restartLane } from '../../db/queries/lanes.ts'
import { newestDeliveries } from '../../db/queries/webhooks/deliver.ts'
import type { Db } from '../../db/schema/index.ts'
import { requireProvenCaller } from '../access/address-proof.ts'
import { actorOf, type Caller } from '../access/identity.ts'
import { runAs, type Acting } from '../access/recheck.ts'
import type { ChainTx } from '../audit/chain-tx.ts'
import { notFound, errorAt } from '../errors.ts'
import { keepMade, type Once } from '../idempotency.ts'
import { growAs } from '../limits/storage.ts'
import { owned } from '../page.ts'
import type { Sealer } from '../sealing/sealer.ts'
import type { Outgoing } from '../../shared/outgoing/outgoing.ts'
import {
  newWebhookSecret,
  openTarget,
  readAddress,
  sealTarget,
  type WebhookTarget,
  deliveryView,
  webhookView,
  type ShownWebhook,
  type WebhookRow,
  type WebhookView,
} from './webhook-view.ts'

export const mostWebhooks = 20

export type Managing = Acting & { readonly db: Db; readonly sealer: Sealer; readonly outgoing: Outgoing }

export interface WebhookInput {
  readonly url: string
  readonly events: readonly string[]
}

export type NewWebhook = WebhookView & { readonly secret: string }

/** From the next transaction on. Throws `validation_error`, `conflict` for an unconfirmed caller, and as `growAs`. */
export async function createWebhook(
  context: Managing,
  caller: Caller,
  input: WebhookInput,
  once: Once | null = null,
): Promise<NewWebhook> {
  const url = readAddress(context, input.url)
  const id = newId('webhook')
  const target: WebhookTarget = { url: url.href, secret: newWebhookSecret() }
  const sealed = await sealTarget(context.sealer, { organization_id: caller.organizationId, id }, target)
  return growAs(context, caller, 'org.change', {
    action: 'create',
    async work(tx, now) {
      await requireProvenCaller(tx, await now())
      await requireRoom(tx)
      const row = await tx.trx
        .insertInto('webhooks')
        .values({
          id,
          organization_id: tx.organizationId,
          ...sealed,
          host: url.host,
          events: inOrder(input.events),
          created_at: tx.now,
          created_by: caller.userId,
        })
        .returningAll()
        .executeTakeFirstOrThrow()
      tx.policyChanged()
      auditWebhook(tx, caller, 'created', row, { events: row.events })
      return keepMade(once, tx, { ...webhookView(row, target), secret: target.secret })
    },
  })
}

export const webhookRows = owned({
  table: 'webhooks',
  kind: 'webhook',
  word: 'webhook',
  view: async (row: WebhookRow, { sealer }: Pick<Managing, 'sealer'>) =>
    webhookView(row, await openTarget(sealer, row)),
})

/** As a caller sees them, with their newest deliveries. */
export async function seenBy(
  db: Db,
  { role }: Pick<Caller, 'role'>,
  webhooks: readonly WebhookView[],
): Promise<ShownWebhook[]> {
  const { rows } = await newestDeliveries(webhooks.map(({ id }) => id)).execute(db)
  const newest = new Map(rows.map((row) => [row.webhook_id, deliveryView(row)]))
  return webhooks.map((webhook) => ({
    ...webhook,
    url: role === 'owner' ? webhook.url : null,
    last_delivery: newest.get(webhook.id) ?? null,
  }))
}

/** Throws `not_found`. */
export async function findWebhook(db: Db, organizationId: string, id: string): Promise<WebhookRow> {
  const row = await db
    .selectFrom('webhooks')
    .selectAll()
    .where('id', '=', id)
    .where('organization_id', '=', organizationId)
    .executeTakeFirst()
  if (row === undefined) throw notFound('webhook', id)
  return row
}

export interface WebhookChange {
  readonly url?: string | undefined
  readonly events?: readonly string[] | undefined
  /** While false, it gets no new events, and its deliveries pause. */
  readonly active?: boolean | undefined
}

/** Throws `not_found`, `validation_error` for the address, and `conflict` while the caller's is not confirmed. */
export async function changeWebhook(
  context: Managing,
  caller: Caller,
  id: string,
  change: WebhookChange,
): Promise<WebhookView> {
  const url = change.url === undefined ? null : readAddress(context, change.url)
  return runAs(context, caller, 'org.change', async (tx, now) => {
    await requireProvenCaller(tx, await now())
    const row = await findWebhook(tx.trx, tx.organizationId, id)
    const before = await openTarget(context.sealer, row)
    const target = url === null ? before : { ...before, url: url.href }
    // The address is new, or an owner has turned it on again.
    const isStartedAnew = url !== null || change.active === true
    const set = {
      ...(url === null ? {} : { host: url.host }),
      ...(change.events === undefined ? {} : { events: inOrder(change.events) }),
      ...(change.active === undefined ? {} : { active: change.active }),
      ...(isStartedAnew ? { failing_since: null, disabled_reason: null } : {}),
    }
    const next = await save(context, tx, row, target, set)
    if (isStartedAnew)
      await restartLane({ kind: 'webhook', id, organizationId: tx.organizationId }).execute(tx.trx)
    const { events, active } = next
    auditWebhook(tx, caller, 'updated', next, { events, active })
    return webhookView(next, target)
  })
}

/** Its waiting deliveries are never sent. Throws `not_found`. */
export async function deleteWebhook(context: Acting, caller: Caller, id: string): Promise<void> {
  await runAs(context, caller, 'org.change', async (tx) => {
    const row = await findWebhook(tx.trx, tx.organizationId, id)
    await tx.trx.deleteFrom('webhooks').where('id', '=', id).execute()
    await tx.trx.deleteFrom('lanes').where('kind', '=', 'webhook').where('id', '=', id).execute()
    tx.policyChanged()
    auditWebhook(tx, caller, 'deleted', row)
  })
}

/**
 * For `seconds`, requests are also signed with the former secret, so receivers change without losing a message. Throws
 * `not_found`, and `conflict` while the address of the caller is not confirmed.
 */
export async function rotateWebhookSecret(
  context: Managing,
  caller: Caller,
  { id, seconds }: { readonly id: string; readonly seconds: number },
  once: Once | null = null,
): Promise<NewWebhook> {
  return runAs(context, caller, 'org.change', async (tx, now) => {
    await requireProvenCaller(tx, await now())
    const row = await findWebhook(tx.trx, tx.organizationId, id)
    const { url, secret: old } = await openTarget(context.sealer, row)
    const until = new Date(tx.now.getTime() + seconds * 1_000).toISOString()
    const target: WebhookTarget = { url, secret: newWebhookSecret(), former: { secret: old, until } }
    const next = await save(context, tx, row, target, {})
    auditWebhook(tx, caller, 'secret_rotated', next, { former_until: until })
    return keepMade(once, tx, { ...webhookView(next, target), secret: target.secret })
  })
}

async function save(
  context: Pick<Managing, 'sealer'>,
  tx: ChainTx,
  row: WebhookRow,
  target: WebhookTarget,
  set: Partial<WebhookRow>,
): Promise<WebhookRow> {
  const sealed = await sealTarget(context.sealer, row, target)
  tx.policyChanged()
  return tx.trx
    .updateTable('webhooks')
    .set({ ...set, ...sealed })
    .where('id', '=', row.id)
    .returningAll()
    .executeTakeFirstOrThrow()
}

/** Each once, in the order of the documentation. */
const inOrder = (events: readonly string[]): string[] =>
  chosenEvents.filter((event) => events.includes(event))

async function requireRoom(tx: ChainTx): Promise<void> {
  const { count } = await tx.trx
    .selectFrom('webhooks')
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .where('organization_id', '=', tx.organizationId)
    .executeTakeFirstOrThrow()
  if (count < mostWebhooks) return
  throw errorAt(
    'validation_error',
    '',
    `an organization has at most ${mostWebhooks} webhooks: delete one first, or change the \`events\` of one`,
  )
}

export function auditWebhook(
  tx: ChainTx,
  caller: Caller,
  verb: 'created' | 'updated' | 'deleted' | 'secret_rotated' | 'tested' | 'redelivered',
  { id, host }: Pick<WebhookRow, 'id' | 'host'>,
  more: { events?: string[]; active?: boolean; former_until?: string; delivery_id?: string } = {},
): void {
  tx.append({
    eventType: `webhook.${verb}`,
    action: verb,
    actor: actorOf(caller),
    metadata: { webhook_id: id, host, ...more },
  })
}

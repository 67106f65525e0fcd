import type { WebhookSettings } from '../../db/schema/triggers.ts'
import { planLimits } from '../../contract/plan-limits.ts'
import type { Db } from '../../db/schema/index.ts'
import type { Json, JsonObject } from '../../policy/types.ts'
import type { ChainTx } from '../audit/chain-tx.ts'
import type { ChangingRuns, Context } from '../context.ts'
import { DomainError, notFound } from '../errors.ts'
import type { Firing } from '../runs/start/accept.ts'
import { whyNot } from '../runs/start/unattended.ts'
import { appendFiring, hasFailedTooOften, newFiring, pauseFailing, startRun } from './firings.ts'
import { arrivedIn, deliveryIdOf, handshakeOf, isProved, type Message } from './signatures.ts'
import { openKept, type TriggerRow } from './trigger-view.ts'

export type WebhookRow = TriggerRow & { readonly settings: WebhookSettings }

/** Throws `not_found`, also for a trigger of another kind. */
export async function findWebhook(db: Db, id: string): Promise<WebhookRow> {
  const row = await db
    .selectFrom('triggers as t')
    .innerJoin('workflows as w', 'w.id', 't.workflow_id')
    .selectAll('t')
    .where('t.id', '=', id)
    .where('t.kind', '=', 'webhook')
    .where('w.deleted_at', 'is', null)
    .executeTakeFirst()
  if (row === undefined) throw notFound('webhook', id)
  return row as WebhookRow
}

export type Delivered = { readonly handshake: JsonObject } | { readonly runId: string }

type Delivering = ChangingRuns & Pick<Context, 'rates'>

/**
 * A redelivery gets the run of the first. Throws `unauthenticated`, `rate_limited`, and `conflict` if the trigger is
 * paused or starts nothing: only its list of firings says why, because a sender need not know the rules.
 */
export async function deliver(
  context: Delivering,
  row: WebhookRow,
  message: Message,
  read: () => Json,
  requestId: string,
): Promise<Delivered> {
  const { secret } = await openKept(context.sealer, row)
  const { verify } = row.settings
  if (secret === null || !isProved(verify, secret, message, new Date()))
    throw new DomainError(
      'unauthenticated',
      'the message does not prove its sender: check the secret and the clock',
    )
  await count(context, row)
  const body = read()
  const handshake = handshakeOf(verify, message, body)
  if (handshake !== null) return { handshake }
  const deliveryId = deliveryIdOf(verify, message, body)
  const earlier = deliveryId === null ? null : await runOfDelivery(context.db, row.id, deliveryId)
  if (earlier !== null) return { runId: earlier }
  if (row.paused_reason === null && (await hasFailedTooOften(context.db, row))) {
    await pauseFailing(context, row)
    throw paused()
  }
  if (row.paused_reason !== null) throw paused()
  return { runId: await start(context, row, arrivedIn(message, body), deliveryId, requestId) }
}

const paused = (): DomainError => new DomainError('conflict', 'the trigger is paused: an admin resumes it')

async function count({ rates }: Pick<Context, 'rates'>, { id }: WebhookRow): Promise<void> {
  const taken = await rates.take(id, planLimits.free, 'deliveries')
  if (taken.allowed) return
  throw new DomainError(
    'rate_limited',
    `a trigger takes ${taken.limit} messages a minute: send the rest later`,
    [],
    taken.retryAfter,
  )
}

async function runOfDelivery(db: Db, triggerId: string, deliveryId: string): Promise<string | null> {
  const found = await db
    .selectFrom('trigger_firings')
    .select('run_id')
    .where('trigger_id', '=', triggerId)
    .where('delivery_id', '=', deliveryId)
    .executeTakeFirst()
  return found?.run_id ?? null
}

async function start(
  context: Delivering,
  row: WebhookRow,
  arrived: JsonObject,
  deliveryId: string | null,
  requestId: string,
): Promise<string> {
  let isKept = false
  const firing: Firing = {
    earlierRun: (tx) =>
      deliveryId === null ? Promise.resolve(null) : runOfDelivery(tx.trx, row.id, deliveryId),
    async keep(tx, runId, denied) {
      isKept = denied !== null
      if (denied !== null) return keepFailure(tx, row, denied)
      await tx.trx
        .insertInto('trigger_firings')
        .values({ ...newFiring(tx, row), state: 'started', delivery_id: deliveryId, run_id: runId })
        .execute()
    },
  }
  try {
    return await startRun(context, row, { values: arrived }, firing, requestId)
  } catch (error) {
    if (!(error instanceof DomainError) || error.code === 'unavailable') throw error
    if (!isKept)
      await context.combiner.run(row.organization_id, 'trigger.plan', (tx) => keepFailure(tx, row, error))
    if (error.code === 'quota_exceeded') throw error
    throw new DomainError('conflict', 'no run was started: the firings of the trigger say why')
  }
}

/** Without the id of the delivery, so that the sender can try again. */
async function keepFailure(tx: ChainTx, row: WebhookRow, error: DomainError): Promise<void> {
  const reason = whyNot(error)
  await tx.trx
    .insertInto('trigger_firings')
    .values({ ...newFiring(tx, row), state: 'failed', reason })
    .execute()
  appendFiring(tx, row, 'failed', { reason })
}

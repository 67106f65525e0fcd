import { sql } from 'kysely'
import { recordDeliveryAttempt } from '../../db/queries/webhooks/record-attempt.ts'
import { nextDueDelivery, type DueDelivery } from '../../db/queries/webhooks/next-delivery.ts'
import { leaseDueWebhooks } from '../../db/queries/webhooks/lease-webhooks.ts'
import type { Context } from '../context.ts'
import { atCommitPoint } from '../audit/commit-points.ts'
import { disableFailing } from './disable.ts'
import { attemptMilliseconds, sendMessage, type Attempt } from './send.ts'
import { openTarget } from './target.ts'
import type { WebhookRow } from './webhook-view.ts'

/*
 * One worker at a time sends the deliveries of a webhook: it leases the webhook, sends what is due one after another, and
 * gives it back. A worker that dies keeps the lease until it ends; then another one sends what was not recorded again,
 * with the same `webhook-id`.
 *
 * After a failure the whole webhook pauses, so a dead address costs one attempt for each pause, however many messages
 * wait. Organizations share the places of a process: each has a few, and webhooks that fail or are slow have at most half.
 */

/** Webhooks whose deliveries one process sends at the same time, and how many of them may be failing or slow. */
export const mostTurns = 40
export const mostAilingTurns = 20
/** Of one organization, in all processes together, except for moments. */
export const mostOfOrganization = 3

/** Deliveries of one turn. A turn begins at most once a second, so this bounds the rate of requests to one address. */
export const mostOfTurn = 20
/** After this time a turn takes no further delivery, in milliseconds. */
const turnMilliseconds = 5_000
/** Seconds until the next turn after an error of our own. */
const pauseAfterError = 60
/** Longer than any turn. */
const leaseSeconds = (turnMilliseconds + 3 * attemptMilliseconds) / 1_000
/** An answer that takes longer makes the webhook count as slow, in milliseconds. */
const slowMilliseconds = 3_000

type Leased = Pick<WebhookRow, 'id' | 'organization_id'>

/** Leases due webhooks, those that wait longest first. */
export async function leaseWebhooks(
  { db }: Pick<Context, 'db'>,
  kind: 'sound' | 'ailing',
  limit: number,
): Promise<readonly Leased[]> {
  if (limit <= 0) return []
  const { rows } = await leaseDueWebhooks({
    isAiling: kind === 'ailing',
    mostOfOrganization,
    leaseSeconds,
    limit,
  }).execute(db)
  return rows
}

/** Sends the due deliveries of a leased webhook, and gives it back. Stops at the first that fails. */
export async function takeTurn(context: Context, webhook: Leased, signal: AbortSignal): Promise<void> {
  const endsAt = performance.now() + turnMilliseconds
  let pause = 0
  try {
    for (let sent = 0; sent < mostOfTurn && performance.now() < endsAt && !signal.aborted; sent += 1) {
      const delivery = await nextDelivery(context, webhook.id)
      if (delivery === null) break
      const startedAt = performance.now()
      const target = await openTarget(context.sealer, { ...delivery, ...webhook })
      const { event_id: id, message } = delivery
      const attempt = await sendMessage(context.outgoing, target, { id, message }, signal)
      const isSlow = performance.now() - startedAt > slowMilliseconds
      const { failures, waits } = await recordAttempt(context, webhook.id, delivery, attempt, isSlow)
      context.metrics.webhookAttempts.inc({ result: attempt.delivered ? 'delivered' : 'failed' })
      if (attempt.delivered) continue
      pause = Math.max(pauseOf(failures), attempt.retryAfter ?? 0)
      await disableFailing(context, webhook, attempt, waits)
      break
    }
  } catch (error) {
    pause = signal.aborted ? 0 : pauseAfterError
    throw error
  } finally {
    await giveBack(context, webhook.id, pause)
  }
}

/** Reads the webhook anew, so that a changed address or secret counts from the next attempt on. */
async function nextDelivery({ db }: Pick<Context, 'db'>, webhookId: string): Promise<DueDelivery | null> {
  const { rows } = await nextDueDelivery(webhookId).execute(db)
  return rows[0] ?? null
}

/** Seconds until the next attempt at one message, by the number of failed ones; the last one repeats. */
const retries = [5, 30, 120, 600, 1_800, 3_600]

/** Seconds for which a webhook pauses after this number of failures in a row: 5, 10, 20, … up to ten minutes. */
export const pauseOf = (failures: number): number => Math.min(5 * 2 ** Math.min(failures - 1, 10), 600)

interface Recorded {
  /** Failures since the last success. */
  readonly failures: number
  /** Seconds since the first of them. */
  readonly waits: number
}

/** Commit point `webhook.record`. */
async function recordAttempt(
  { db }: Pick<Context, 'db'>,
  webhookId: string,
  { id }: Pick<DueDelivery, 'id'>,
  { delivered, status, error, retryAfter }: Attempt,
  isSlow: boolean,
): Promise<Recorded> {
  const { rows } = await atCommitPoint('webhook.record', () =>
    recordDeliveryAttempt({
      webhookId,
      deliveryId: id,
      delivered,
      status,
      error: error?.slice(0, 300) ?? null,
      isSlow,
      retryAfter: retryAfter ?? 0,
      retries,
    }).execute(db),
  )
  return rows[0] ?? { failures: 1, waits: 0 }
}

/** Ends the lease, and notes when a worker must look again: with the next delivery, and not before the pause is over. */
async function giveBack({ db }: Pick<Context, 'db'>, webhookId: string, pause: number): Promise<void> {
  await db.transaction().execute(async (trx) => {
    // The deliveries are read after the lock: an event may add one at the same time (fan-out.ts).
    await sql`select from webhooks where id = ${webhookId} for update`.execute(trx)
    await sql`
      update webhooks set leased_until = null, due_at = (
        select greatest(min(next_attempt_at), clock_timestamp() + make_interval(secs => ${pause}))
        from webhook_deliveries where webhook_id = ${webhookId} and state = 'waiting'
        having count(*) > 0)
      where id = ${webhookId}`.execute(trx)
  })
}

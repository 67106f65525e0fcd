import { sql } from 'kysely'
import {
  recordDeliveryAttempt,
  nextDueDelivery,
  leaseDueWebhooks,
  type DueDelivery,
} from '../../db/queries/webhooks.ts'
import type { Context } from '../context.ts'
import { atCommitPoint } from '../audit/commit-points.ts'
import { disableFailing } from './disable.ts'
import { attemptMilliseconds, sendMessage, type Attempt } from './send.ts'
import { openTarget } from './target.ts'
import type { WebhookRow } from './webhook-view.ts'

/*
 * One worker at a time sends the deliveries of a webhook. The worker leases the webhook, sends its due deliveries one
 * after another, and ends the lease. The lease of a dead worker ends by itself. Another worker then sends all
 * deliveries that were not recorded as sent. Some of these deliveries are sent for the second time, with the same
 * `webhook-id`.
 *
 * After a failure the whole webhook pauses. So an address that never answers costs only one attempt for each pause,
 * even if many messages wait. Limits protect the other webhooks: there is a limit for all webhooks of a process, for
 * failing or slow webhooks of a process, and for webhooks of one organization.
 */

/**
 * One process sends for at most `mostAtOnce` webhooks at the same time. At most `mostFailingAtOnce` of these webhooks
 * are failing or slow.
 */
export const mostAtOnce = 40
export const mostFailingAtOnce = 20
/**
 * All processes together send for at most this many webhooks of one organization at the same time. For a short moment,
 * there can be more.
 */
export const mostOfOrganization = 3

/**
 * A worker sends at most this many deliveries under one lease. Each worker looks for due webhooks once a second, so
 * this limits the rate of requests to one address.
 */
export const mostDeliveries = 20
/** Once a lease is this many milliseconds old, its worker begins no further delivery. */
const sendingMilliseconds = 5_000
/** Seconds until the webhook can be leased again after an internal error of the service. */
const pauseAfterError = 60
/**
 * The length of a lease, in seconds. The worker begins its last attempt within `sendingMilliseconds`. This attempt
 * takes at most `attemptMilliseconds`. So the worker normally finishes before the lease ends.
 */
const leaseSeconds = (sendingMilliseconds + 3 * attemptMilliseconds) / 1_000
/** If an answer takes longer than this many milliseconds, the webhook counts as slow. */
const slowMilliseconds = 3_000

type Leased = Pick<WebhookRow, 'id' | 'organization_id'>

/** The services that sending needs. */
export type Sending = Pick<Context, 'combiner' | 'db' | 'metrics' | 'outgoing' | 'sealer'>

/**
 * Takes leases on webhooks that have a due delivery. An `ailing` webhook is failing or slow; every other webhook is
 * `sound`. The webhooks that have waited longest come first.
 */
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

/** Sends the due deliveries of a leased webhook, and ends the lease. Stops at the first failing delivery. */
export async function sendDue(context: Sending, webhook: Leased, signal: AbortSignal): Promise<void> {
  const endsAt = performance.now() + sendingMilliseconds
  let pause = 0
  try {
    for (let sent = 0; sent < mostDeliveries && performance.now() < endsAt && !signal.aborted; sent += 1) {
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

/**
 * Returns the next due delivery, or null. Reads the webhook again each time, so that a changed address or secret is
 * used from the next attempt on.
 */
async function nextDelivery({ db }: Pick<Context, 'db'>, webhookId: string): Promise<DueDelivery | null> {
  const { rows } = await nextDueDelivery(webhookId).execute(db)
  return rows[0] ?? null
}

/**
 * Seconds until the next attempt to send a message. The first number applies after the first failure, the second number
 * after the second failure, and so on. The last number repeats.
 */
const retries = [5, 30, 120, 600, 1_800, 3_600]

/**
 * Returns for how many seconds a webhook pauses after this number of failures in a row: 5, 10, 20, … up to ten minutes.
 */
export const pauseOf = (failures: number): number => Math.min(5 * 2 ** Math.min(failures - 1, 10), 600)

interface Recorded {
  /** Failures since the last success. */
  readonly failures: number
  /** Seconds since the first of these failures. */
  readonly waits: number
}

/** Records how an attempt ended (commit point `webhook.record`). */
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

/** Ends the lease. The webhook can be leased again when its next delivery is due, but not before the pause is over. */
async function giveBack({ db }: Pick<Context, 'db'>, webhookId: string, pause: number): Promise<void> {
  await db.transaction().execute(async (trx) => {
    // The row is locked before the deliveries are read, because another process may add a delivery at the same time
    // (fan-out.ts).
    await sql`select from webhooks where id = ${webhookId} for update`.execute(trx)
    await sql`
      update webhooks set leased_until = null, due_at = (
        select greatest(min(next_attempt_at), clock_timestamp() + make_interval(secs => ${pause}))
        from webhook_deliveries where webhook_id = ${webhookId} and state = 'waiting'
        having count(*) > 0)
      where id = ${webhookId}`.execute(trx)
  })
}

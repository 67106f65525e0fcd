import { sql } from 'kysely'
import { recordDeliveryAttempt } from '../../db/queries/webhooks/record-attempt.ts'
import { nextDueDelivery, type DueDelivery } from '../../db/queries/webhooks/find-next-delivery.ts'
import { leaseDueWebhooks } from '../../db/queries/webhooks/lease-webhooks.ts'
import type { Context } from '../context.ts'
import { atCommitPoint } from '../audit/commit-points.ts'
import { openTarget, formerSecret, type WebhookTarget, type WebhookRow } from './webhook-view.ts'
import { Webhook } from 'standardwebhooks'
import { OutgoingError, type Outgoing } from '../../shared/outgoing/outgoing.ts'
import { retryAfterOf } from '../../shared/outgoing/retry-after.ts'
import { fanOut } from './fan-out.ts'

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
const mostAtOnce = 40
const mostFailingAtOnce = 20
/**
 * All processes together send for at most this many webhooks of one organization at the same time. For a short moment,
 * there can be more.
 */
const mostOfOrganization = 3

/**
 * A worker sends at most this many deliveries under one lease. Each worker looks for due webhooks once a second, so
 * this limits the rate of requests to one address.
 */
export const mostDeliveries = 20
/** One attempt takes at most this many milliseconds. Standard Webhooks asks for 15 to 30 seconds. */
export const attemptMilliseconds = 15_000
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
async function leaseWebhooks(
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
async function sendDue(context: Sending, webhook: Leased, signal: AbortSignal): Promise<void> {
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

/** A webhook is turned off if attempts have failed for this many seconds and none has succeeded. */
const disableSeconds = 3 * 24 * 3_600

/**
 * Turns a webhook off if its receiver wants no more messages, or if its attempts have failed for days. The waiting
 * deliveries stay until they are given up, because somebody may turn the webhook on again. `waits` is the number of
 * seconds since the first failure after the last success.
 */
async function disableFailing(
  { combiner }: Pick<Context, 'combiner'>,
  webhook: Pick<WebhookRow, 'id' | 'organization_id'>,
  { isGone, error }: Pick<Attempt, 'isGone' | 'error'>,
  waits: number,
): Promise<void> {
  if (!isGone && waits < disableSeconds) return
  const reason = isGone
    ? 'the receiver answered 410: it wants no more messages'
    : `nothing has arrived for ${disableSeconds / 86_400} days; the last error: ${error ?? ''}`.slice(0, 300)
  await combiner.run(webhook.organization_id, 'org.change', async (tx) => {
    const row = await tx.trx
      .updateTable('webhooks')
      .set({ active: false, disabled_reason: reason })
      .where('id', '=', webhook.id)
      .where('active', '=', true)
      .returning('host')
      .executeTakeFirst()
    if (row === undefined) return
    tx.policyChanged()
    tx.append({
      eventType: 'webhook.disabled',
      action: 'disable',
      status: 'disabled',
      actor: { type: 'system', id: 'webhooks' },
      metadata: { webhook_id: webhook.id, host: row.host, reason },
    })
  })
}

/** The sender reads at most this many bytes of an answer's body, so that the connection can be used again. */
const answerBytes = 16 * 1024

export interface Sent {
  readonly id: string
  readonly message: string
}

/** The result of one attempt to send a message. */
export interface Attempt {
  readonly delivered: boolean
  readonly status: number | null
  /**
   * The reason of a failure. Is null if the message was delivered. The reason may contain the host of the address, but
   * no other part of the address.
   */
  readonly error: string | null
  /** The number of seconds that the receiver asks the sender to wait. Is null if the receiver names no time. */
  readonly retryAfter: number | null
  /** Is true if the receiver answered 410. This means that the receiver wants no more messages. */
  readonly isGone: boolean
}

/**
 * Sends a message once. Any status from 200 to 299 means that the message was received. A redirect is not followed. If
 * `signal` is aborted, throws the reason of the signal.
 */
export async function sendMessage(
  outgoing: Pick<Outgoing, 'fetchWithin'>,
  target: WebhookTarget,
  { id, message }: Sent,
  signal: AbortSignal,
  milliseconds = attemptMilliseconds,
): Promise<Attempt> {
  const fetch = outgoing.fetchWithin({
    addresses: [new URL(target.url).origin],
    milliseconds,
    bytes: answerBytes,
    dropsBody: true,
    signal,
  })
  try {
    const { status, headers } = await fetch(target.url, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        'user-agent': 'Countersign-Webhooks',
        ...signatureOf(target, id, message, new Date()),
      },
      body: message,
    })
    if (status >= 200 && status <= 299) return { ...failed(null), delivered: true, status }
    const retryAfter = status === 429 || status === 503 ? retryAfterOf(headers) : null
    return { ...failed(`the answer was ${status}`), status, retryAfter, isGone: status === 410 }
  } catch (error) {
    if (!(error instanceof OutgoingError)) throw error
    return failed(
      error.problem === 'redirect_refused' ? `${error.message}: set \`url\` to it` : error.message,
    )
  }
}

const failed = (error: string | null): Attempt => ({
  delivered: false,
  status: null,
  error,
  retryAfter: null,
  isGone: false,
})

/**
 * Returns the headers of Standard Webhooks. While the former secret is still valid, the signature header contains two
 * signatures. One is made with the new secret, the other with the former secret.
 */
export function signatureOf(
  target: WebhookTarget,
  id: string,
  message: string,
  now: Date,
): Readonly<Record<'webhook-id' | 'webhook-timestamp' | 'webhook-signature', string>> {
  const former = formerSecret(target, now)
  const secrets = former === null || former === undefined ? [target.secret] : [target.secret, former.secret]
  return {
    'webhook-id': id,
    'webhook-timestamp': String(Math.floor(now.getTime() / 1_000)),
    'webhook-signature': secrets.map((secret) => new Webhook(secret).sign(id, now, message)).join(' '),
  }
}

/** Sends the deliveries of webhooks in this process. */
export interface WebhookSender {
  /**
   * Writes the deliveries of new events, and begins to send for due webhooks. Does not wait until the deliveries are
   * sent.
   */
  round(): Promise<void>
  /** Stops sending. A request that is in progress may be sent again later. */
  stop(): Promise<void>
}

export function createWebhookSender(context: Sending & Pick<Context, 'config' | 'sparseLog'>): WebhookSender {
  const sending = { sound: new Set<Promise<void>>(), ailing: new Set<Promise<void>>() }
  const stopping = new AbortController()
  const begin = async (kind: 'sound' | 'ailing', freePlaces: number): Promise<void> => {
    for (const webhook of await leaseWebhooks(context, kind, freePlaces)) {
      const begun: Promise<void> = sendDue(context, webhook, stopping.signal)
        .catch((error: unknown) => {
          if (stopping.signal.aborted) return
          const about = { err: error, webhook_id: webhook.id, organization_id: webhook.organization_id }
          context.sparseLog.warn('webhooks', about, 'the deliveries of a webhook could not be sent')
        })
        .finally(() => sending[kind].delete(begun))
      sending[kind].add(begun)
    }
  }
  const freePlaces = () => mostAtOnce - sending.sound.size - sending.ailing.size
  return {
    async round() {
      await fanOut(context)
      await begin('sound', freePlaces())
      await begin('ailing', Math.min(freePlaces(), mostFailingAtOnce - sending.ailing.size))
    },
    async stop() {
      stopping.abort()
      await Promise.allSettled([...sending.sound, ...sending.ailing])
    },
  }
}

import { sql } from 'kysely'
import {
  recordDeliveryAttempt,
  nextDueDelivery,
  type DueDelivery,
  leaseDueWebhooks,
} from '../../db/queries/webhooks/deliver.ts'
import type { Context } from '../context.ts'
import { atCommitPoint } from '../audit/commit-points.ts'
import { openTarget, formerSecret, type WebhookTarget, type WebhookRow } from './webhook-view.ts'
import { Webhook } from 'standardwebhooks'
import { OutgoingError, type Outgoing } from '../../shared/outgoing/outgoing.ts'
import { retryAfterOf } from '../../shared/outgoing/retry-after.ts'
import { fanOut } from './fan-out.ts'

/*
 * One worker at a time leases a webhook, sends its due deliveries one after another, and ends the lease. The lease of a
 * dead worker ends by itself: what was not recorded as sent is sent again, with the same `webhook-id`.
 *
 * After a failure the whole webhook pauses, so an address that never answers costs one attempt for each pause. Limits
 * for a process, for its failing or slow webhooks, and for one organization protect the others.
 */

/** Webhooks for which one process sends, and those of them that are failing or slow. */
const mostAtOnce = 40
const mostFailingAtOnce = 20
/** For all processes together. For a short moment, there can be more. */
const mostOfOrganization = 3

/** Under one lease. Workers look once a second, so it limits the rate of requests to one address. */
export const mostDeliveries = 20
/** Milliseconds. Standard Webhooks asks for 15 to 30 seconds. */
export const attemptMilliseconds = 15_000
/** Once a lease is so old, no further delivery begins. */
const sendingMilliseconds = 5_000
/** Seconds, after an internal error of the service. */
const pauseAfterError = 60
/** The last attempt begins within `sendingMilliseconds` and takes `attemptMilliseconds`, so this normally suffices. */
const leaseSeconds = (sendingMilliseconds + 3 * attemptMilliseconds) / 1_000
/** A longer answer makes the webhook slow. */
const slowMilliseconds = 3_000

type Leased = Pick<WebhookRow, 'id' | 'organization_id'>

export type Sending = Pick<Context, 'combiner' | 'db' | 'metrics' | 'outgoing' | 'sealer'>

/** `ailing`: failing or slow. The longest waiting come first. */
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

/** Stops at the first failure, and ends the lease. */
async function sendDue(context: Sending, webhook: Leased, signal: AbortSignal): Promise<void> {
  const endsAt = performance.now() + sendingMilliseconds
  let pause = 0
  try {
    for (let sent = 0; sent < mostDeliveries && performance.now() < endsAt && !signal.aborted; sent += 1) {
      // Reads the webhook each time, so that a changed address or secret holds for the next attempt.
      const [delivery] = (await nextDueDelivery(webhook.id).execute(context.db)).rows
      if (delivery === undefined) break
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

/** Seconds until the next attempt of a message, after its first failure and so on. The last number repeats. */
const retries = [5, 30, 120, 600, 1_800, 3_600]

/** Seconds, after so many failures in a row: 5, 10, 20, … up to ten minutes. */
export const pauseOf = (failures: number): number => Math.min(5 * 2 ** Math.min(failures - 1, 10), 600)

/** Commit point `webhook.record`. `waits` are seconds since the first of the failures after the last success. */
async function recordAttempt(
  { db }: Pick<Context, 'db'>,
  webhookId: string,
  { id }: Pick<DueDelivery, 'id'>,
  { delivered, status, error, retryAfter }: Attempt,
  isSlow: boolean,
): Promise<{ readonly failures: number; readonly waits: number }> {
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

/** The webhook is due with its next delivery, but not before the pause is over. */
async function giveBack({ db }: Pick<Context, 'db'>, webhookId: string, pause: number): Promise<void> {
  await db.transaction().execute(async (trx) => {
    // The lock comes first, because another process may add a delivery at the same time (fan-out.ts).
    await sql`select from webhooks where id = ${webhookId} for update`.execute(trx)
    await sql`
      update webhooks set leased_until = null, due_at = (
        select greatest(min(next_attempt_at), clock_timestamp() + make_interval(secs => ${pause}))
        from webhook_deliveries where webhook_id = ${webhookId} and state = 'waiting'
        having count(*) > 0)
      where id = ${webhookId}`.execute(trx)
  })
}

/** Failing attempts for so long turn a webhook off. */
const disableSeconds = 3 * 24 * 3_600

/**
 * If its receiver wants no more messages, or after days of failures. Waiting deliveries stay until they are given up:
 * somebody may turn it on again. `waits` are seconds since the first failure.
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

/** Bytes of an answer to read, so that the connection can be used again. */
const answerBytes = 16 * 1024

export interface Sent {
  readonly id: string
  readonly message: string
}

export interface Attempt {
  readonly delivered: boolean
  readonly status: number | null
  /** null after a success. May contain the host of the address, but no other part of it. */
  readonly error: string | null
  /** Seconds, if the receiver asks for them. */
  readonly retryAfter: number | null
  /** The receiver answered 410: it wants no more messages. */
  readonly isGone: boolean
}

/** 200 to 299 means received. A redirect is not followed. Throws the reason of an aborted signal. */
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

/** The headers of Standard Webhooks, with a second signature while the former secret is valid. */
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

export interface WebhookSender {
  /** Writes the deliveries of new events, and begins to send what is due, without waiting for its end. */
  round(): Promise<void>
  /** A request in progress may be sent again later. */
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

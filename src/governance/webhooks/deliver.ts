import {
  recordDeliveryAttempt,
  nextDueDelivery,
  nextDueTime,
  type DueDelivery,
} from '../../db/queries/webhooks/deliver.ts'
import type { Context, Changing, Unsealing, Reading } from '../context.ts'
import { atCommitPoint } from '../audit/commit-points.ts'
import { openTarget, formerSecret, type WebhookTarget, type WebhookRow } from './webhook-view.ts'
import { Webhook } from 'standardwebhooks'
import { OutgoingError, type Outgoing } from '../../shared/outgoing/outgoing.ts'
import { retryAfterOf } from '../../shared/outgoing/retry-after.ts'
import { messagePauses } from '../lanes/lanes.ts'
import type { Rest, Sender } from '../lanes/runner.ts'

/*
 * A webhook is a lane: one worker at a time sends its due deliveries, one after another. What a dead worker has not
 * recorded as sent is sent again, with the same `webhook-id`. After a failure the whole webhook pauses, so an address
 * that never answers costs one attempt for each pause.
 */

/** In one turn, and seconds until the next one: they limit the rate of requests to one address. */
export const mostDeliveries = 20
const leastSeconds = 1
/** Milliseconds. Standard Webhooks asks for 15 to 30 seconds. */
export const attemptMilliseconds = 15_000
/** Once a turn is so old, no further delivery begins. */
const sendingMilliseconds = 5_000
/** A longer answer makes the webhook slow. */
const slowMilliseconds = 3_000

type Leased = Pick<WebhookRow, 'id' | 'organization_id'>

export type Sending = Changing & Unsealing & Pick<Context, 'metrics' | 'outgoing'>

export const webhookSender = (context: Sending): Sender => ({
  kind: 'webhook',
  trouble: 'the deliveries of a webhook could not be sent',
  work: ({ id, organizationId }, signal) =>
    sendDue(context, { id, organization_id: organizationId as string }, signal),
})

/** Stops at the first failure. */
async function sendDue(context: Sending, webhook: Leased, signal: AbortSignal): Promise<Rest> {
  const endsAt = performance.now() + sendingMilliseconds
  let isSlow = false
  for (let sent = 0; sent < mostDeliveries && performance.now() < endsAt && !signal.aborted; sent += 1) {
    // Reads the webhook each time, so that a changed address or secret holds for the next attempt.
    const [delivery] = (await nextDueDelivery(webhook.id).execute(context.db)).rows
    if (delivery === undefined) break
    const startedAt = performance.now()
    const target = await openTarget(context.sealer, { ...delivery, ...webhook })
    const { event_id: id, message } = delivery
    const attempt = await sendMessage(context.outgoing, target, { id, message }, signal)
    isSlow = performance.now() - startedAt > slowMilliseconds
    const waits = await recordAttempt(context, webhook.id, delivery, attempt)
    context.metrics.webhookAttempts.inc({ result: attempt.delivered ? 'delivered' : 'failed' })
    if (attempt.delivered) continue
    if (waits !== null)
      await disableFailing(context, { ...webhook, target_sealed: delivery.target_sealed }, attempt, waits)
    return { ...(await restOf(context, webhook.id)), hasFailed: true, pause: attempt.retryAfter ?? 0 }
  }
  const { dueIn } = await restOf(context, webhook.id)
  return { dueIn: dueIn === null ? null : Math.max(dueIn, leastSeconds), isSlow }
}

async function restOf({ db }: Reading, webhookId: string): Promise<Rest> {
  const [row] = (await nextDueTime(webhookId).execute(db)).rows
  return { dueIn: row?.due_in ?? null }
}

/**
 * Commit point `webhook.record`. Returns the seconds since the first of the failures after the last success; null if the
 * webhook got another address or secret since.
 */
async function recordAttempt(
  { db }: Reading,
  webhookId: string,
  { id, target_sealed: target }: Pick<DueDelivery, 'id' | 'target_sealed'>,
  { delivered, status, error, retryAfter }: Attempt,
): Promise<number | null> {
  const { rows } = await atCommitPoint('webhook.record', () =>
    recordDeliveryAttempt({
      webhookId,
      target,
      deliveryId: id,
      delivered,
      status,
      error: error?.slice(0, 300) ?? null,
      retryAfter: retryAfter ?? 0,
      retries: messagePauses,
    }).execute(db),
  )
  return rows[0]?.waits ?? null
}

/** Failing attempts for so long turn a webhook off. */
const disableSeconds = 3 * 24 * 3_600

/**
 * If its receiver wants no more messages, or after days of failures. Waiting deliveries stay until they are given up:
 * somebody may turn it on again. `waits` are seconds since the first failure.
 */
async function disableFailing(
  { combiner }: Changing,
  webhook: Pick<WebhookRow, 'id' | 'organization_id' | 'target_sealed'>,
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
      .where('target_sealed', '=', webhook.target_sealed)
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

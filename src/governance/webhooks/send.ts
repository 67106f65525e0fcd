import { Webhook } from 'standardwebhooks'
import { OutgoingError, type Outgoing } from '../../shared/outgoing/outgoing.ts'
import { retryAfterOf } from '../../shared/outgoing/retry-after.ts'
import { formerSecret, type WebhookTarget } from './target.ts'

/** One attempt takes at most this many milliseconds. Standard Webhooks asks for 15 to 30 seconds. */
export const attemptMilliseconds = 15_000

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

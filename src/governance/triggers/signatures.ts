import { createHmac } from 'node:crypto'
import { Webhook } from 'standardwebhooks'
import type { WebhookSettings } from '../../db/schema/triggers.ts'
import { isObject } from '../../contract/json.ts'
import type { Json, JsonObject } from '../../policy/types.ts'
import { sha256 } from '../../shared/canonical-json.ts'
import { sameText } from './trigger-view.ts'

/* How a message proves its sender, and by what its redelivery is known. Pure functions. */

export interface Message {
  readonly raw: Buffer
  /** The names in lower case. */
  readonly headers: Readonly<Record<string, string>>
  readonly query: JsonObject
}

/** Seconds that a signed time may differ from now. */
const tolerance = 300

const isNear = (seconds: string, now: Date): boolean =>
  /^\d{1,12}$/.test(seconds) && Math.abs(now.getTime() / 1_000 - Number(seconds)) <= tolerance

const hmac = (secret: string, ...parts: readonly (string | Buffer)[]): string =>
  parts.reduce((mac, part) => mac.update(part), createHmac('sha256', secret)).digest('hex')

const header = ({ headers }: Message, name: string): string => headers[name] ?? ''

export function isProved(
  verify: WebhookSettings['verify'],
  secret: string,
  message: Message,
  now: Date,
): boolean {
  switch (verify) {
    case 'standard': {
      const seconds = header(message, 'webhook-timestamp')
      if (!isNear(seconds, now)) return false
      const at = new Date(Number(seconds) * 1_000)
      const wanted = new Webhook(secret).sign(header(message, 'webhook-id'), at, message.raw.toString('utf8'))
      const given = header(message, 'webhook-signature').split(' ').slice(0, 10)
      return given.some((each) => sameText(each, wanted))
    }
    case 'github':
      return sameText(header(message, 'x-hub-signature-256'), `sha256=${hmac(secret, message.raw)}`)
    case 'slack': {
      const seconds = header(message, 'x-slack-request-timestamp')
      if (!isNear(seconds, now)) return false
      return sameText(
        header(message, 'x-slack-signature'),
        `v0=${hmac(secret, `v0:${seconds}:`, message.raw)}`,
      )
    }
    default:
      return sameText(/^Bearer +(\S+) *$/i.exec(header(message, 'authorization'))?.[1] ?? '', secret)
  }
}

/** What the sender's first message expects as its answer; null for every other message. */
export function handshakeOf(
  verify: WebhookSettings['verify'],
  message: Message,
  body: Json,
): JsonObject | null {
  if (verify === 'github' && header(message, 'x-github-event') === 'ping') return { pong: true }
  if (verify !== 'slack' || !isObject(body) || body['type'] !== 'url_verification') return null
  return typeof body['challenge'] === 'string' ? { challenge: body['challenge'] } : null
}

/**
 * Equal for a message and its redelivery; null if nothing says that two are the same. Only what the sender has signed
 * counts: GitHub does not sign its `x-github-delivery`, so an eavesdropper could send an old message under a new one.
 */
export function deliveryIdOf(verify: WebhookSettings['verify'], message: Message, body: Json): string | null {
  const named = nameOf(verify, message, body)
  return named === null ? null : sha256(named)
}

function nameOf(verify: WebhookSettings['verify'], message: Message, body: Json): string | null {
  const { raw } = message
  switch (verify) {
    case 'standard':
      return header(message, 'webhook-id')
    case 'github':
      return raw.toString('base64')
    case 'slack': {
      const id = isObject(body) ? (body['event_id'] ?? body['trigger_id']) : null
      return typeof id === 'string' ? id : header(message, 'x-slack-signature')
    }
    default:
      return message.headers['idempotency-key'] ?? message.headers['webhook-id'] ?? null
  }
}

/** Headers that prove the message are no input. */
const proofs = /^(authorization|cookie|proxy-authorization|.*signature.*)$/

/** What expressions read. */
export const arrivedIn = ({ headers, query }: Message, body: Json): JsonObject => ({
  body,
  query,
  headers: Object.fromEntries(Object.entries(headers).filter(([name]) => !proofs.test(name))),
})

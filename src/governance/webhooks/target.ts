import { randomBytes } from 'node:crypto'
import { isIP } from 'node:net'
import { newVersion, webhookPlace } from '../sealing/places.ts'
import type { Sealer } from '../sealing/sealer.ts'
import { bareHost, isNamed, isPublicAddress, portOf } from '../../shared/outgoing/hosts.ts'
import type { Config } from '../../shared/config.ts'
import type { Outgoing } from '../../shared/outgoing/outgoing.ts'
import { DomainError } from '../errors.ts'

/**
 * The address and the secrets of a webhook. They are sealed in the webhook's row, because an address often contains a
 * token.
 */
export interface WebhookTarget {
  readonly url: string
  /** Is `whsec_`, followed by the key in base64. */
  readonly secret: string
  /**
   * The secret before the last rotation. Requests are also signed with this secret until the time `until` (ISO 8601).
   */
  readonly former?: { readonly secret: string; readonly until: string }
}

/** Returns a new secret with 256 bits. Standard Webhooks asks for 192 to 512. */
export const newWebhookSecret = (): string => `whsec_${randomBytes(32).toString('base64')}`

interface Row {
  readonly organization_id: string
  readonly id: string
  readonly target_sealed: Buffer
  readonly target_version: string
}

/** Seals the address and secrets of a webhook. Returns the columns in which the webhook's row stores them. */
export async function sealTarget(
  sealer: Pick<Sealer, 'seal'>,
  { organization_id, id }: Pick<Row, 'organization_id' | 'id'>,
  target: WebhookTarget,
): Promise<Pick<Row, 'target_sealed' | 'target_version'>> {
  const target_version = newVersion()
  const place = webhookPlace(organization_id, id, target_version)
  return { target_sealed: await sealer.seal(place, JSON.stringify(target)), target_version }
}

/** Opens the sealed address and secrets of a webhook. Throws UnsealError. */
export async function openTarget(sealer: Pick<Sealer, 'open'>, row: Row): Promise<WebhookTarget> {
  const place = webhookPlace(row.organization_id, row.id, row.target_version)
  const text = await sealer.open(place, row.target_sealed)
  return JSON.parse(text) as WebhookTarget
}

/** Returns the former secret while requests are still signed with both secrets. Returns null afterwards. */
export const formerSecret = ({ former }: WebhookTarget, now = new Date()): typeof former | null =>
  former !== undefined && new Date(former.until) > now ? former : null

interface Reaching {
  readonly config: Pick<Config, 'connections'>
  readonly outgoing: Pick<Outgoing, 'refusalOf'>
}

/**
 * Parses the address of a webhook. Throws `validation_error` for an address to which no request may be sent. If the
 * address has a host name, its IP addresses are checked only when a request is sent.
 */
export function readAddress({ config, outgoing }: Reaching, text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : null
  if (url === null) throw wrong('is no address: write for example `https://example.com/hooks`')
  if (url.username !== '' || url.password !== '')
    throw wrong('must not contain a user or password: put a token into the path')
  if (url.hash !== '') throw wrong('must not contain `#`: remove it and what follows')
  const why = outgoing.refusalOf(url.href)
  if (why !== null) throw wrong(`cannot be used: ${why}`)
  const host = bareHost(url.hostname)
  if (isIP(host) !== 0 && !isPublicAddress(host) && !isNamed(config.connections.hosts, host, portOf(url)))
    throw wrong('is refused: the address is private; the operator can name it in CONNECTION_HOSTS')
  return url
}

function wrong(message: string): DomainError {
  return new DomainError('validation_error', `\`url\` ${message}`, [{ path: 'url', message }])
}

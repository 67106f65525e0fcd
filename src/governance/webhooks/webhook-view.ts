import type { Selectable } from 'kysely'
import type { WebhookDeliveriesTable, WebhooksTable } from '../../db/schema/webhooks.ts'
import { randomBytes } from 'node:crypto'
import { isIP } from 'node:net'
import { newVersion, webhookBinding } from '../sealing/bindings.ts'
import type { Sealer } from '../sealing/sealer.ts'
import { bareHost, isNamed, isPublicAddress, portOf } from '../../shared/outgoing/hosts.ts'
import type { Config } from '../../shared/config.ts'
import type { Outgoing } from '../../shared/outgoing/outgoing.ts'
import { DomainError } from '../errors.ts'

export type WebhookRow = Selectable<WebhooksTable>

/** Without its secrets. */
export interface WebhookView {
  readonly id: string
  readonly organization_id: string
  readonly url: string
  readonly host: string
  readonly events: readonly string[]
  readonly active: boolean
  /** If the service has turned it off. */
  readonly disabled_reason: string | null
  /** The first failure since the last success. */
  readonly failing_since: string | null
  /** Until then, requests are also signed with the former secret. */
  readonly former_secret_until: string | null
  readonly created_at: string
  readonly created_by: string
}

export const webhookView = (row: WebhookRow, target: WebhookTarget): WebhookView => ({
  id: row.id,
  organization_id: row.organization_id,
  url: target.url,
  host: row.host,
  events: row.events,
  active: row.active,
  disabled_reason: row.disabled_reason,
  failing_since: row.failing_since?.toISOString() ?? null,
  former_secret_until: formerSecret(target)?.until ?? null,
  created_at: row.created_at.toISOString(),
  created_by: row.created_by,
})

/** What a caller sees: only owners see the address, because it often contains a token. */
export type ShownWebhook = Omit<WebhookView, 'url'> & {
  readonly url: string | null
  /** The newest one that is kept. */
  readonly last_delivery: DeliveryView | null
}

export interface DeliveryView {
  readonly id: string
  readonly webhook_id: string
  /** The `webhook-id` of its requests. */
  readonly event_id: string
  readonly event_type: string
  readonly state: 'waiting' | 'delivered' | 'failed'
  readonly attempts: number
  readonly last_status: number | null
  readonly last_error: string | null
  readonly last_attempt_at: string | null
  readonly next_attempt_at: string | null
  readonly created_at: string
  readonly ended_at: string | null
}

export const deliveryView = (
  row: Selectable<WebhookDeliveriesTable> & { readonly event_type: string },
): DeliveryView => ({
  id: row.id,
  webhook_id: row.webhook_id,
  event_id: row.event_id,
  event_type: row.event_type,
  state: row.state,
  attempts: row.attempts,
  last_status: row.last_status,
  last_error: row.last_error,
  last_attempt_at: row.last_attempt_at?.toISOString() ?? null,
  next_attempt_at: row.next_attempt_at?.toISOString() ?? null,
  created_at: row.created_at.toISOString(),
  ended_at: row.ended_at?.toISOString() ?? null,
})

/** Sealed in the webhook's row, because an address often contains a token. */
export interface WebhookTarget {
  readonly url: string
  /** `whsec_`, and the key in base64. */
  readonly secret: string
  /** The secret before the last rotation. It also signs until then (ISO 8601). */
  readonly former?: { readonly secret: string; readonly until: string }
}

/** 256 bits. Standard Webhooks asks for 192 to 512. */
export const newWebhookSecret = (): string => `whsec_${randomBytes(32).toString('base64')}`

interface Row {
  readonly organization_id: string
  readonly id: string
  readonly target_sealed: Buffer
  readonly target_version: string
}

/** Returns the columns for the webhook's row. */
export async function sealTarget(
  sealer: Pick<Sealer, 'seal'>,
  { organization_id, id }: Pick<Row, 'organization_id' | 'id'>,
  target: WebhookTarget,
): Promise<Pick<Row, 'target_sealed' | 'target_version'>> {
  const target_version = newVersion()
  const place = webhookBinding(organization_id, id, target_version)
  return { target_sealed: await sealer.seal(place, JSON.stringify(target)), target_version }
}

/** Throws UnsealError. */
export async function openTarget(sealer: Pick<Sealer, 'open'>, row: Row): Promise<WebhookTarget> {
  const place = webhookBinding(row.organization_id, row.id, row.target_version)
  const text = await sealer.open(place, row.target_sealed)
  return JSON.parse(text) as WebhookTarget
}

/** While requests are signed with both secrets. */
export const formerSecret = ({ former }: WebhookTarget, now = new Date()): typeof former | null =>
  former !== undefined && new Date(former.until) > now ? former : null

interface Reaching {
  readonly config: Pick<Config, 'connections'>
  readonly outgoing: Pick<Outgoing, 'refusalOf'>
}

/** Throws `validation_error`. The IP addresses of a host name are checked when a request is sent. */
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

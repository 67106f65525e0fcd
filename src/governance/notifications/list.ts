import { sql, type RawBuilder } from 'kysely'
import { callId, readCallId, idPrefixes } from '../../contract/ids.ts'
import type { EventData, WebhookEvent } from '../../contract/webhook-events.ts'
import type { Db } from '../../db/schema/index.ts'
import type { NotificationChannel, NotificationState } from '../../db/schema/notifications.ts'
import { pageOf, readCursor, readPage, writeCursor, type Page, type PageRequest } from '../page.ts'

export interface NotificationView {
  readonly id: string
  readonly channel: NotificationChannel
  readonly event: string
  /** A person or a webhook. */
  readonly recipient: string
  /** null for a webhook. */
  readonly recipient_email: string | null
  /** As in the list of approvals; null for a run or an account. */
  readonly approval_id: string | null
  readonly run_id: string | null
  readonly state: NotificationState
  readonly attempts: number
  readonly last_error: string | null
  readonly created_at: string
  readonly sent_at: string | null
}

export interface NotificationFilters {
  readonly channel?: NotificationChannel | undefined
  readonly state?: NotificationState | undefined
  readonly approval_id?: string | undefined
  /** The id of a person or webhook, or the address of a person. */
  readonly recipient?: string | undefined
}

/** Messages to people and deliveries to webhooks, newest first. All rows of one message show its state. */
export async function listNotifications(
  db: Db,
  organizationId: string,
  filters: NotificationFilters,
  { limit, cursor }: PageRequest,
): Promise<Page<NotificationView>> {
  const after = readCursor(cursor, /^[0-9A-Z]{26}$/)
  const pageAfter = (kind: 'notification' | 'delivery'): PageRequest => ({
    limit,
    cursor: after === null ? null : writeCursor(`${idPrefixes[kind]}_${after}`),
  })
  const { channel, recipient } = filters
  const toWebhook = recipient === undefined || recipient.startsWith(`${idPrefixes.webhook}_`)
  const [messages, deliveries] = await Promise.all([
    channel === 'webhook' ? [] : messagesOf(db, organizationId, filters, pageAfter('notification')),
    toWebhook && (channel === undefined || channel === 'webhook')
      ? deliveriesOf(db, organizationId, filters, pageAfter('delivery'))
      : [],
  ])
  const both = [...messages, ...deliveries].toSorted((a, b) => (timePart(a) < timePart(b) ? 1 : -1))
  return pageOf(both, limit, timePart, (row) => row)
}

/** An id without its prefix begins with the time, so both can be sorted together. */
const timePart = ({ id }: Pick<NotificationView, 'id'>): string => id.slice(id.indexOf('_') + 1)

/** One more row tells whether another page follows. */
const withNext = ({ limit, cursor }: PageRequest): PageRequest => ({ limit: limit + 1, cursor })

async function messagesOf(
  db: Db,
  organizationId: string,
  filters: NotificationFilters,
  page: PageRequest,
): Promise<readonly NotificationView[]> {
  let query = db
    .selectFrom('notifications as n')
    .innerJoin('notifications as m', 'm.id', 'n.message_id')
    .leftJoin('users as u', 'u.id', 'n.recipient')
    .select(['n.id', 'n.channel', 'n.event', 'n.kind', 'n.subject', 'n.recipient', 'u.email', 'n.created_at'])
    .select(['m.state', 'm.attempts', 'm.last_error', 'm.sent_at'])
    .where('n.organization_id', '=', organizationId)
  if (filters.channel !== undefined) query = query.where('n.channel', '=', filters.channel)
  // The index of messages that have not arrived has the organization, too.
  if (filters.state !== undefined)
    query = query.where('m.organization_id', '=', organizationId).where('m.state', '=', filters.state)
  if (filters.recipient !== undefined) query = query.where(isTo(filters.recipient))
  if (filters.approval_id !== undefined)
    query = query.where('n.subject', '=', filters.approval_id).where('n.kind', '<>', sql.lit('run'))
  const { data } = await readPage(db, query, 'notification', withNext(page), 'n.id')
  return data.map((row) => ({
    id: row.id,
    channel: row.channel,
    event: row.event,
    recipient: row.recipient,
    recipient_email: row.email,
    approval_id: row.kind === 'approval' || row.kind === 'call' ? row.subject : null,
    run_id: row.kind === 'run' ? row.subject : null,
    state: row.state,
    attempts: row.attempts,
    last_error: row.last_error,
    created_at: row.created_at.toISOString(),
    sent_at: row.sent_at?.toISOString() ?? null,
  }))
}

/** SQL: the message is to this person, who is named by id or address. */
const isTo = (recipient: string): RawBuilder<boolean> =>
  recipient.includes('@')
    ? sql`n.recipient = (select id from users where lower(email) = lower(${recipient}))`
    : sql`n.recipient = ${recipient}`

const deliveryStates = { waiting: 'pending', delivered: 'sent', failed: 'failed' } as const

async function deliveriesOf(
  db: Db,
  organizationId: string,
  { state, approval_id: approvalId, recipient }: NotificationFilters,
  page: PageRequest,
): Promise<readonly NotificationView[]> {
  let query = db
    .selectFrom('webhook_deliveries as d')
    .innerJoin('webhook_events as e', 'e.id', 'd.event_id')
    .select(['d.id', 'd.webhook_id', 'd.state', 'd.attempts', 'd.last_error', 'd.created_at', 'd.ended_at'])
    .select(['e.type', 'e.data'])
    .where('d.organization_id', '=', organizationId)
  if (state !== undefined)
    query = query.where((eb) =>
      eb.or(
        Object.entries(deliveryStates).flatMap(([own, shown]) =>
          shown === state ? [eb('d.state', '=', own as keyof typeof deliveryStates)] : [],
        ),
      ),
    )
  if (approvalId !== undefined) query = query.where(isAbout(approvalId))
  if (recipient !== undefined) query = query.where('d.webhook_id', '=', recipient)
  const { data } = await readPage(db, query, 'delivery', withNext(page), 'd.id')
  return data.map((row) => ({
    id: row.id,
    channel: 'webhook',
    event: row.type,
    recipient: row.webhook_id,
    recipient_email: null,
    ...subjectOf(row.type, row.data),
    state: deliveryStates[row.state],
    attempts: row.attempts,
    last_error: row.last_error,
    created_at: row.created_at.toISOString(),
    sent_at: row.state === 'delivered' ? (row.ended_at?.toISOString() ?? null) : null,
  }))
}

/** SQL: the event is about this approval or call. */
function isAbout(approvalId: string): RawBuilder<boolean> {
  const call = readCallId(approvalId)
  const subject = sql`coalesce(e.data->>'approval_id', e.data->>'run_id')`
  if (call === null) return sql`${subject} = ${approvalId} and e.data ? 'approval_id'`
  const { runId, stepId, itemIndex } = call
  return sql`${subject} = ${runId} and e.type = 'effect.unknown' and e.data->>'step_id' = ${stepId}
    and coalesce((e.data->>'item_index')::int, -1) = ${itemIndex}::int`
}

function subjectOf(
  type: WebhookEvent,
  { approval_id, run_id, step_id, item_index }: EventData,
): Pick<NotificationView, 'approval_id' | 'run_id'> {
  if (approval_id !== undefined) return { approval_id, run_id: null }
  if (type === 'effect.unknown' && run_id && step_id)
    return { approval_id: callId({ run_id, step_id, item_index: item_index ?? -1 }), run_id: null }
  return { approval_id: null, run_id: run_id ?? null }
}

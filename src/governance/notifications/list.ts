import { sql } from 'kysely'
import type { Db } from '../../db/schema/index.ts'
import type { NotificationChannel, NotificationState } from '../../db/schema/notifications.ts'
import { readPage, viewPage, type Page, type PageRequest } from '../page.ts'

/** A message as the list shows it. */
export interface NotificationView {
  readonly id: string
  readonly channel: NotificationChannel
  readonly event: string
  /** The id of a person or of a webhook. */
  readonly recipient: string
  /** The id in the list of approvals; null if it is about a run. */
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
}

/** Messages of an organization, the newest first. Rows that share a message have its state. */
export async function listNotifications(
  db: Db,
  organizationId: string,
  filters: NotificationFilters,
  page: PageRequest,
): Promise<Page<NotificationView>> {
  let query = db
    .selectFrom('notifications as n')
    .innerJoin('notifications as m', 'm.id', 'n.message_id')
    .select(['n.id', 'n.channel', 'n.event', 'n.kind', 'n.subject', 'n.recipient', 'n.created_at'])
    .select(['m.state', 'm.attempts', 'm.last_error', 'm.sent_at'])
    .where('n.organization_id', '=', organizationId)
  if (filters.channel !== undefined) query = query.where('n.channel', '=', filters.channel)
  if (filters.state !== undefined) query = query.where('m.state', '=', filters.state)
  if (filters.approval_id !== undefined)
    query = query.where('n.subject', '=', filters.approval_id).where('n.kind', '<>', sql.lit('run'))
  return viewPage(await readPage(db, query, 'n.id', page, (row) => row.id), (row) => ({
    id: row.id,
    channel: row.channel,
    event: row.event,
    recipient: row.recipient,
    approval_id: row.kind === 'run' ? null : row.subject,
    run_id: row.kind === 'run' ? row.subject : null,
    state: row.state,
    attempts: row.attempts,
    last_error: row.last_error,
    created_at: row.created_at.toISOString(),
    sent_at: row.sent_at?.toISOString() ?? null,
  }))
}

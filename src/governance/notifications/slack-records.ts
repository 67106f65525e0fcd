import { sql } from 'kysely'
import { hasLane, wakeLanes } from '../../db/queries/lanes.ts'
import { markMessageIntent } from '../../db/queries/notifications/messages.ts'
import type { Db } from '../../db/schema/index.ts'
import { createHash } from 'node:crypto'
import type { NotificationPlace } from '../../db/schema/notifications.ts'
import { laneKinds } from '../lanes/lanes.ts'
import { atCommitPoint } from '../audit/commit-points.ts'

/*
 * Records each step of a Slack message. Its id is that of its first row in `notifications`. Each organization has a lane,
 * so only one process at a time sends its messages: it can keep Slack's limits, and nothing is sent twice.
 */

/** A use of an organization's lane. */
export interface Turn {
  readonly organizationId: string
  readonly turn: string
}

/** `new`: the oldest unsent message of each recipient. `sent`: those that must be edited. */
export async function dueMessages(
  db: Db,
  organizationId: string,
  kind: 'new' | 'sent',
  limit: number,
): Promise<readonly string[]> {
  const isSent = kind === 'sent' ? sql`place ? 'ts'` : sql`not coalesce(place ? 'ts', false)`
  const one = kind === 'sent' ? sql`` : sql`distinct on (recipient)`
  const order = kind === 'sent' ? sql`next_attempt_at, id` : sql`recipient, id`
  const { rows } = await sql<{ id: string }>`
    select ${one} id from notifications
    where organization_id = ${organizationId} and channel = 'slack' and shown < wanted and id = message_id
      and next_attempt_at <= clock_timestamp() and ${isSent}
    order by ${order} limit ${limit}`.execute(db)
  return rows.map(({ id }) => id)
}

/** `wanted` counts the message's changes when its row was read. */
interface Named {
  readonly id: string
  readonly wanted: number
}

export const hashOfText = (text: string): string => createHash('sha256').update(text).digest('hex')

/**
 * Sending begins (commit point `notification.intent`). Renews the lease, so that no other process looks for the message
 * before it has arrived. Returns false if the lane is lost or the message has changed: it must not be sent now.
 */
export async function markIntent(
  db: Db,
  { organizationId, turn }: Turn,
  message: Named,
  place: NotificationPlace,
): Promise<boolean> {
  const { id, wanted } = message
  const intent = { organizationId, turn, leaseSeconds: laneKinds.slack.leaseSeconds, id, wanted, place }
  const { numAffectedRows } = await atCommitPoint('notification.intent', () =>
    markMessageIntent(intent).execute(db),
  )
  return numAffectedRows === 1n
}

/** Commit point `notification.sent`. `text` is null if an earlier attempt sent it: it will be edited. */
export async function markSent(
  db: Db,
  turn: Turn,
  message: Named,
  place: NotificationPlace,
  text: string | null,
): Promise<void> {
  await atCommitPoint('notification.sent', () =>
    db
      .updateTable('notifications')
      .set({
        state: 'sent',
        place: JSON.stringify(place),
        sent_at: sql<Date>`clock_timestamp()`,
        failures: 0,
        last_error: null,
        intent_at: null,
        ...(text === null
          ? { wanted: sql<number>`wanted + 1` }
          : { shown: message.wanted, shown_hash: hashOfText(text) }),
      })
      .where('id', '=', message.id)
      .where(isTurn(turn))
      .execute(),
  )
}

/**
 * Commit point `notification.updated`. If the lane was lost, the text may have arrived after that of the next turn, so
 * the message is edited once more.
 */
export async function markUpdated(
  db: Db,
  turn: Turn,
  message: { readonly id: string; readonly wanted: number; readonly shownHash: string | null },
  text: string,
): Promise<void> {
  const hash = hashOfText(text)
  const { numUpdatedRows } = await atCommitPoint('notification.updated', () =>
    db
      .updateTable('notifications')
      .set({
        shown: message.wanted,
        shown_hash: hash,
        failures: 0,
        last_error: null,
        ...(hash === message.shownHash ? {} : { state: 'updated' as const }),
      })
      .where('id', '=', message.id)
      .where(isTurn(turn))
      .executeTakeFirst(),
  )
  if (numUpdatedRows > 0n || hash === message.shownHash) return
  await db.transaction().execute(async (trx) => {
    await trx
      .updateTable('notifications')
      .set({
        wanted: sql<number>`wanted + 1`,
        shown_hash: null,
        next_attempt_at: sql<Date>`clock_timestamp()`,
      })
      .where('id', '=', message.id)
      .execute()
    const { organizationId } = turn
    await wakeLanes(sql`values ('slack', ${organizationId}, ${organizationId}, clock_timestamp())`).execute(
      trx,
    )
  })
}

/** It needs no work until its next change. */
export async function markDone(db: Db, turn: Turn, { id, wanted }: Named): Promise<void> {
  await db
    .updateTable('notifications')
    .set({ shown: wanted })
    .where('id', '=', id)
    .where(isTurn(turn))
    .execute()
}

/** SQL: a process that has lost its lane must not overwrite the records of others. */
const isTurn = ({ organizationId, turn }: Turn) => hasLane('slack', organizationId, turn)

/** Gives up. The next change of a message that was sent earlier causes a new attempt to edit it. */
export async function markFailed(
  db: Db,
  turn: Turn,
  { id, wanted }: Named,
  error: string,
  attempts: number,
): Promise<void> {
  await db
    .updateTable('notifications')
    .set({ shown: wanted, state: 'failed', last_error: error.slice(0, 500), attempts })
    .where('id', '=', id)
    .where(isTurn(turn))
    .execute()
}

/** `isUnsent`: it was certainly not sent. */
export async function markRetry(
  db: Db,
  turn: Turn,
  id: string,
  retry: {
    readonly seconds: number
    readonly error: string
    readonly attempts: number
    readonly failures: number
    readonly isUnsent: boolean
  },
): Promise<void> {
  await db
    .updateTable('notifications')
    .set({
      next_attempt_at: sql<Date>`clock_timestamp() + make_interval(secs => ${retry.seconds}::float8)`,
      last_error: retry.error.slice(0, 500),
      attempts: retry.attempts,
      failures: retry.failures,
      ...(retry.isUnsent ? { intent_at: null, place: null } : {}),
    })
    .where('id', '=', id)
    .where(isTurn(turn))
    .execute()
}

/** For a message that is no longer of use. A new event plans it again. */
export async function removeUnsent(db: Db, message: Named): Promise<void> {
  // If another row has joined the message before this lock, `wanted` is higher, and nothing is removed.
  await db.transaction().execute(async (trx) => {
    const row = await trx
      .selectFrom('notifications')
      .select('id')
      .where('id', '=', message.id)
      .where('wanted', '=', message.wanted)
      .forUpdate()
      .executeTakeFirst()
    if (row !== undefined)
      await trx.deleteFrom('notifications').where('message_id', '=', message.id).execute()
  })
}

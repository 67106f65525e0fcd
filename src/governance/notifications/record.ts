import { createHash } from 'node:crypto'
import { sql } from 'kysely'
import { markMessageIntent } from '../../db/queries/notifications.ts'
import type { Db } from '../../db/schema/index.ts'
import type { NotificationPlace } from '../../db/schema/notifications.ts'
import { atCommitPoint } from '../audit/commit-points.ts'
import { leaseSeconds, type Turn } from './lanes.ts'

/*
 * Records in the database each step of sending or editing a Slack message. The id of a message is the id of its first
 * row in `notifications`.
 */

/** A message. `wanted` is the counter of the message's changes at the moment when the message's row was read. */
interface Named {
  readonly id: string
  readonly wanted: number
}

export const hashOfText = (text: string): string => createHash('sha256').update(text).digest('hex')

/**
 * Records that the sending of the message begins (commit point `notification.intent`). Renews the lease, so that no
 * other process looks for the message in Slack before the message has arrived. Returns false if this process has lost
 * the lane or the message has changed. In both cases, the message must not be sent now.
 */
export async function markIntent(
  db: Db,
  { organizationId, turn }: Turn,
  message: Named,
  place: NotificationPlace,
): Promise<boolean> {
  const { id, wanted } = message
  const intent = { organizationId, turn, leaseSeconds, id, wanted, place }
  const { numAffectedRows } = await atCommitPoint('notification.intent', () =>
    markMessageIntent(intent).execute(db),
  )
  return numAffectedRows === 1n
}

/**
 * Records that the message was sent (commit point `notification.sent`). `text` is null if an earlier attempt had
 * already sent the message. The sent text is then unknown, so the message will be edited.
 */
export async function markSent(
  db: Db,
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
      .execute(),
  )
}

/** Records that the message now shows this text (commit point `notification.updated`). */
export async function markUpdated(
  db: Db,
  message: { readonly id: string; readonly wanted: number; readonly shownHash: string | null },
  text: string,
): Promise<void> {
  const hash = hashOfText(text)
  await atCommitPoint('notification.updated', () =>
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
      .execute(),
  )
}

/** Records that the message needs no work until its next change. */
export async function markDone(db: Db, { id, wanted }: Named): Promise<void> {
  await db.updateTable('notifications').set({ shown: wanted }).where('id', '=', id).execute()
}

/**
 * Returns an SQL condition: the turn still has its organization's lane. A process that lost its lane must not overwrite
 * the records of other processes.
 */
const isTurn = ({ organizationId, turn }: Turn) =>
  sql<boolean>`exists (select from notification_lanes
    where organization_id = ${organizationId} and channel = 'slack' and turn = ${turn})`

/** Gives up the message. If the message was sent earlier, its next change causes a new attempt to edit it. */
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

/** Postpones the next attempt by `seconds`. `isUnsent` is true if the message was certainly not sent. */
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

/** Removes the rows of a message that was not sent and is no longer of use. A new event plans the message again. */
export async function removeUnsent(db: Db, message: Named): Promise<void> {
  // The message's row is locked first. If another row has joined the message meanwhile, `wanted` is higher, and nothing
  // is removed.
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

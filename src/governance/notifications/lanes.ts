import { sql } from 'kysely'
import { takeDueLanes } from '../../db/queries/notifications.ts'
import type { Db } from '../../db/schema/index.ts'

/*
 * Each organization has a lane: the right to send the organization's messages in Slack. Only one process has a lane at
 * a time. So this process can keep Slack's limits for the organization, and a message is never sent by two processes.
 * Slow answers from Slack to one organization delay no other organization. `turn` identifies one use of a lane. A turn
 * that is not renewed ends by itself.
 */

/**
 * A turn lasts this many seconds unless it is renewed. Sending one message takes less time, from the record of the
 * intent to the end of the request. If a process dies, its sent messages arrive in Slack before the end of the turn. So
 * the next turn can find these messages in Slack.
 */
export const leaseSeconds = 45

/** The right of one process to send the messages of an organization. */
export interface Turn {
  readonly organizationId: string
  readonly turn: string
}

/**
 * Takes lanes of organizations that have due messages. Does not take the lanes of the organizations in `own`, because
 * this process already has these lanes. All turns that this call begins get the id `turn`.
 */
export async function takeLanes(
  db: Db,
  turn: string,
  { limit, own }: { readonly limit: number; readonly own: readonly string[] },
): Promise<readonly Turn[]> {
  const { rows } = await takeDueLanes({ turn, leaseSeconds, own, limit }).execute(db)
  return rows.map((row) => ({ organizationId: row.organization_id, turn }))
}

/** Renews a turn. Returns false if the turn no longer has the lane. */
export async function renewLane(db: Db, { organizationId, turn }: Turn): Promise<boolean> {
  const { numAffectedRows } = await sql`
    update notification_lanes set leased_until = clock_timestamp() + make_interval(secs => ${leaseSeconds}::float8)
    where organization_id = ${organizationId} and channel = 'slack' and turn = ${turn}`.execute(db)
  return numAffectedRows === 1n
}

/** Ends a turn. No process sends for the organization in the next `pauseSeconds`. */
export async function leaveLane(db: Db, { organizationId, turn }: Turn, pauseSeconds: number): Promise<void> {
  await sql`
    update notification_lanes set turn = null, leased_until = null,
      paused_until = clock_timestamp() + make_interval(secs => ${pauseSeconds}::float8)
    where organization_id = ${organizationId} and channel = 'slack' and turn = ${turn}`.execute(db)
}

/**
 * Returns ids of an organization's due messages. `new` selects the oldest unsent message of each recipient. `sent`
 * selects messages that must be edited.
 */
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

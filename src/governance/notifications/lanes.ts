import { sql } from 'kysely'
import { takeDueLanes } from '../../db/queries/notifications/take-lanes.ts'
import type { Db } from '../../db/schema/index.ts'

/*
 * One process at a time sends the messages of an organization, in a turn of its own. So its limits at the service hold,
 * no two processes send one message, and a slow service delays no other organization. A turn that is not renewed ends
 * by itself.
 */

/**
 * Longer than a message takes from its intent to the end of its request: what a dead process has sent has arrived when the
 * next turn looks for it.
 */
export const leaseSeconds = 45

/** The right to send for an organization, which one process has at a time. */
export interface Turn {
  readonly organizationId: string
  readonly turn: string
}

/** Takes the lanes of organizations with due messages. `turn` names the turns of this call. */
export async function takeLanes(
  db: Db,
  turn: string,
  { limit, own }: { readonly limit: number; readonly own: readonly string[] },
): Promise<readonly Turn[]> {
  const { rows } = await takeDueLanes({ turn, leaseSeconds, own, limit }).execute(db)
  return rows.map((row) => ({ organizationId: row.organization_id, turn }))
}

/** False if another process has the lane. */
export async function renewLane(db: Db, { organizationId, turn }: Turn): Promise<boolean> {
  const { numAffectedRows } = await sql`
    update notification_lanes set leased_until = clock_timestamp() + make_interval(secs => ${leaseSeconds}::float8)
    where organization_id = ${organizationId} and channel = 'slack' and turn = ${turn}`.execute(db)
  return numAffectedRows === 1n
}

/** Ends a turn. Nobody sends for the organization in the next `pauseSeconds`. */
export async function leaveLane(db: Db, { organizationId, turn }: Turn, pauseSeconds: number): Promise<void> {
  await sql`
    update notification_lanes set turn = null, leased_until = null,
      paused_until = clock_timestamp() + make_interval(secs => ${pauseSeconds}::float8)
    where organization_id = ${organizationId} and channel = 'slack' and turn = ${turn}`.execute(db)
}

/** Due messages of an organization: such as are not sent yet, the oldest of each recipient, or such as must be edited. */
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

import { sql } from 'kysely'
import type { Db } from '../../db/schema/index.ts'
import { millisecondsSince, type Moment } from '../../shared/moment.ts'
import type { Outgoing } from '../../shared/outgoing/outgoing.ts'
import type { ConnectionRow } from './connection-view.ts'
import { TokenServerAway } from './token-server-errors.ts'

/* A lease is the right to ask the authorization server for a new access token of a connection (access-token.ts). */

/**
 * The length of the lease. After this time, another process may ask the server for a token. The requests to the server
 * and to the secrets backend take less time.
 */
const leaseSeconds = 45
/**
 * A request to the server begins at most this many milliseconds after the claim. A later request could outlast the
 * lease.
 */
const mostBeforeSending = 20_000

/**
 * Claims the right to ask for a new access token. Returns the end of the lease. Returns null if another process has
 * this right, or if the row has changed. The end is text, because a Date of JavaScript has no microseconds.
 */
export async function claim(db: Db, { id, generation }: ConnectionRow): Promise<string | null> {
  const claimed = await db
    .updateTable('connections')
    .set({ refreshing_until: sql<Date>`clock_timestamp() + make_interval(secs => ${leaseSeconds})` })
    .where('id', '=', id)
    .where('status', '=', 'active')
    .where('generation', '=', generation)
    .where(sql<boolean>`coalesce(refreshing_until < clock_timestamp(), true)`)
    .where(sql<boolean>`coalesce(access_fresh_until <= clock_timestamp(), true)`)
    .returning(sql<string>`refreshing_until::text`.as('lease'))
    .executeTakeFirst()
  return claimed?.lease ?? null
}

/**
 * Returns an Outgoing whose requests throw if too much time has passed since the claim. Without this check, a process
 * that stood still could send a refresh token that another process has used meanwhile.
 */
export const soonAfter = (asked: Moment, outgoing: Outgoing): Outgoing => ({
  ...outgoing,
  fetchWithin: (bounds) =>
    outgoing.fetchWithin({
      ...bounds,
      beforeSending() {
        bounds.beforeSending?.()
        if (millisecondsSince(asked) > mostBeforeSending)
          throw new TokenServerAway('this process stood still before it asked for a new access token')
      },
    }),
})

/**
 * Ends the lease, so that the next call can ask the server at once. This process may have stood still until its lease
 * was over. Another process may then have a lease, and that lease stays. If the database does not answer, the lease
 * expires by itself.
 */
export async function release(
  db: Db,
  { id, lease }: { readonly id: string; readonly lease: string },
): Promise<void> {
  await db
    .updateTable('connections')
    .set({ refreshing_until: null })
    .where('id', '=', id)
    .where(sql<boolean>`refreshing_until = ${lease}::timestamptz`)
    .execute()
    .catch(() => undefined)
}

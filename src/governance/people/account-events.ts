import { sql } from 'kysely'
import { accountEvents } from '../../contract/audit-events.ts'
import { readAccountEvents } from '../../db/queries/people.ts'
import type { Db } from '../../db/schema/index.ts'
import { eachOrganization } from '../audit/each-organization.ts'
import type { Context, Changing } from '../context.ts'
import { forgetGuesses, forgetUsedCodes } from './guesses.ts'

/** Organizations take turns (see `readAccountEvents`). */
const atOnce = 200

/**
 * Appends events of sign-ins, passwords and second factors to the audit chains. A trigger stores each in the
 * transaction of the change. The transaction that appends the entry deletes it, so it is recorded exactly once.
 */
export async function recordAccountEvents(context: Changing & Pick<Context, 'sparseLog'>): Promise<void> {
  const { rows } = await readAccountEvents(atOnce, accountEvents).execute(context.db)
  const [known, foreign] = [rows.filter(isKnown), rows.filter((row) => !isKnown(row))]
  // A superuser could write any event into this table, such as a vote, and the service would sign it.
  for (const { id, organization_id, type } of foreign)
    context.sparseLog.warn(
      `foreign account event ${organization_id}`,
      { organization_id, account_event: id, type },
      'ALARM: account_events has an event that the service does not write there: it stays, and is not in the audit log',
    )
  await eachOrganization(context.sparseLog, 'recording account events', known, (own, organizationId) =>
    recordIn(
      context,
      organizationId,
      own.map(({ id }) => id),
    ),
  )
}

const isKnown = ({ type }: { readonly type: string }): boolean => accountEvents.some((each) => each === type)

/** Expired sessions and mailed tokens, old counts of requests and wrong passwords, old used codes. */
export async function forgetEndedSignIns(db: Db): Promise<void> {
  for (const table of ['auth_sessions', 'auth_verifications', 'terminal_logins'])
    await sql`delete from ${sql.table(table)} where expires_at < clock_timestamp() - interval '1 hour'`.execute(
      db,
    )
  // The sign-in library keeps a row for each client address for ever. `last_request` is in milliseconds.
  await sql`delete from auth_rate_limits
            where last_request < (extract(epoch from clock_timestamp()) - 86400) * 1000`.execute(db)
  await forgetGuesses(db)
  await forgetUsedCodes(db)
}

async function recordIn(context: Changing, organizationId: string, ids: readonly number[]): Promise<void> {
  await context.combiner.run(organizationId, 'org.change', async (tx) => {
    const events = await tx.trx
      .deleteFrom('account_events')
      .where('id', 'in', ids)
      .where('organization_id', '=', organizationId)
      .returningAll()
      .execute()
    for (const event of events.sort((one, other) => one.id - other.id))
      tx.append({
        eventType: event.type,
        action: event.type.slice(event.type.indexOf('.') + 1),
        actor: { type: 'user', id: event.user_id, ip: event.ip_address },
        metadata: {
          happened_at: event.at.toISOString(),
          ...(event.session_id === null ? {} : { session_id: event.session_id }),
          ...(event.api_key_id === null ? {} : { key_id: event.api_key_id }),
        },
      })
  })
}

import { sql } from 'kysely'
import type { Context } from '../context.ts'

/** The triggers that refuse every edit of the audit log (db/migrations/0002-audit.ts). */
const needed = ['audit_events_no_edit', 'audit_events_no_truncate'] as const

/**
 * Checks that these triggers are there and ENABLE ALWAYS, and logs an error that says what to do where one is not: a
 * superuser's DISABLE and ENABLE leaves it such that a session with `session_replication_role = replica` gets past it.
 * Returns the names of those that are not. Never throws: a database that cannot be asked is told by `/health`.
 */
export async function checkAuditTriggers({ db, log }: Pick<Context, 'db' | 'log'>): Promise<string[]> {
  try {
    const { rows } = await sql<{ name: string; state: string }>`
      select tgname as name, tgenabled as state from pg_trigger
      where tgrelid = 'audit_events'::regclass and tgname = any(${[...needed]})`.execute(db)
    const states = new Map(rows.map(({ name, state }) => [name, state]))
    const weak = needed.filter((name) => states.get(name) !== 'A')
    for (const name of weak)
      log.error(
        { trigger: name },
        states.has(name)
          ? `the audit log is not fully protected: run \`alter table audit_events enable always trigger ${name}\` ` +
              'as the owner of the table, then verify the chain'
          : `the audit log is not protected: its trigger \`${name}\` is gone: restore it from ` +
              'src/db/migrations/0002-audit.ts, then verify the chain',
      )
    return weak
  } catch (error) {
    log.warn({ err: error }, 'the triggers of the audit log could not be checked')
    return []
  }
}

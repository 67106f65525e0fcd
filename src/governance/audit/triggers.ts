import { sql } from 'kysely'
import type { Db } from '../../db/schema/index.ts'
import type { Log } from '../../shared/log.ts'

/** They refuse every edit of the audit log (db/migrations/0001-baseline/audit.ts). */
const needed = ['audit_events_no_edit', 'audit_events_no_truncate'] as const

/**
 * Returns the triggers that are missing or not ENABLE ALWAYS, and logs how to repair each. Never throws: `/health`
 * already reports a silent database. A trigger that a superuser has disabled and enabled again is no longer ALWAYS, and
 * a session with `session_replication_role = replica` bypasses it.
 */
export async function checkAuditTriggers(db: Db, log: Log): Promise<string[]> {
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
          : `the audit log is not protected, because its trigger \`${name}\` is missing: restore it from ` +
              'src/db/migrations/0001-baseline/audit.ts, then verify the chain',
      )
    return weak
  } catch (error) {
    log.warn({ err: error }, 'the triggers of the audit log could not be checked')
    return []
  }
}

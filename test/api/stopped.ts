import { until } from '../stack/until.ts'
import { asAdmin } from '../support/postgres.ts'
import type { TestServer } from './server.ts'

/** Resolves once this number of database sessions waits for a lock. */
export const waiting = ({ context }: TestServer, count: number): Promise<void> =>
  until(`${count} sessions wait`, async () => {
    const { rows } = await context.pool.query<{ waiting: number }>(
      `select count(*)::int as waiting from pg_stat_activity
       where datname = current_database() and wait_event_type = 'Lock'`,
    )
    return rows[0]?.waiting === count
  })

/** Stops each statement of this kind after it has changed a row, until `meanwhile` has ended. */
export async function stopped<T>(
  server: TestServer,
  { table, kind, when }: { readonly table: string; readonly kind: string; readonly when: string },
  begin: () => Promise<T>,
  meanwhile: () => Promise<void>,
): Promise<T> {
  const { adminUrl, context } = server
  const holder = await context.pool.connect()
  await asAdmin(adminUrl, (admin) =>
    admin.query(`
      create or replace function stop_here() returns trigger language plpgsql as $$
      begin perform pg_advisory_xact_lock(4711); return null; end $$;
      create trigger stop_here after ${kind} on ${table} for each row when (${when}) execute function stop_here()`),
  )
  try {
    await holder.query('select pg_advisory_lock(4711)')
    const begun = begin()
    await waiting(server, 1)
    await meanwhile()
    await holder.query('select pg_advisory_unlock(4711)')
    return await begun
  } finally {
    holder.release(true)
    await asAdmin(adminUrl, (admin) => admin.query(`drop trigger stop_here on ${table}`))
  }
}

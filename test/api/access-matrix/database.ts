import type { Context } from '../../../src/context.ts'

/** Tables that change although nothing was asked for: signs of life, and how many requests there were. */
const alive = new Set(['process_heartbeats', 'request_windows'])
/** Notes of use, not state. */
const notes = ['last_used_at']

/** Rows and a hash of every table that the service can read: equal before and after what changes nothing. */
export async function fingerprint({ pool }: Context): Promise<Record<string, string>> {
  const { rows: tables } = await pool.query<{ schema: string; name: string }>(
    `select table_schema as schema, table_name as name from information_schema.tables
     where table_type = 'BASE TABLE' and table_schema not in ('pg_catalog', 'information_schema') order by 1, 2`,
  )
  const parts = tables
    .filter(({ name }) => !alive.has(name))
    .map(
      ({ schema, name }) => `select '${schema}.${name}' as name, count(*) || ' ' ||
        md5(coalesce(string_agg(row, chr(10) order by row), '')) as state
        from (select (to_jsonb(t) - '{${notes.join(',')}}'::text[])::text as row from "${schema}"."${name}" t) rows`,
    )
  const { rows } = await pool.query<{ name: string; state: string }>(parts.join(' union all '))
  return Object.fromEntries(rows.map(({ name, state }) => [name, state]))
}

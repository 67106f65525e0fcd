import type { Pool } from 'pg'
import type { Context } from '../../../src/governance/context.ts'

/** Tables that change without any request, or with every request: heartbeats, request counters, kept checkpoints. */
const alive = ['process_heartbeats', 'request_windows', 'checkpoint_folders']
/** Columns that only record the use of an object. */
const notes = ['last_used_at']

const statements = new WeakMap<Pool, Promise<string>>()

/**
 * The number of rows and a hash for every table that the service can read. A request that changes nothing leaves the
 * result equal.
 */
export async function fingerprint({ pool }: Context): Promise<Record<string, string>> {
  const statement = statements.get(pool) ?? statementFor(pool)
  statements.set(pool, statement)
  const { rows } = await pool.query<{ name: string; state: string }>(await statement)
  return Object.fromEntries(rows.map(({ name, state }) => [name, state]))
}

async function statementFor(pool: Pool): Promise<string> {
  const { rows } = await pool.query<{ name: string; columns: string }>(
    `select format('%I.%I', table_schema, table_name) as name, string_agg(format('%I', column_name), ', ') as columns
     from information_schema.columns join information_schema.tables using (table_schema, table_name)
     where table_type = 'BASE TABLE' and table_schema not in ('pg_catalog', 'information_schema')
       and table_name <> all ($1) and column_name <> all ($2)
     group by 1 order by 1`,
    [alive, notes],
  )
  const parts = rows.map(
    ({ name, columns }) => `select '${name}' as name,
      count(*) || ' ' || sum(hashtextextended(row(${columns})::text, 0)::numeric) as state from ${name}`,
  )
  return parts.join(' union all ')
}

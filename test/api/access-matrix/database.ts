import type { Pool } from 'pg'
import type { Context } from '../../../src/governance/context.ts'

/** Tables that change without any request, or with every request: heartbeats, request counters, kept checkpoints. */
const alive = ['process_heartbeats', 'request_windows', 'checkpoint_folders']
/** Columns that only record the use of an object. */
const notes = ['last_used_at']

const statements = new WeakMap<Pool, Promise<string>>()

/**
 * The number of rows of every table that the service can read, and the transactions that wrote them. A request that
 * changes nothing leaves the result equal. Tables with `notes` have a hash of their rows instead.
 */
export async function fingerprint({ pool }: Context): Promise<Record<string, string>> {
  const statement = statements.get(pool) ?? statementFor(pool)
  statements.set(pool, statement)
  const { rows } = await pool.query<{ name: string; state: string }>(await statement)
  return Object.fromEntries(rows.map(({ name, state }) => [name, state]))
}

async function statementFor(pool: Pool): Promise<string> {
  const { rows } = await pool.query<{ name: string; part: string }>(
    `select format('%I.%I', table_schema, table_name) as name,
       case when bool_or(column_name = any ($2))
         then format('hashtextextended(row(%s)::text, 0)', string_agg(format('%I', column_name), ', ') filter (where column_name <> all ($2)))
         else 'xmin::text::bigint' end as part
     from information_schema.columns join information_schema.tables using (table_schema, table_name)
     where table_type = 'BASE TABLE' and table_schema not in ('pg_catalog', 'information_schema')
       and table_name <> all ($1)
     group by 1 order by 1`,
    [alive, notes],
  )
  const parts = rows.map(
    ({ name, part }) =>
      `select '${name}' as name, count(*) || ' ' || sum((${part})::numeric) as state from ${name}`,
  )
  return parts.join(' union all ')
}

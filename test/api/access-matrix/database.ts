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

/** The length of every organization's audit log. */
export async function lengths({ pool }: Context): Promise<ReadonlyMap<string, number>> {
  const { rows } = await pool.query<{ id: string; seq: string }>(
    'select organization_id as id, seq from chain_head',
  )
  return new Map(rows.map(({ id, seq }) => [id, Number(seq)]))
}

/** The events that were appended to any audit log since then, each once. */
export async function appendedSince(
  { pool }: Context,
  before: ReadonlyMap<string, number>,
): Promise<string[]> {
  const { rows } = await pool.query<{ event_type: string }>(
    `select distinct event_type from audit_events as e left join jsonb_each_text($1) as b on b.key = e.organization_id
     where e.seq > coalesce(b.value::bigint, 0) order by 1`,
    [JSON.stringify(Object.fromEntries(before))],
  )
  return rows.map((row) => row.event_type)
}

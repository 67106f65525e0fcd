import { sql, type RawBuilder } from 'kysely'

/** Returns a CTE that inserts rows into the outbox. */
export const insertMessages = (
  rows: readonly { readonly kind: string; readonly run_id: string; readonly payload?: unknown }[],
): RawBuilder<unknown> => sql`told as (
    insert into outbox (kind, run_id, payload)
    select * from unnest(${rows.map((row) => row.kind)}::text[],
                         ${rows.map((row) => row.run_id)}::text[],
                         ${rows.map((row) => row.payload)}::jsonb[])
  )`

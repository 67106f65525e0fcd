import { sql, type RawBuilder } from 'kysely'

/**
 * Returns a CTE that inserts events of runs. The statement must also have the CTE `moved`. The column `base` of `moved`
 * is the number of earlier events of a run.
 */
export const insertRunEvents = (
  now: Date,
  events: readonly {
    readonly runId: string
    readonly place: number
    readonly type: string
    readonly data: object
  }[],
): RawBuilder<unknown> => sql`shown as (
    insert into run_events (run_id, seq, type, at, data)
    select e.run_id, moved.base + e.place, e.type, ${now}::timestamptz, e.data
    from unnest(${events.map((event) => event.runId)}::text[], ${events.map((event) => event.place)}::int[],
                ${events.map((event) => event.type)}::text[], ${events.map((event) => JSON.stringify(event.data))}::jsonb[])
         as e(run_id, place, type, data)
    join moved on moved.id = e.run_id
  )`

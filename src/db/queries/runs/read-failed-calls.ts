import { sql, type RawBuilder } from 'kysely'

/** The first of each step; `total` counts all. `params_sealed` only of items, up to `mostSealedBytes`. */
export const readFailedCalls = <Row>(given: {
  readonly runId: string
  readonly stepIds: readonly string[]
  readonly mostSealedBytes: number
  readonly mostFailedItems: number
}): RawBuilder<Row> => sql`
  with f as (
    select step_id, item_index,
      row_number() over (partition by step_id order by item_index) as place,
      count(*) filter (where item_index >= 0) over (partition by step_id)::int as total
    from effects
    where run_id = ${given.runId} and step_id = any(${given.stepIds}) and error is not null
      and state not in ('completed', 'cancelled', 'skipped')
  )
  select f.step_id, f.item_index, f.total, e.state, e.error, e.error_detail_sealed,
    case when octet_length(e.params_sealed) <= ${given.mostSealedBytes} and e.item_index >= 0 then e.params_sealed end
      as params_sealed
  from f join effects e on e.run_id = ${given.runId} and e.step_id = f.step_id and e.item_index = f.item_index
  where f.place <= ${given.mostFailedItems}
  order by f.step_id, f.item_index`

import { sql, type RawBuilder } from 'kysely'

/**
 * Reads the first `mostFailedItems` failed calls of each step. `total` is the number of all failed items of the step.
 * `params_sealed` is null for a step without `for_each`, and for parameters of more than `mostSealedBytes`.
 */
export const readFailedCalls = <Row>({
  runId,
  stepIds,
  mostSealedBytes,
  mostFailedItems,
}: {
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
    where run_id = ${runId} and step_id = any(${stepIds}) and error is not null
      and state not in ('completed', 'cancelled', 'skipped')
  )
  select f.step_id, f.item_index, f.total, e.state, e.error, e.error_detail_sealed,
    case when octet_length(e.params_sealed) <= ${mostSealedBytes} and e.item_index >= 0 then e.params_sealed end
      as params_sealed
  from f join effects e on e.run_id = ${runId} and e.step_id = f.step_id and e.item_index = f.item_index
  where f.place <= ${mostFailedItems}
  order by f.step_id, f.item_index`

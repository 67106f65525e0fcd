import { sql, type RawBuilder } from 'kysely'

/** Calls of one step that wait for the same thing, or a run that waits as a whole. */
export interface Waiting {
  readonly run_id: string
  /** null for a whole run. */
  readonly step_id: string | null
  /** `decided`: but the call has not continued yet. */
  readonly kind: 'approval' | 'resolution' | 'slot' | 'time' | 'decided'
  readonly rule_name: string | null
  readonly approver: 'admin' | 'owner' | null
  readonly approvals_needed: number | null
  readonly count: number
  /** The first item; -1 without `for_each`, and for a whole run. */
  readonly first: number
  /** When the first of them began to wait. */
  readonly since: Date | null
  /** With `time`: when the first of these steps goes on. */
  readonly until: Date | null
}

/** Calls with the same step, kind and required approval are counted together. */
export const countWaiting = (runIds: readonly string[]): RawBuilder<Waiting> => sql`
  with waiting as (
    select e.run_id, e.step_id, e.item_index, case
        when e.state = 'unknown_outcome' then
          case when e.resolved_outcome is null then 'resolution' else 'decided' end
        when e.until is not null then 'time'
        when e.wants_slot then 'slot'
        when a.status = 'pending' then 'approval'
        else 'decided' end as kind, a.rule_name, a.approver, a.approvals_needed,
        case when e.state = 'unknown_outcome' then coalesce(e.sent_at, e.intent_at) else a.created_at end as since, e.until
    from effects e left join approvals a on a.id = e.approval_id and e.state = 'held'
    where e.run_id = any(${[...runIds]}::text[]) and e.state in ('held', 'unknown_outcome')
    union all
    select run_id, null, -1, case when status = 'pending' then 'approval' else 'decided' end, rule_name, approver,
           approvals_needed, created_at, null::timestamptz
    from approvals
    where run_id = any(${[...runIds]}::text[]) and kind = 'run' and used_at is null and status in ('pending', 'approved')
  )
  select run_id, step_id, kind, rule_name, approver, approvals_needed, count(*)::int as count,
         min(item_index)::int as first, min(since) as since, min(until) as until
  from waiting group by 1, 2, 3, 4, 5, 6 order by step_id nulls first, kind, first`

import { sql, type RawBuilder } from 'kysely'
import { isDecided, seconds } from './decided-columns.ts'

/**
 * Selects the rules that required the most approvals (`is_top`). Also selects the rules with approved but without
 * rejected approvals (`always_approved`). Each of the two lists has at most `mostRules` rules, and a rule can be in
 * both lists.
 */
export const rulesThatHold = <Rule>(
  mine: RawBuilder<boolean>,
  mostRules: number,
): RawBuilder<Rule & { readonly is_top: boolean }> => sql`
  with rules as (
    select rule_id, count(*) as held, count(*) filter (where status = 'approved') as approved,
      count(*) filter (where status = 'rejected') as rejected, max(id) as newest
    from approvals where ${mine} and rule_id is not null
    group by rule_id
  ), ranked as (
    select *, approved > 0 and rejected = 0 as always_approved,
      row_number() over (order by held desc, rule_id) as place,
      row_number() over (partition by approved > 0 and rejected = 0 order by held desc, rule_id) as place_beside
    from rules
  ), shown as materialized (
    select * from ranked where place <= ${mostRules} or (always_approved and place_beside <= ${mostRules})
  ), medians as (
    select rule_id, percentile_cont(0.5) within group (order by ${seconds}) as median_decision_seconds
    from approvals where ${mine} and ${isDecided} and rule_id = any(array(select rule_id from shown)) group by rule_id
  )
  select rule_id, (select a.rule_name from approvals a where a.id = newest) as rule_name, held, approved, rejected,
    always_approved, median_decision_seconds, place <= ${mostRules} as is_top
  from shown left join medians using (rule_id) order by place`

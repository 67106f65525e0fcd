import { sql } from 'kysely'
import type { Context } from '../../context.ts'

export type DecisionRow = Awaited<ReturnType<typeof readDecisions>>[number]

/** Reads the decisions with a `seq` above `after` and up to `until`, with their approvals, calls and reports. */
export function readDecisions(context: Pick<Context, 'db'>, runId: string, after: number, until: number) {
  return (
    context.db
      .selectFrom('decisions as d')
      .leftJoin('approvals as a', 'a.id', 'd.approval_id')
      .leftJoin('effects as e', (join) =>
        join
          .onRef('e.run_id', '=', 'd.run_id')
          .onRef('e.step_id', '=', 'd.step_id')
          .on((eb) => eb('e.item_index', '=', eb.fn.coalesce('d.item_index', eb.lit(-1)))),
      )
      .leftJoin('agent_observations as o', 'o.decision_id', 'd.id')
      // The client's report can belong to any decision that allowed this call with this approval.
      .leftJoinLateral(
        (eb) =>
          eb
            .selectFrom('decisions as same')
            .leftJoin('agent_observations as r', 'r.decision_id', 'same.id')
            .select([
              sql<number | null>`min(same.seq)`.as('first_allowed'),
              sql<Date | null>`min(r.at)`.as('reported_at'),
              sql<string | null>`(array_agg(r.outcome order by r.at))[1]`.as('reported_outcome'),
            ])
            .whereRef('same.approval_id', '=', 'd.approval_id')
            .where('same.verdict', '=', 'allow')
            .where('d.session_id', 'is not', null)
            .as('use'),
        (join) => join.onTrue(),
      )
      .selectAll('d')
      .select([
        'a.status as approval_status',
        'a.created_at as held_at',
        'a.used_at as approval_used_at',
        'a.supersedes_id',
        'a.held_again',
        'e.past_outcomes',
        'e.state as effect_state',
        'e.decision_id as effect_decision',
        'e.intent_at',
        'use.first_allowed',
      ])
      .select((eb) => [
        eb.fn.coalesce('o.at', 'use.reported_at').as('observed_at'),
        eb.fn.coalesce('o.outcome', 'use.reported_outcome').as('observed_outcome'),
      ])
      .where('d.run_id', '=', runId)
      .where('d.seq', '>', after)
      .where('d.seq', '<=', until)
      .orderBy('d.seq')
      .execute()
  )
}

import { sql, type RawBuilder, type Transaction } from 'kysely'
import { rulesThatHold, countApprovalsByStatus, type ApprovalTotals } from '../../db/queries/reports.ts'
import type { Database, Db } from '../../db/schema/index.ts'
import { countVerdicts } from '../audit/counts.ts'
import { stretchOf } from '../audit/list.ts'
import { readBounded } from '../bounded-read.ts'
import type { Verdict } from '../../policy/types.ts'
import { createdSince, startOf, type Period } from './period.ts'

/**
 * In seconds. The report counts the approvals that were given within this time after the request. An approver who is so
 * quick may not have read the call.
 */
const quick = 10
/** A report names at most `mostPeople` people. Each of its lists of rules has at most `mostRules` rules. */
const mostPeople = 10
const mostRules = 10

/** How people decided on the calls for which one rule required an approval. */
export interface HoldingRule {
  readonly rule_id: string
  /** The name that the rule had at its newest approval. */
  readonly rule_name: string | null
  readonly held: number
  readonly approved: number
  readonly rejected: number
  /** Whether people approved at least one of the rule's calls and rejected none. */
  readonly always_approved: boolean
  readonly median_decision_seconds: number | null
}

/**
 * Contains the numbers of one period. An approval counts in the period in which it was requested (docs/decisions/0099).
 */
export interface GovernanceReport {
  readonly period: Period
  /** The start of the period; null for `all`. */
  readonly since: string | null
  /** The number of runs that were accepted. */
  readonly total_executions: number
  /**
   * The number of accepted runs for which an approval was requested. The approval can be for the whole run or for a
   * step.
   */
  readonly gated_executions: number
  /** The number of approvals that were requested for runs, steps and agents' calls. */
  readonly held: number
  readonly approved: number
  readonly rejected: number
  readonly pending: number
  readonly expired: number
  readonly cancelled: number
  /** The approved approvals divided by the approved and rejected approvals, from 0 to 1; 0 if nothing was decided. */
  readonly approval_rate: number
  /** The mean time from a request to its approval or rejection; 0 if nothing was decided. */
  readonly avg_approval_time_minutes: number
  /**
   * Maps each verdict to the number of decisions with this verdict. Includes the calls of runs and the calls of agents.
   * A held call of a run that is approved has two decisions `require_approval`: the second is made when the call runs.
   */
  readonly decisions: Readonly<Record<Verdict, number>>
  readonly median_decision_seconds: number | null
  readonly p95_decision_seconds: number | null
  readonly approved_within_ten_seconds: number
  /** `approved_within_ten_seconds` divided by the approved approvals, from 0 to 1; null if nothing was approved. */
  readonly share_approved_within_ten_seconds: number | null
  readonly top_approvers: readonly { readonly user_id: string; readonly approvals: number }[]
  /** The rules that required the most approvals, in descending order. */
  readonly top_rules: readonly HoldingRule[]
  /** Rules with `always_approved: true` that required the most approvals, in descending order. */
  readonly always_approved_rules: readonly HoldingRule[]
}

/** Computes the report of one organization from one snapshot of the database. */
export async function readReport(db: Db, organizationId: string, period: Period): Promise<GovernanceReport> {
  return readBounded(db, async (trx) => {
    const since = await startOf(trx, period)
    const mine = createdSince(organizationId, since)
    const stretch = await stretchOf(trx, organizationId, { since: since ?? undefined })
    const decisions = await countVerdicts(trx, organizationId, stretch)
    const executions = await countExecutions(trx, mine)
    const { mean, quantiles, quick: soon, ...counts } = await countApprovals(trx, mine)
    const decided = counts.approved + counts.rejected
    return {
      period,
      since: since?.toISOString() ?? null,
      ...executions,
      ...counts,
      decisions,
      approval_rate: decided === 0 ? 0 : counts.approved / decided,
      avg_approval_time_minutes: (mean ?? 0) / 60,
      median_decision_seconds: quantiles?.[0] ?? null,
      p95_decision_seconds: quantiles?.[1] ?? null,
      approved_within_ten_seconds: soon,
      share_approved_within_ten_seconds: counts.approved === 0 ? null : soon / counts.approved,
      top_approvers: await topApprovers(trx, mine),
      ...(await holdingRules(trx, mine)),
    }
  })
}

async function countExecutions(
  trx: Transaction<Database>,
  mine: RawBuilder<boolean>,
): Promise<{ total_executions: number; gated_executions: number }> {
  // An approval is never older than its run. So all approvals of the period's runs were created in the period too, and
  // the query needs no older approvals.
  const { rows } = await sql<{ total_executions: number; gated_executions: number }>`
    select (select count(*) from runs where ${mine}) as total_executions,
           (select count(*) from (select distinct run_id from approvals where ${mine} and run_id is not null) as held
            join (select id from runs where ${mine}) as runs on runs.id = held.run_id) as gated_executions`.execute(
    trx,
  )
  return rows[0] ?? { total_executions: 0, gated_executions: 0 }
}

async function countApprovals(
  trx: Transaction<Database>,
  mine: RawBuilder<boolean>,
): Promise<ApprovalTotals> {
  const { rows } = await countApprovalsByStatus(mine, quick).execute(trx)
  return rows[0] as ApprovalTotals
}

async function topApprovers(
  trx: Transaction<Database>,
  mine: RawBuilder<boolean>,
): Promise<GovernanceReport['top_approvers']> {
  const { rows } = await sql<{ user_id: string; approvals: number }>`
    select v.user_id, count(*) as approvals
    from (select id from approvals where ${mine}) as a join approval_votes v on v.approval_id = a.id
    where v.decision = 'approve'
    group by v.user_id order by approvals desc, v.user_id limit ${mostPeople}`.execute(trx)
  return rows
}

async function holdingRules(
  trx: Transaction<Database>,
  mine: RawBuilder<boolean>,
): Promise<Pick<GovernanceReport, 'top_rules' | 'always_approved_rules'>> {
  const { rows } = await rulesThatHold<HoldingRule>(mine, mostRules).execute(trx)
  const shown = rows.map(({ is_top: isTop, ...rule }) => ({ isTop, rule }))
  return {
    top_rules: shown.filter(({ isTop }) => isTop).map(({ rule }) => rule),
    always_approved_rules: shown.map(({ rule }) => rule).filter((rule) => rule.always_approved),
  }
}

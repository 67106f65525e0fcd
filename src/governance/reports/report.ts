import { sql, type RawBuilder, type Transaction } from 'kysely'
import {
  approversOf,
  rulesThatHold,
  countApprovalsByDay,
  countApprovalsByStatus,
  countOfAgents,
  type AgentCounts,
  type HeldDay,
  type ApprovalTotals,
  heldVersions,
  type HeldVersion,
  heldWorkflows,
} from '../../db/queries/reports.ts'
import type { Database, Db } from '../../db/schema/index.ts'
import { countVerdicts, stretchOf } from '../audit/list.ts'
import { readBounded } from '../page.ts'
import type { Verdict } from '../../policy/types.ts'
import { getTool } from '../../tools/index.ts'
import { everyCategory } from '../../policy/settings.ts'

/** Seconds. So quick an approver may not have read the call. */
const quick = 10

export interface HoldingRule {
  readonly rule_id: string
  /** At its newest approval. */
  readonly rule_name: string | null
  readonly held: number
  readonly approved: number
  readonly rejected: number
  /** At least one call was approved, and none rejected. */
  readonly always_approved: boolean
  readonly median_decision_seconds: number | null
}

interface Approver {
  readonly user_id: string
  /** null if the account was deleted. */
  readonly name: string | null
  readonly email: string | null
  readonly approvals: number
}

/** Which time a report is about: a period that ends now, or from one time to another. */
export interface Time {
  readonly period?: Period | undefined
  readonly from?: Date | undefined
  readonly to?: Date | undefined
}

/** An approval counts in the period in which it was requested (docs/decisions/0099). */
export interface GovernanceReport {
  /** null if the request gave `from` or `to`. */
  readonly period: Period | null
  /** Inclusive; null for everything until then. */
  readonly since: string | null
  /** Exclusive; null for everything until now. */
  readonly until: string | null
  /** Accepted runs. */
  readonly total_executions: number
  /** Those for which an approval was requested, of the whole run or a step. */
  readonly gated_executions: number
  /** Requested approvals of runs, steps and agents' calls. */
  readonly held: number
  readonly approved: number
  readonly rejected: number
  readonly pending: number
  readonly expired: number
  readonly cancelled: number
  /** Decisions on calls of runs and agents. A held call of a run that is approved counts twice as `require_approval`: also when it runs. */
  readonly approval_rate: number
  /** To approval or rejection; 0 if nothing was decided. */
  readonly avg_approval_time_minutes: number
  /** Calls of runs and agents. One that a run's approval held counts as `require_approval` again when it runs. */
  readonly decisions: Readonly<Record<Verdict, number>>
  readonly median_decision_seconds: number | null
  readonly p95_decision_seconds: number | null
  readonly approved_within_ten_seconds: number
  /** A share of the approved ones, from 0 to 1; null if there are none. */
  readonly share_approved_within_ten_seconds: number | null
  readonly top_approvers: readonly Approver[]
  /** Those that required the most approvals. */
  readonly top_rules: readonly HoldingRule[]
  /** The same of those with `always_approved`. */
  readonly always_approved_rules: readonly HoldingRule[]
  /** The newest days on which something was held, the oldest first. */
  readonly by_day: readonly HeldDay[]
  /** Those with the most calls, by the sessions that began in this time. */
  readonly agents: readonly AgentCounts[]
}

/** A quarter. */
const mostDays = 92

/** From one snapshot of the database. */
export async function readReport(db: Db, organizationId: string, time: Time): Promise<GovernanceReport> {
  return readBounded(db, async (trx) => {
    const { since, until, words } = await stretchIn(trx, time)
    const asked = { organizationId, since, until }
    const mine = mineOf(asked)
    const stretch = await stretchOf(trx, organizationId, { since, until })
    const decisions = await countVerdicts(trx, organizationId, stretch)
    const executions = await countExecutions(trx, mine)
    const { rows } = await countApprovalsByStatus(mine, quick).execute(trx)
    const { mean, quantiles, quick: soon, ...counts } = rows[0] as ApprovalTotals
    const decided = counts.approved + counts.rejected
    return {
      ...words,
      ...executions,
      ...counts,
      decisions,
      approval_rate: decided === 0 ? 0 : counts.approved / decided,
      avg_approval_time_minutes: (mean ?? 0) / 60,
      median_decision_seconds: quantiles?.[0] ?? null,
      p95_decision_seconds: quantiles?.[1] ?? null,
      approved_within_ten_seconds: soon,
      share_approved_within_ten_seconds: counts.approved === 0 ? null : soon / counts.approved,
      ...(await readTable.approvers(trx, asked)),
      ...(await readTable.rules(trx, asked)),
      ...(await readTable.days(trx, asked)),
      ...(await readTable.agents(trx, asked)),
    }
  })
}

/** Each is read without the rest of the report. */
export const reportTables = ['days', 'rules', 'approvers', 'agents'] as const
export type ReportTable = (typeof reportTables)[number]

interface Asked {
  readonly organizationId: string
  readonly since: Date | undefined
  readonly until: Date | undefined
}

const mineOf = ({ organizationId, since, until }: Asked) => createdIn(organizationId, since, until)

const readTable = {
  days: async (trx: Transaction<Database>, asked: Asked) => ({
    by_day: (await countApprovalsByDay(mineOf(asked), mostDays).execute(trx)).rows.toReversed(),
  }),
  rules: (trx: Transaction<Database>, asked: Asked) => holdingRules(trx, mineOf(asked)),
  approvers: async (trx: Transaction<Database>, asked: Asked) => ({
    top_approvers: (await approversOf<Approver>(mineOf(asked), 10).execute(trx)).rows,
  }),
  agents: async (trx: Transaction<Database>, { organizationId, since, until }: Asked) => ({
    agents: (await countOfAgents(createdIn(organizationId, since, until, 'started_at'), 10).execute(trx))
      .rows,
  }),
} satisfies Record<ReportTable, unknown>

export type TableOfReport = Pick<GovernanceReport, 'period' | 'since' | 'until'> &
  Partial<
    Pick<GovernanceReport, 'by_day' | 'top_rules' | 'always_approved_rules' | 'top_approvers' | 'agents'>
  >

export async function readReportTable(
  db: Db,
  organizationId: string,
  time: Time,
  table: ReportTable,
): Promise<TableOfReport> {
  return readBounded(db, async (trx) => {
    const { since, until, words } = await stretchIn(trx, time)
    return { ...words, ...(await readTable[table](trx, { organizationId, since, until })) }
  })
}

async function countExecutions(
  trx: Transaction<Database>,
  mine: RawBuilder<boolean>,
): Promise<{ total_executions: number; gated_executions: number }> {
  // An approval is never older than its run, so the query needs no older ones.
  const { rows } = await sql<{ total_executions: number; gated_executions: number }>`
    select (select count(*) from runs where ${mine}) as total_executions,
           (select count(*) from (select distinct run_id from approvals where ${mine} and run_id is not null and kind <> 'ask') as held
            join (select id from runs where ${mine}) as runs on runs.id = held.run_id) as gated_executions`.execute(
    trx,
  )
  return rows[0] ?? { total_executions: 0, gated_executions: 0 }
}

async function holdingRules(
  trx: Transaction<Database>,
  mine: RawBuilder<boolean>,
): Promise<Pick<GovernanceReport, 'top_rules' | 'always_approved_rules'>> {
  const { rows } = await rulesThatHold<HoldingRule>(mine, 10).execute(trx)
  const shown = rows.map(({ is_top: isTop, ...rule }) => ({ isTop, rule }))
  return {
    top_rules: shown.filter(({ isTop }) => isTop).map(({ rule }) => rule),
    always_approved_rules: shown.map(({ rule }) => rule).filter((rule) => rule.always_approved),
  }
}

export const periods = ['7d', '30d', '90d', 'all'] as const
export type Period = (typeof periods)[number]

const days: Readonly<Record<Exclude<Period, 'all'>, number>> = { '7d': 7, '30d': 30, '90d': 90 }

/** Without a time, the last 30 days; by the database's clock. `words` says it in the answer. */
async function stretchIn(trx: Transaction<Database>, { period = '30d', from, to }: Time) {
  const isNamed = from !== undefined || to !== undefined
  const since = isNamed ? from : await startOf(trx, period)
  const words = {
    period: isNamed ? null : period,
    since: since?.toISOString() ?? null,
    until: to?.toISOString() ?? null,
  }
  return { since, until: to, words }
}

async function startOf(trx: Transaction<Database>, period: Period): Promise<Date | undefined> {
  if (period === 'all') return undefined
  const { rows } = await sql<{ start: Date }>`
    select clock_timestamp() - ${days[period]} * interval '1 day' as start`.execute(trx)
  return rows[0]?.start
}

/** SQL: the row belongs to the organization, and was made at `since` or later and before `until`. */
const createdIn = (
  organizationId: string,
  since: Date | undefined,
  until: Date | undefined,
  column: 'created_at' | 'started_at' = 'created_at',
): RawBuilder<boolean> =>
  sql<boolean>`organization_id = ${organizationId}
    ${since === undefined ? sql`` : sql`and ${sql.ref(column)} >= ${since}`}
    ${until === undefined ? sql`` : sql`and ${sql.ref(column)} < ${until}`}`

/** In memory at once. */
const definitionsAtOnce = 20

interface CategoryCounts {
  total: number
  approved: number
}

export interface ApprovalsReport extends Pick<GovernanceReport, 'period' | 'since' | 'until'> {
  /** Those with the most approvals. Approvals of agents' calls belong to no workflow. */
  readonly by_workflow: readonly {
    readonly workflow_id: string
    readonly name: string
    readonly total: number
    readonly approved: number
    readonly rejected: number
  }[]
  /** All of them, also those that `by_workflow` leaves out. */
  readonly workflows: number
  /** A step counts in each category of its tool, a run in those of its workflow and its tools (docs/decisions/0099). */
  readonly by_category: Readonly<Record<string, Readonly<CategoryCounts>>>
}

/** From one snapshot of the database. */
export async function readApprovalsReport(
  db: Db,
  organizationId: string,
  time: Time,
): Promise<ApprovalsReport> {
  return readBounded(db, async (trx) => {
    const { since, until, words } = await stretchIn(trx, time)
    const mine = createdIn(organizationId, since, until)
    return {
      ...words,
      ...(await byWorkflow(trx, mine)),
      by_category: await byCategory(trx, mine),
    }
  })
}

async function byWorkflow(
  trx: Transaction<Database>,
  mine: RawBuilder<boolean>,
): Promise<Pick<ApprovalsReport, 'by_workflow' | 'workflows'>> {
  const { rows } = await heldWorkflows(mine, 200).execute(trx)
  return {
    by_workflow: rows.map(({ workflow_id, name, total, approved, rejected }) => ({
      workflow_id,
      name,
      total,
      approved,
      rejected,
    })),
    workflows: rows[0]?.workflows ?? 0,
  }
}

interface Group extends CategoryCounts {
  readonly tools: readonly string[]
  readonly categories: readonly string[]
}

async function byCategory(
  trx: Transaction<Database>,
  mine: RawBuilder<boolean>,
): Promise<ApprovalsReport['by_category']> {
  const counts = new Map<string, CategoryCounts>(
    everyCategory.map((name) => [name, { total: 0, approved: 0 }]),
  )
  for (const { tools, categories, total, approved } of [
    ...(await ofCalls(trx, mine)),
    ...(await ofRuns(trx, mine)),
  ]) {
    for (const name of new Set([
      ...categories,
      ...tools.flatMap((tool) => getTool(tool)?.categories ?? []),
    ])) {
      const count = counts.get(name) ?? { total: 0, approved: 0 }
      counts.set(name, { total: count.total + total, approved: count.approved + approved })
    }
  }
  return Object.fromEntries(counts)
}

async function ofCalls(trx: Transaction<Database>, mine: RawBuilder<boolean>): Promise<Group[]> {
  const { rows } = await sql<CategoryCounts & { tool: string }>`
    select tool, count(*) as total, count(*) filter (where status = 'approved') as approved
    from approvals where ${mine} and tool is not null and kind = 'step' group by tool`.execute(trx)
  return rows.map(({ tool, ...count }) => ({ ...count, tools: [tool], categories: [] }))
}

async function ofRuns(trx: Transaction<Database>, mine: RawBuilder<boolean>): Promise<Group[]> {
  const { rows } = await heldVersions(mine).execute(trx)
  const groups: Group[] = []
  for (let at = 0; at < rows.length; at += definitionsAtOnce) {
    const some = rows.slice(at, at + definitionsAtOnce)
    const categories = await categoriesOf(trx, some)
    groups.push(...some.map((row) => ({ ...row, categories: categories.get(versionKey(row)) ?? [] })))
  }
  return groups
}

const versionKey = ({ workflow_id, version }: { workflow_id: string; version: number }): string =>
  `${workflow_id}/${version}`

/** Parses the definitions here, because PostgreSQL cannot parse JSON with `\u0000`. */
async function categoriesOf(
  trx: Transaction<Database>,
  versions: readonly HeldVersion[],
): Promise<ReadonlyMap<string, string[]>> {
  const { rows } = await sql<{ workflow_id: string; version: number; definition: string }>`
    select workflow_id, version, definition from workflow_versions
    where (workflow_id, version) in (select * from unnest(${versions.map((each) => each.workflow_id)}::text[],
                                                          ${versions.map((each) => each.version)}::int[]))
      and definition like '%"categories"%'`.execute(trx)
  return new Map(
    rows.map((row) => [
      versionKey(row),
      (JSON.parse(row.definition) as { categories?: string[] }).categories ?? [],
    ]),
  )
}

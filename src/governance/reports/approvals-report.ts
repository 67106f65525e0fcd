import { sql, type RawBuilder, type Transaction } from 'kysely'
import { getTool } from '../../tools/index.ts'
import { heldVersions, heldWorkflows, type HeldVersion } from '../../db/queries/reports.ts'
import type { Database, Db } from '../../db/schema/index.ts'
import { everyCategory } from '../../policy/gates.ts'
import { readBounded } from '../bounded-read.ts'
import { createdSince, startOf, type Period } from './period.ts'

/** The report names at most this many workflows. */
const mostWorkflows = 200

/** At most this many workflow definitions are in memory at once. */
const definitionsAtOnce = 20

interface CategoryCounts {
  total: number
  approved: number
}

/** The numbers of approvals in one period. Each workflow and each category has its own numbers. */
export interface ApprovalsReport {
  readonly period: Period
  readonly since: string | null
  /** The workflows with the highest numbers of approvals. Approvals of agents' calls belong to no workflow. */
  readonly by_workflow: readonly {
    readonly workflow_id: string
    readonly name: string
    readonly total: number
    readonly approved: number
    readonly rejected: number
  }[]
  /** The number of all workflows with approvals, including those that `by_workflow` does not name. */
  readonly workflows: number
  /**
   * The numbers of each category. The approval of a step counts once in each category of the step's tool. The approval
   * of a whole run counts once in each category of the workflow and of its tools (docs/decisions/0099).
   */
  readonly by_category: Readonly<Record<string, Readonly<CategoryCounts>>>
}

/** Reads all counts from one snapshot of the database. */
export async function readApprovalsReport(
  db: Db,
  organizationId: string,
  period: Period,
): Promise<ApprovalsReport> {
  return readBounded(db, async (trx) => {
    const since = await startOf(trx, period)
    const mine = createdSince(organizationId, since)
    return {
      period,
      since: since?.toISOString() ?? null,
      ...(await byWorkflow(trx, mine)),
      by_category: await byCategory(trx, mine),
    }
  })
}

async function byWorkflow(
  trx: Transaction<Database>,
  mine: RawBuilder<boolean>,
): Promise<Pick<ApprovalsReport, 'by_workflow' | 'workflows'>> {
  const { rows } = await heldWorkflows(mine, mostWorkflows).execute(trx)
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

/**
 * Counts the approvals of whole runs. Such an approval has the categories of its workflow's version and of its steps'
 * tools.
 */
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

/**
 * Reads the categories from the definitions of these workflow versions. This function parses the JSON, because
 * PostgreSQL cannot parse JSON that contains `\u0000`.
 */
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

import fc from 'fast-check'
import type { Period } from '../../../src/governance/reports/report.ts'

/* Random rows, and a simple second computation of the reports from these rows. */

export const days: Readonly<Record<Period, number>> = { '7d': 7, '30d': 30, '90d': 90, all: Infinity }

export interface ApprovalRow {
  readonly n: number
  readonly kind: 'step' | 'run' | 'agent_call'
  readonly status: 'pending' | 'approved' | 'rejected' | 'cancelled' | 'expired'
  readonly run: number | null
  readonly workflow: number | null
  readonly tool: string | null
  readonly rule: string | null
  readonly ruleName: string | null
  readonly at: Date
  readonly decidedAt: Date | null
  readonly votes: readonly { readonly user: string; readonly decision: 'approve' | 'reject' }[]
}

export interface Rows {
  readonly workflows: readonly {
    readonly n: number
    readonly tools: readonly string[]
    readonly categories: readonly string[] | undefined
  }[]
  readonly runs: readonly { readonly n: number; readonly workflow: number; readonly at: Date }[]
  readonly approvals: readonly ApprovalRow[]
}

const hour = 3_600_000
const tools = ['mail_send', 'github_comment', 'slack_create_channel', 'memory_get', 'gone_tool']
/** Age in hours. It is never close to the beginning of a period. */
const age = fc.oneof(
  fc.integer({ min: 1, max: 8 * 24 - 1 }),
  fc.integer({ min: 1, max: 100 * 24 }),
).filter((hours) => ![7, 30, 90].some((each) => Math.abs(hours - each * 24) < 2)) // prettier-ignore
const before = (hours: number) => new Date(Date.now() - hours * hour)
const workflow = fc.record({
  tools: fc.array(fc.constantFrom(...tools), { minLength: 1, maxLength: 3 }),
  categories: fc.option(fc.uniqueArray(fc.constantFrom('financial', 'external_comm'), { maxLength: 2 }), {
    nil: undefined,
  }),
})
/** Milliseconds: values around ten seconds, and long waits. */
const wait = fc.oneof(fc.constantFrom(0, 9_999, 10_000, 10_001), fc.integer({ min: 0, max: 30 * hour }))
const approval = fc.record({
  kind: fc.constantFrom('step' as const, 'run' as const, 'agent_call' as const),
  status: fc.constantFrom('pending', 'approved', 'approved', 'approved', 'rejected', 'cancelled', 'expired'),
  run: fc.nat(),
  tool: fc.constantFrom(...tools),
  rule: fc.option(fc.nat({ max: 13 })),
  renamed: fc.boolean(),
  age,
  wait,
  votes: fc.uniqueArray(
    fc.record({ user: fc.constantFrom('usr_1', 'usr_2', 'usr_3'), decision: fc.constantFrom('approve', 'reject') }),
    { selector: ({ user }) => user, maxLength: 3 },
  ), // prettier-ignore
})

/** Rows of one organization: up to 3 workflows, 8 runs and 60 approvals. */
export const rowsOf: fc.Arbitrary<Rows> = fc
  .record({
    workflows: fc.array(workflow, { minLength: 1, maxLength: 3 }),
    runs: fc.array(fc.record({ workflow: fc.nat(), age }), { minLength: 1, maxLength: 8 }),
    approvals: fc.array(approval, { maxLength: 60 }),
  })
  .map(({ workflows, runs: someRuns, approvals }) => {
    const runs = someRuns.map((run, n) => ({
      n,
      workflow: run.workflow % workflows.length,
      at: before(run.age),
    }))
    return {
      workflows: workflows.map((each, n) => ({ n, ...each })),
      runs,
      approvals: approvals.map((each, n) => approvalRow(each, n, runs)),
    }
  })

type Drawn = typeof approval extends fc.Arbitrary<infer T> ? T : never

function approvalRow(drawn: Drawn, n: number, runs: Rows['runs']): ApprovalRow {
  const { kind, status, age: hours, wait: milliseconds } = drawn
  const run = kind === 'agent_call' ? null : (runs[drawn.run % runs.length] as Rows['runs'][number])
  // An approval of a run is requested after the run was accepted, never before.
  const asked = Math.max(before(hours).getTime(), run?.at.getTime() ?? 0)
  return {
    n,
    kind,
    status,
    run: run?.n ?? null,
    workflow: run?.workflow ?? null,
    tool: kind === 'run' ? null : drawn.tool,
    rule: drawn.rule === null || kind === 'run' ? null : `rule_${drawn.rule}`,
    ruleName:
      drawn.rule === null || kind === 'run' ? null : `Rule ${drawn.rule}${drawn.renamed ? ' again' : ''}`,
    at: new Date(asked),
    decidedAt: status === 'pending' ? null : new Date(asked + milliseconds),
    votes: drawn.votes,
  }
}

const isIn =
  (period: Period) =>
  (row: { readonly at: Date }): boolean =>
    Date.now() - row.at.getTime() < days[period] * 24 * hour
const waited = (rows: readonly ApprovalRow[]): number[] =>
  rows
    .filter(({ status }) => status === 'approved' || status === 'rejected')
    .map(({ at, decidedAt }) => ((decidedAt as Date).getTime() - at.getTime()) / 1_000)
    .sort((a, b) => a - b)
const number = (rows: readonly ApprovalRow[], status: ApprovalRow['status']): number =>
  rows.filter((row) => row.status === status).length

/** Interpolates between the two nearest values, as PostgreSQL does. Returns null if there are no values. */
function quantile(sorted: readonly number[], share: number): unknown {
  if (sorted.length === 0) return null
  const place = share * (sorted.length - 1)
  const [low, high] = [sorted[Math.floor(place)], sorted[Math.ceil(place)]] as [number, number]
  return closeTo(low + (place - Math.floor(place)) * (high - low))
}

export function plain(rows: Rows, period: Period): Record<string, unknown> {
  const runs = rows.runs.filter(isIn(period))
  const asked = rows.approvals.filter(isIn(period))
  const times = waited(asked)
  const approved = number(asked, 'approved')
  const rejected = number(asked, 'rejected')
  const quick = waited(asked.filter(({ status }) => status === 'approved')).filter(
    (time) => time <= 10,
  ).length
  const { top, always } = holding(asked)
  return {
    period,
    until: null,
    total_executions: runs.length,
    gated_executions: runs.filter(({ n }) => rows.approvals.some(({ run }) => run === n)).length,
    held: asked.length,
    decisions: { allow: 0, require_approval: asked.length, deny: 0 },
    approved,
    rejected,
    pending: number(asked, 'pending'),
    expired: number(asked, 'expired'),
    cancelled: number(asked, 'cancelled'),
    approval_rate: approved === 0 ? 0 : closeTo(approved / (approved + rejected)),
    avg_approval_time_minutes: closeTo(
      times.reduce((sum, time) => sum + time, 0) / Math.max(1, times.length) / 60,
    ),
    median_decision_seconds: quantile(times, 0.5),
    p95_decision_seconds: quantile(times, 0.95),
    approved_within_ten_seconds: quick,
    share_approved_within_ten_seconds: approved === 0 ? null : closeTo(quick / approved),
    top_approvers: ranked(
      asked.flatMap(({ votes }) => votes.filter(({ decision }) => decision === 'approve')),
      ({ user }) => user,
    ).map(([user_id, votes]) => ({
      user_id,
      name: user_id,
      email: `${user_id.slice('usr_'.length)}@a.example`,
      approvals: votes.length,
    })),
    top_rules: top,
    always_approved_rules: always,
    by_day: byDay(asked),
    // The rows have no sessions of agents.
    agents: [],
  }
}

/** The newest 92, the oldest first. */
function byDay(asked: readonly ApprovalRow[]) {
  const days = Map.groupBy(asked, ({ at }) => at.toISOString().slice(0, 10))
  return [...days]
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .slice(-92)
    .map(([day, rows]) => ({
      day,
      held: rows.length,
      approved: number(rows, 'approved'),
      rejected: number(rows, 'rejected'),
      expired: number(rows, 'expired'),
      median_decision_seconds: quantile(waited(rows), 0.5),
    }))
}

function holding(asked: readonly ApprovalRow[]) {
  const rules = ranked(
    asked.filter(({ rule }) => rule !== null),
    ({ rule }) => rule as string,
  ).map(([rule_id, held]) => ({
    rule_id,
    rule_name: (held.at(-1) as ApprovalRow).ruleName,
    held: held.length,
    approved: number(held, 'approved'),
    rejected: number(held, 'rejected'),
    always_approved: number(held, 'approved') > 0 && number(held, 'rejected') === 0,
    median_decision_seconds: quantile(waited(held), 0.5),
  }))
  return { top: rules.slice(0, 10), always: rules.filter((rule) => rule.always_approved).slice(0, 10) }
}

/** The groups in order of size, the largest first. Groups of equal size are in order of their key. */
function ranked<T>(all: readonly T[], key: (item: T) => string): [string, T[]][] {
  return [...Map.groupBy(all, key)].sort(
    ([a, one], [b, other]) => other.length - one.length || (a < b ? -1 : 1),
  )
}

export function plainByWorkflow(rows: Rows, period: Period, id: (workflow: number) => string) {
  const held = rows.approvals.filter(isIn(period)).filter(({ workflow: of }) => of !== null)
  return ranked(held, ({ workflow: of }) => id(of as number)).map(([workflow_id, all]) => ({
    workflow_id,
    name: `Workflow ${all[0]?.workflow}`,
    total: all.length,
    approved: number(all, 'approved'),
    rejected: number(all, 'rejected'),
  }))
}

export function plainByCategory(
  rows: Rows,
  period: Period,
  categoriesOf: (tool: string) => readonly string[],
) {
  const counts: Record<string, { total: number; approved: number }> = {}
  const count = (name: string) => (counts[name] ??= { total: 0, approved: 0 })
  for (const name of ['external_comm', 'public_writes', 'permission_changes']) count(name)
  for (const { kind, tool, workflow: of, status } of rows.approvals.filter(isIn(period))) {
    if (kind === 'agent_call') continue
    const { tools: all = [], categories = [] } = kind === 'run' ? (rows.workflows[of as number] ?? {}) : {}
    const names = [...categories, ...(tool === null ? all : [tool]).flatMap(categoriesOf)]
    for (const name of new Set(names)) {
      count(name).total += 1
      if (status === 'approved') count(name).approved += 1
    }
  }
  return counts
}

/** Matches approximately, because sums of floating-point numbers differ in their last digits. */
const closeTo = (value: number): unknown => ({
  asymmetricMatch: (other: unknown) =>
    typeof other === 'number' && Math.abs(other - value) <= 1e-9 * Math.max(1, Math.abs(value)),
  toString: () => `about ${value}`,
})

import { afterAll, beforeAll, expect, test } from '@jest/globals'
import fc from 'fast-check'
import type { Client } from 'pg'
import { getTool } from '../../../src/tools/index.ts'
import {
  readApprovalsReport,
  periods,
  type Period,
  readReport,
  readReportTable,
  reportTables,
} from '../../../src/governance/reports/report.ts'
import { asAdmin } from '../../support/postgres.ts'
import { testContext, type TestContext } from '../support.ts'
import { days, plain, plainByCategory, plainByWorkflow, rowsOf, type Rows } from './plain-report.ts'

let running: TestContext
beforeAll(async () => {
  running = await testContext()
  await asAdmin(running.adminUrl, async (client) => {
    for (const n of [0, 1, 2, 3])
      await client.query('insert into users (id, email, name) values ($1, $2, $1)', [`usr_${n}`, `${n}@a.example`]) // prettier-ignore
  })
})
afterAll(() => running?.close())

let organizations = 0

/** Inserts one row. */
const insert = (client: Client, table: string, row: Readonly<Record<string, unknown>>) =>
  client.query(
    `insert into ${table} (${Object.keys(row).join()}) values (${Object.keys(row)
      .map((_, n) => `$${n + 1}`)
      .join()})`,
    Object.values(row),
  )

/**
 * Writes the rows twice: for a new organization and for another one, whose rows must not count. Returns the id of the
 * first.
 */
async function write(client: Client, rows: Rows): Promise<string> {
  organizations += 1
  for (const prefix of ['own', 'other']) {
    const id = (kind: string, n: number | null) =>
      n === null ? null : `${kind}_${prefix}${organizations}_${n}`
    const organization_id = id('org', 0)
    await insert(client, 'organizations', { id: organization_id, name: organization_id })
    for (const { n, tools, categories } of rows.workflows) {
      const workflow = { id: id('wf', n), organization_id, name: `Workflow ${n}` }
      await insert(client, 'workflows', { ...workflow, current_version: 1, created_by: 'usr_0' })
      const definition = { steps: tools.map((tool) => ({ id: tool, tool, note: '\u0000' })), categories }
      const version = { workflow_id: workflow.id, version: 1, definition: JSON.stringify(definition) }
      await insert(client, 'workflow_versions', {
        ...version,
        digest: '',
        deployed_by: 'usr_0',
        authors: '[]',
        tools: [],
        step_authors: '[]',
      })
    }
    for (const { n, workflow, at } of rows.runs) {
      const versions = { workflow_id: id('wf', workflow), workflow_version: 1, interpreter_version: 1 }
      const state = { status: 'running', status_reason: '', requested_by: 'usr_0', requester_email: '' }
      const data = { input_hash: '', time_zone: 'UTC', risk: '{}', created_at: at }
      await insert(client, 'runs', { id: id('run', n), organization_id, ...versions, ...state, ...data })
      await client.query(
        `insert into run_steps (run_id, step_id, position, tool) select $1, tool || n, n, tool
         from unnest($2::text[]) with ordinality as t(tool, n)`,
        [id('run', n), rows.workflows[workflow]?.tools],
      )
    }
    // One agent decision for each approval.
    const times = rows.approvals.map(({ at }) => at).sort((a, b) => a.getTime() - b.getTime())
    await insert(client, 'chain_head', { organization_id, seq: times.length })
    await client.query(
      `insert into audit_events (canonical, hash)
       select jsonb_build_object('organization_id', $1::text, 'seq', n, 'event_type', 'agent_call.decided',
         'status', 'require_approval', 'timestamp', at)::text, repeat('0', 64)
       from unnest($2::text[]) with ordinality as t(at, n)`,
      [organization_id, times.map((at) => at.toISOString())],
    )
    for (const { n, kind, status, run, workflow, tool, votes, ...row } of rows.approvals) {
      const approval_id = id('apr', 1_000 + n)
      const about = { run_id: id('run', run), workflow_id: id('wf', workflow), tool }
      const rule = { rule_id: row.rule, rule_name: row.ruleName, labels: '{}', risk: '{}' }
      const asked = { requested_by: 'usr_0', approver: 'admin', approvals_needed: 1 }
      const times = { created_at: row.at, decided_at: row.decidedAt }
      const approval = { id: approval_id, organization_id, kind, status }
      await insert(client, 'approvals', { ...approval, ...about, ...rule, ...asked, ...times })
      for (const { user: user_id, decision } of votes)
        await insert(client, 'approval_votes', { approval_id, user_id, decision, at: row.at })
    }
    // Questions of runs are no approvals, so they do not count.
    for (const { n, workflow, at } of rows.runs) {
      const about = { run_id: id('run', n), workflow_id: id('wf', workflow), labels: '{}', risk: '{}' }
      const asked = { requested_by: 'usr_0', approver: 'admin', approvals_needed: 1, created_at: at }
      const question = { id: id('ask', n), organization_id, kind: 'ask', status: 'pending', title: 'Go on?' }
      await insert(client, 'approvals', { ...question, ...about, ...asked })
    }
  }
  return `org_own${organizations}_0`
}

const ofOwn = (workflow: number): string => `wf_own${organizations}_${workflow}`

test('the reports’ figures are those of the rows, for any rows and period', async () => {
  await asAdmin(running.adminUrl, (client) =>
    fc.assert(
      fc.asyncProperty(rowsOf, fc.constantFrom(...periods), async (rows, period) => {
        const organization = await write(client, rows)
        const { since, ...report } = await readReport(running.context.db, organization, { period })
        expect(report).toEqual(plain(rows, period))
        expectStart(since, period)
        const tables = await Promise.all(
          reportTables.map((table) => readReportTable(running.context.db, organization, { period }, table)),
        )
        const parts = ['by_day', 'top_rules,always_approved_rules', 'top_approvers', 'agents']
        expect(tables.map((table) => `${Object.keys(table).slice(3)}`)).toEqual(parts)
        expect({ ...report, since }).toMatchObject(Object.assign({}, ...tables, { since }))
        const approvals = await readApprovalsReport(running.context.db, organization, { period })
        expectStart(approvals.since, period)
        expect(approvals.by_category).toEqual(
          plainByCategory(rows, period, (tool) => getTool(tool)?.categories ?? []),
        )
        const byWorkflow = plainByWorkflow(rows, period, ofOwn)
        expect(approvals.by_workflow).toEqual(byWorkflow)
        expect(approvals.workflows).toBe(byWorkflow.length)
      }),
      { numRuns: 40 },
    ),
  )
})

test('with `from` and `to`, the report is about this stretch alone', async () => {
  await asAdmin(running.adminUrl, (client) =>
    fc.assert(
      fc.asyncProperty(rowsOf, fc.integer({ min: 1, max: 100 }), async (rows, days) => {
        const organization = await write(client, rows)
        const to = new Date(Date.now() - 12 * 3_600_000)
        const from = new Date(to.getTime() - days * 24 * 3_600_000)
        const isIn = ({ at }: { readonly at: Date }): boolean => at >= from && at < to
        const some = {
          ...rows,
          runs: rows.runs.filter(isIn),
          approvals: rows.approvals.filter(isIn),
        }
        const { since, until, period, ...report } = await readReport(running.context.db, organization, {
          from,
          to,
        })
        expect([since, until, period]).toEqual([from.toISOString(), to.toISOString(), null])
        expect({ ...report, until: null }).toEqual(omit(plain(some, 'all')))
        const { by_workflow } = await readApprovalsReport(running.context.db, organization, { from, to })
        expect(by_workflow).toEqual(plainByWorkflow(some, 'all', ofOwn))
      }),
      { numRuns: 20 },
    ),
  )
})

function omit(report: Record<string, unknown>): Record<string, unknown> {
  const { period: _, ...rest } = report
  return rest
}

function expectStart(since: string | null, period: Period): void {
  if (period === 'all') return expect(since).toBeNull()
  const age = (Date.now() - Date.parse(since as string)) / 86_400_000
  expect(age).toBeCloseTo(days[period], 1)
}

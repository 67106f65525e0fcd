import { afterAll, beforeAll, expect, test } from '@jest/globals'
import fc from 'fast-check'
import type { Client } from 'pg'
import { getTool } from '../../../src/catalog/index.ts'
import { readApprovalsReport } from '../../../src/governance/reports/approvals-report.ts'
import { periods, type Period } from '../../../src/governance/reports/period.ts'
import { readReport } from '../../../src/governance/reports/report.ts'
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

/**
 * Writes the rows twice: for a new organization and for another one, whose rows must not count. Returns the id of the
 * first.
 */
async function write(client: Client, rows: Rows): Promise<string> {
  organizations += 1
  for (const prefix of ['own', 'other']) {
    const id = (kind: string, n: number | null) =>
      n === null ? null : `${kind}_${prefix}${organizations}_${n}`
    const organization = id('org', 0)
    await client.query('insert into organizations (id, name) values ($1, $1)', [organization])
    for (const { n, tools, categories } of rows.workflows) {
      await client.query(
        `insert into workflows (id, organization_id, name, current_version, created_by)
         values ($1, $2, $3, 1, 'usr_0')`,
        [id('wf', n), organization, `Workflow ${n}`],
      )
      const definition = { steps: tools.map((tool) => ({ id: tool, tool, note: '\u0000' })), categories }
      await client.query(
        `insert into workflow_versions (workflow_id, version, definition, digest, deployed_by)
         values ($1, 1, $2, '', 'usr_0')`,
        [id('wf', n), JSON.stringify(definition)],
      )
    }
    for (const { n, workflow, at } of rows.runs) {
      await client.query(
        `insert into runs (id, organization_id, workflow_id, workflow_version, interpreter_version, status, status_reason,
           requested_by, requester_email, inputs, input_hash, time_zone, risk, created_at)
         values ($1, $2, $3, 1, 1, 'running', '', 'usr_0', '', '{}', '', 'UTC', '{}', $4)`,
        [id('run', n), organization, id('wf', workflow), at],
      )
      await client.query(
        `insert into run_steps (run_id, step_id, position, tool) select $1, tool || n, n, tool
         from unnest($2::text[]) with ordinality as t(tool, n)`,
        [id('run', n), rows.workflows[workflow]?.tools],
      )
    }
    // One agent decision for each approval.
    const times = rows.approvals.map(({ at }) => at).sort((a, b) => a.getTime() - b.getTime())
    await client.query('insert into chain_head (organization_id, seq) values ($1, $2)', [organization, times.length]) // prettier-ignore
    await client.query(
      `insert into audit_events (canonical, hash)
       select jsonb_build_object('organization_id', $1::text, 'seq', n, 'event_type', 'agent_call.decided',
         'status', 'require_approval', 'timestamp', at)::text, repeat('0', 64)
       from unnest($2::text[]) with ordinality as t(at, n)`,
      [organization, times.map((at) => at.toISOString())],
    )
    for (const {
      n,
      kind,
      status,
      run,
      workflow,
      tool,
      rule,
      ruleName,
      at,
      decidedAt,
      votes,
    } of rows.approvals) {
      await client.query(
        `insert into approvals (id, organization_id, kind, status, run_id, workflow_id, tool, rule_id, rule_name, labels,
           risk, requested_by, approver, approvals_needed, created_at, decided_at)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, '{}', '{}', 'usr_0', 'admin', 1, $10, $11)`,
        [id('apr', 1_000 + n), organization, kind, status, id('run', run), id('wf', workflow), tool, rule, ruleName, at, decidedAt], // prettier-ignore
      )
      for (const { user, decision } of votes)
        await client.query(
          'insert into approval_votes (approval_id, user_id, decision, at) values ($1, $2, $3, now())',
          [id('apr', 1_000 + n), user, decision],
        )
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
        const { since, ...report } = await readReport(running.context.db, organization, period)
        expect(report).toEqual(plain(rows, period))
        expectStart(since, period)
        const approvals = await readApprovalsReport(running.context.db, organization, period)
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

function expectStart(since: string | null, period: Period): void {
  if (period === 'all') return expect(since).toBeNull()
  const age = (Date.now() - Date.parse(since as string)) / 86_400_000
  expect(age).toBeCloseTo(days[period], 1)
}

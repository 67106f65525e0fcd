import { randomBytes } from 'node:crypto'
import type pg from 'pg'
import { getTool } from '../src/catalog/index.ts'
import { createContext } from '../src/programs/create-context.ts'
import { countSegments } from '../src/governance/audit/counts.ts'
import { listAudit, type AuditFilters } from '../src/governance/audit/list.ts'
import type { Context } from '../src/governance/context.ts'
import { readApprovalsReport } from '../src/governance/reports/approvals-report.ts'
import { readReport } from '../src/governance/reports/report.ts'
import { compilePolicy } from '../src/policy/decide.ts'
import { analyzePlan } from '../src/policy/plan.ts'
import { compileToolAccess } from '../src/policy/tool-access.ts'
import { readConfig } from '../src/shared/config.ts'
import { fillApprovals, fillAudit, organizationId } from './support/policy-rows.ts'
import { withClient, withPostgres } from './support/postgres.ts'
import { count, machine, median, say } from './support/report.ts'
import { planOf, rulesOf } from './support/rule-shapes.ts'

const tries = 15

const limitedBy = (tool: string) => getTool(tool)?.constraints ?? {}

/** Limits that the plan's calls do not exceed, so that all rules are evaluated too. */
const policies = ([null, 'member'] as const).map((role) => ({
  toolName: 'mail_send',
  role,
  allowed: null,
  restrictions: { max_message_length: 100_000_000 },
}))

/** `npm run bench policy [entries] [approvals]`: analysing a plan, reading the reports, and pages of the audit log. */
export async function run(args: readonly string[]): Promise<void> {
  const entries = Number(args[0] ?? 1_000_000)
  const approvals = Number(args[1] ?? 100_000)
  say(
    `policy: ${count(entries)} entries, ${count(approvals)} approvals, medians of ${tries} tries; ${machine()}`,
  )
  const policy = compilePolicy({ rules: rulesOf('star', 1_000), labelRules: [], approvalsEnabled: true })
  const plan = planOf(100)
  const access = compileToolAccess({ policies, overrides: [], fallback: 'allow' }, limitedBy)
  const refuses: Parameters<typeof analyzePlan>[2] = (call, budget) =>
    access.refusal({ ...call, role: 'member' }, budget)
  await measure(
    '  a plan of 100 steps, 1,000 rules, and limits of its tool',
    20,
    async () => {
      analyzePlan(policy, plan, refuses)
    },
    60,
  )
  await withPostgres(async ({ appUrl, adminUrl }) => {
    await withClient(adminUrl, (client) => fill(client, entries, approvals))
    const context = createContext(
      readConfig({
        APP_ENV: 'test',
        DATABASE_URL: appUrl,
        DATA_ENCRYPTION_KEY: randomBytes(32).toString('base64'),
        LOG_LEVEL: 'silent',
      }),
      'api',
    )
    try {
      await countAll(context)
      await reports(context)
      await listings(context, entries)
    } finally {
      await context.close()
    }
  })
}

async function fill(client: pg.Client, entries: number, approvals: number): Promise<void> {
  const started = performance.now()
  await fillAudit(client, entries)
  await fillApprovals(client, approvals)
  await client.query('vacuum analyze')
  say(`  filled in ${count((performance.now() - started) / 1_000)} s`)
}

async function countAll(context: Context): Promise<void> {
  const started = performance.now()
  await countSegments(context.db)
  say(`  counting all segments once: ${count(performance.now() - started)} ms`)
}

async function reports({ db }: Context): Promise<void> {
  for (const period of ['30d', 'all'] as const) {
    await measure(`  report, ${period}`, 500, () => readReport(db, organizationId, period))
    await measure(`  approvals by workflow and category, ${period}`, 500, () =>
      readApprovalsReport(db, organizationId, period),
    )
  }
}

async function listings({ db }: Context, entries: number): Promise<void> {
  const filters: Record<string, AuditFilters> = {
    'no filter': {},
    'a frequent type': { eventType: 'agent_call.decided' },
    'a rare type': { eventType: 'rule.created' },
    'a person': { userId: 'usr_3' },
    'a person and a type': { userId: 'usr_3', eventType: 'agent_call.decided' },
    'a type and a time': {
      eventType: 'agent_call.decided',
      since: new Date(Date.now() - 60 * 86_400_000),
      until: new Date(Date.now() - 10 * 86_400_000),
    },
  }
  say(`  pages of 50 of ${count(entries)} entries`)
  for (const [name, filter] of Object.entries(filters)) {
    const { total } = await listAudit(db, organizationId, filter, 1, 50)
    const last = Math.ceil(total / 50)
    for (const [which, page] of [
      ['first', 1],
      ['middle', Math.ceil(last / 2)],
      ['last', last],
    ] as const)
      await measure(`    ${name}, ${which} page (${count(total)} entries)`, 20, () =>
        listAudit(db, organizationId, filter, page, 50),
      )
  }
}

async function measure(
  what: string,
  goal: number,
  act: () => Promise<unknown>,
  rounds = tries,
): Promise<void> {
  // A new process and a new connection are slower at first.
  for (let n = 0; n < 10; n += 1) await act()
  const times: number[] = []
  for (let n = 0; n < rounds; n += 1) {
    const started = performance.now()
    await act()
    times.push(performance.now() - started)
  }
  const usual = median(times)
  const verdict = usual < goal ? 'holds' : 'MISSED'
  say(
    `${what}: ${usual.toFixed(1)} ms, ${Math.min(...times).toFixed(1)} to ${Math.max(...times).toFixed(1)} (goal ${goal} ms: ${verdict})`,
  )
}

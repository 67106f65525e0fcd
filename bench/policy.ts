import { randomBytes } from 'node:crypto'
import type pg from 'pg'
import { getTool } from '../src/tools/index.ts'
import { createContext } from '../src/programs/create-context.ts'
import { countSegments, listAudit, type AuditFilters } from '../src/governance/audit/list.ts'
import type { Context } from '../src/governance/context.ts'
import { readApprovalsReport, readReport } from '../src/governance/reports/report.ts'
import { facts } from '../src/tools/index.ts'
import { compilePolicy } from '../src/policy/decide.ts'
import { analyzePlan } from '../src/policy/plan.ts'
import type { Plan, PlanStep } from '../src/policy/plan-types.ts'
import { compileToolAccess } from '../src/policy/tool-access.ts'
import type { Restrictions } from '../src/policy/tool-limits.ts'
import { readConfig } from '../src/shared/config.ts'
import { fillApprovals, fillAudit, organizationId } from './support/policy-rows.ts'
import { withClient, withPostgres } from './support/postgres.ts'
import { count, machine, median, say } from './support/report.ts'
import { planOf, rulesOf } from './support/rule-shapes.ts'

const tries = 15

/** The fraction of the audit entries that are decisions. */
const decisionShare = 0.95

const limitedBy = (tool: string) => getTool(tool)?.constraints ?? {}

const listed = (name: (n: number) => string): string[] => Array.from({ length: 102 }, (_, n) => name(n))

/**
 * The limits of the tools of the plan. All calls stay within these limits. Otherwise the calls would be refused, and no
 * rule would be evaluated for them.
 */
const limits: Readonly<Record<string, Restrictions>> = {
  mail_send: {
    allowed_domains: [...listed((n) => `partner${n * 5}.example`), 'larkspur.example', 'acme.com'],
    max_message_length: 100_000_000,
  },
  github_comment: { allowed_repos: listed((n) => `acme/app-${n}`), max_message_length: 100_000_000 },
  slack_send_message: { allowed_channels: listed((n) => `#team-${n}`), max_message_length: 100_000_000 },
}
const policies = Object.entries(limits).flatMap(([toolName, restrictions]) =>
  ([null, 'member'] as const).map((role) => ({ toolName, role, allowed: null, restrictions })),
)

/**
 * Makes a plan with three kinds of steps in turn: one sends a mail, one writes a comment on GitHub, and one sends a
 * message in Slack.
 */
function mixedPlan(steps: number): Plan {
  const plan = planOf(steps)
  const mixed = plan.steps.map((step, index): PlanStep => {
    const text = step.params['text'] ?? ''
    if (index % 3 === 1)
      return {
        ...step,
        tool: 'github_comment',
        params: { repo: `https://github.com/acme/app-${index}/issues/7`, number: 7, body: text },
      }
    if (index % 3 === 2)
      return { ...step, tool: 'slack_send_message', params: { channel: `#team-${index}`, text } }
    return step
  })
  return { ...plan, steps: mixed }
}

/**
 * `npm run bench policy [decisions] [approvals]`: measures how long three things take: to analyse a plan, to make the
 * reports, and to read pages of the audit log.
 */
export async function run(args: readonly string[]): Promise<void> {
  const decisions = Number(args[0] ?? 1_000_000)
  const entries = Math.ceil(decisions / decisionShare)
  const approvals = Number(args[1] ?? 100_000)
  say(
    `policy: ${count(entries)} entries with ${count(decisions)} decisions, ${count(approvals)} approvals, medians of ${tries} tries; ${machine()}`,
  )
  const rules = rulesOf('star', 1_000).map((rule) => ({ ...rule, tools: Object.keys(limits) }))
  const policy = compilePolicy(facts, { rules, labelRules: [], approvalsEnabled: true })
  const plan = mixedPlan(100)
  const access = compileToolAccess({ policies, overrides: [], fallback: 'allow' }, limitedBy)
  const refuses: Parameters<typeof analyzePlan>[2] = (call, budget) =>
    access.refusal({ ...call, role: 'member' }, budget)
  const { steps } = analyzePlan(policy, plan, refuses)
  const certain = steps.find(({ blocked }) => blocked?.certainty === 'definite')
  if (certain !== undefined) throw new Error(`the limits deny step \`${certain.stepId}\``)
  await measure(
    '  a plan of 100 steps, 1,000 rules, and limits of its three tools',
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
    await measure(`  report, ${period}`, 500, () => readReport(db, organizationId, { period }))
    await measure(`  approvals by workflow and category, ${period}`, 500, () =>
      readApprovalsReport(db, organizationId, { period }),
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
  // A new process and a new connection are slower at first, so these calls are not measured.
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

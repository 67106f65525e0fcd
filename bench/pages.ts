import { setTimeout as delay } from 'node:timers/promises'
import { Api } from '../test/support/client.ts'
import { stackHome, startStack } from '../test/support/start-stack.ts'
import { fillApprovals, fillAudit, fillMessages } from './support/policy-rows.ts'
import { withClient } from './support/postgres.ts'
import { count, machine, median, say } from './support/report.ts'

const waiting = 1_000
const visits = 100
/** At least 95 of 100 visits of a page must take less than this many milliseconds. */
const goal = 100

/**
 * `npm run bench pages [waiting|used]`: measures the time of each page of the console over HTTP. First, `waiting` runs of
 * one organization wait for an approval. Then, in another stack, `waiting` steps wait for an approval. The default is
 * 1,000. To show such a step, a page must open its sealed parameters. At last, an organization
 * has been used for long; with `used`, only that. One person loads one page after another.
 */
export async function run(args: readonly string[] = []): Promise<void> {
  say(`pages: ${machine()}`)
  if (args[0] !== 'used') await whileMuchWaits(Number(args[0] ?? waiting))
  await withStack(async (stack) => {
    say(
      `  an organization with ${count(runs)} runs, ${count(entries)} audit entries and ${count(rules)} rules`,
    )
    await measureAll(stack, await longUsed(stack))
  })
}

async function whileMuchWaits(most: number): Promise<void> {
  if (!Number.isSafeInteger(most) || most < 1)
    throw new Error('the argument is a number of approvals, or `used`')
  await withStack(async (stack) => {
    say(`  ${count(most)} runs wait for approval`)
    await measureAll(stack, await wholeRuns(stack, most))
  })
  await withStack(async (stack) => {
    say(`  ${count(most)} steps wait for approval`)
    await measureAll(stack, await heldSteps(stack, most))
  })
}

const [runs, entries, rules] = [100_000, 1_000_000, 2_000]

/**
 * Fills the organization as if it had been used for long. Returns the pages that list something. The parameters of what
 * was decided are deleted, as after their time.
 */
async function longUsed({ organizationId, users, send, databaseUrl }: Stack): Promise<readonly Page[]> {
  const one = { name: 'Rule 0', verdict: 'deny', tools: ['mail_send'] }
  const { id: rule } = await send(users.admin.api_key, 'POST', `/organizations/${organizationId}/rules`, one)
  await withClient(databaseUrl, async (client) => {
    await fillAudit(client, entries, organizationId)
    await fillApprovals(client, runs, organizationId)
    await fillMessages(client, runs, organizationId)
    await client.query(
      `insert into rules (id, organization_id, name, body, created_by)
       select 'rule_' || lpad(n::text, 26, '0'), organization_id, 'Rule ' || n, body, created_by
       from rules, generate_series(1, $2::int) as n where id = $1`,
      [rule, rules - 1],
    )
    await client.query('update approvals set params_sealed = null')
    await client.query('update chain_head set policy_version = policy_version + 1')
    await client.query('vacuum analyze')
  })
  return [
    '',
    'approvals',
    'workflows',
    'workflows/wf_7',
    'runs',
    'runs?workflow_name=workflow',
    'sessions',
    'rules',
    `rules/${rule}`,
    'rules/new',
    'rules/try',
    'tools',
    'tools/mail_send',
    'connections',
    'data',
    'templates',
    'approvals?state=decided',
    'approvals?search=mail',
    'search?q=report',
    'audit?search=rule_7',
    'people',
    'groups',
    'keys',
    'settings',
    'freeze',
    'audit',
    'audit?event_type=rule.created',
    'audit?event_type=group.created',
    'notifications',
    'notifications?state=failed',
    'notifications?recipient=7%40acme.example',
    'reports?time=7d',
    'reports',
    'webhooks',
    'organizations',
    'health',
  ].map((path) => ({ path }))
}

/** A stack with one organization. `send` sends a request with the API key of a person. */
interface Stack {
  readonly base: string
  readonly organizationId: string
  readonly users: Api['bootstrap']['users']
  readonly send: Send
  /** The address for the superuser. */
  readonly databaseUrl: string
}

/** A page of the console. `shows` is a text that the page must contain. */
interface Page {
  readonly path: string
  /** The name in the output. The default is the path, with `ID` in place of the id. */
  readonly name?: string
  readonly shows?: string
}

async function withStack(work: (stack: Stack) => Promise<void>): Promise<void> {
  const home = stackHome()
  const started = await startStack({ dataDir: home.dataDir, env: { LOG_LEVEL: 'error' } })
  try {
    const {
      base_url: base,
      organization_id: organizationId,
      users,
      database_admin_url: databaseUrl,
    } = new Api(home.dataDir, 'owner').bootstrap
    const send = sender(base)
    await send(users.owner.api_key, 'PATCH', `/organizations/${organizationId}/quota`, {
      requests_per_minute: 100_000,
      concurrent_executions: 25_000,
    })
    await work({ base, organizationId, users, send, databaseUrl })
  } finally {
    await started.stop()
    await home.remove()
  }
}

async function measureAll({ base, users }: Stack, pages: readonly Page[]): Promise<void> {
  const cookie = await signIn(base, users.owner)
  for (const { path, name = path.replace(/(run|apr|ses)_\w+/, 'ID'), shows = '' } of pages)
    await measure(`${base}/console/${path}`, name, cookie, shows)
}

/** Starts runs that wait for approval before their first step. Returns the pages to measure. */
async function wholeRuns({ organizationId, users, send }: Stack, most: number): Promise<readonly Page[]> {
  await send(users.owner.api_key, 'PATCH', `/organizations/${organizationId}/governance`, {
    approvals_enabled: true,
    approval_required_from: 'low',
  })
  const runId = await startRuns(send, users.member.api_key, longReport(6), most)
  const large = await startRuns(send, users.member.api_key, longReport(999), 1)
  const { waiting_for } = await send(users.admin.api_key, 'GET', `/runs/${runId}`)
  const session = await agentSession(send, users.member.api_key, users.admin.api_key)
  return [
    { path: 'approvals' },
    { path: `approvals/${waiting_for?.[0]?.approval_id ?? ''}` },
    { path: 'runs' },
    { path: 'runs?workflow_name=report&status=awaiting_approval' },
    { path: 'runs?requester_email=nobody' },
    { path: `runs/${runId}` },
    { path: `runs/${runId}/steps/read` },
    { path: `runs/${large}`, name: 'runs/ID (1,000 steps)' },
    { path: `runs/${large}?steps=10`, name: 'runs/ID?steps=10 (1,000 steps)' },
    { path: 'sessions' },
    { path: `sessions/${session}` },
  ]
}

/** The subject of the held mails. The subject is sealed, so a page must open the parameters to show it. */
const subject = 'Figures of the third quarter'

/** Starts runs. A rule requires an approval for the last step of each run. Returns the pages to measure. */
async function heldSteps({ organizationId, users, send }: Stack, most: number): Promise<readonly Page[]> {
  const path = `/organizations/${organizationId}`
  await send(users.owner.api_key, 'PATCH', `${path}/governance`, { approvals_enabled: true })
  const rule = { name: 'mail is looked at', verdict: 'require_approval', tools: ['mail_send'] }
  await send(users.admin.api_key, 'POST', `${path}/rules`, rule)
  const runId = await startRuns(send, users.member.api_key, mailedReport, most)
  const held = async (): Promise<number> =>
    (await send(users.admin.api_key, 'GET', `${path}/approvals/summary`)).total ?? 0
  // Runs reach their held step one after another. The loop waits until all runs have reached it. Throws if the number
  // of waiting steps does not grow for a minute.
  for (let known = 0, still = 0; known < most; still += 1) {
    const now = await held()
    if (now > known) [known, still] = [now, 0]
    if (still > 120) throw new Error(`only ${known} of ${most} steps wait`)
    await delay(500)
  }
  const { waiting_for } = await send(users.admin.api_key, 'GET', `/runs/${runId}`)
  return [
    { path: 'approvals' },
    { path: `approvals/${waiting_for?.[0]?.approval_id ?? ''}`, shows: subject },
    { path: 'runs' },
    { path: `runs/${runId}` },
    { path: `runs/${runId}/steps/send`, shows: subject },
  ]
}

interface Answer {
  readonly id: string
  readonly execution_id: string
  readonly data: readonly { readonly id: string }[]
  readonly total?: number
  readonly waiting_for?: readonly { readonly approval_id: string }[]
}

type Send = (key: string, method: string, path: string, body?: object) => Promise<Answer>

function sender(base: string): Send {
  return async (key, method, path, body) => {
    const answer = await fetch(`${base}/api/v1${path}`, {
      method,
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    const text = await answer.text()
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`)
    return JSON.parse(text) as Answer
  }
}

/** Returns a workflow with the step `read` and `length` other steps. Each other step depends on an earlier step. */
function longReport(length: number): object {
  const steps = Array.from({ length }, (_, place) => ({
    id: `keep-${place}`,
    tool: 'memory_set',
    params: { key: `k/${place}`, value: '{{steps.read.output.text}}' },
    depends_on: place < 2 ? ['read'] : [`keep-${place - 2}`],
  }))
  const read = { id: 'read', tool: 'file_read', params: { path: 'customers.csv' } }
  return { steps: [read, ...steps] }
}

const mailedReport = {
  steps: [
    { id: 'read', tool: 'file_read', params: { path: 'reports/q3-summary.md' } },
    {
      id: 'send',
      tool: 'mail_send',
      params: { to: 'board@larkspur.example', subject, text: '{{steps.read.output.text}}' },
    },
  ],
}

/** Saves the workflow and starts `times` runs of it. Returns the id of the last run. */
async function startRuns(send: Send, key: string, definition: object, times: number): Promise<string> {
  const workflow = await send(key, 'POST', '/workflows', { name: 'Quarterly report', definition })
  let last = ''
  for (let made = 0; made < times; made += 1)
    last = (await send(key, 'POST', `/workflows/${workflow.id}/execute?wait=0`, {})).execution_id
  return last
}

/** Number of questions that the agent asks in its session. */
const questions = 100

async function agentSession(send: Send, key: string, adminKey: string): Promise<string> {
  for (let asked = 0; asked < questions; asked += 1)
    await send(key, 'POST', '/authorize', {
      agent: { name: 'bench', kind: 'hook' },
      session_id: 'bench',
      tool_name: 'Read',
      tool_input: { file_path: `file-${asked}` },
    })
  return (await send(adminKey, 'GET', '/agent-sessions')).data[0]?.id ?? ''
}

async function signIn(
  base: string,
  person: { readonly email: string; readonly password: string },
): Promise<string> {
  const answer = await fetch(`${base}/api/auth/sign-in/email`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', origin: base },
    body: JSON.stringify({ email: person.email, password: person.password }),
  })
  if (!answer.ok) throw new Error(`sign-in: ${answer.status}`)
  return answer.headers
    .getSetCookie()
    .map((line) => line.split(';', 1)[0])
    .join('; ')
}

async function measure(url: string, name: string, cookie: string, shows: string): Promise<void> {
  const times: number[] = []
  for (let visit = 0; visit < visits; visit += 1) {
    const start = performance.now()
    const answer = await fetch(url, { headers: { cookie }, redirect: 'manual' })
    const text = await answer.text()
    times.push(performance.now() - start)
    if (answer.status !== 200) throw new Error(`${url}: ${answer.status}`)
    if (!text.includes(shows)) throw new Error(`${url} does not show \`${shows}\``)
  }
  const p95 = [...times].sort((a, b) => a - b)[Math.floor(visits * 0.95)] ?? Number.NaN
  say(
    `    ${name}: ${median(times).toFixed(1)} ms in the middle, p95 ${p95.toFixed(1)} ms (goal below ${goal}: ${p95 < goal ? 'holds' : 'MISSED'})`,
  )
}

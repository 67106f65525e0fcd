import { Api } from '../test/support/client.ts'
import { stackHome, startStack } from '../test/support/start-stack.ts'
import { count, machine, median, say } from './support/report.ts'

const runs = 1_000
const visits = 100
/** In milliseconds: 95 of 100 visits of a page may take at most this long. */
const goal = 100

/**
 * `npm run bench pages`: the time of each page of the console over HTTP, while 1,000 runs wait for their approval in one
 * organization. One person loads one page after another.
 */
export async function run(): Promise<void> {
  say(`pages: ${count(runs)} runs wait for approval; ${machine()}`)
  const home = stackHome()
  const stack = await startStack({ dataDir: home.dataDir, env: { LOG_LEVEL: 'error' } })
  try {
    const { base_url: base, organization_id: id, users } = new Api(home.dataDir, 'owner').bootstrap
    const send = sender(base)
    await send(users.owner.api_key, 'PATCH', `/organizations/${id}/governance`, {
      approvals_enabled: true,
      approval_required_from: 'low',
    })
    await send(users.owner.api_key, 'PATCH', `/organizations/${id}/quota`, {
      requests_per_minute: 100_000,
    })
    const runId = await waitingRuns(send, users.member.api_key, 6, runs)
    const large = await waitingRuns(send, users.member.api_key, 999, 1)
    const { waiting_for } = await send(users.admin.api_key, 'GET', `/runs/${runId}`)
    const session = await agentSession(send, users.member.api_key, users.admin.api_key)
    const cookie = await signIn(base, users.admin)
    for (const path of [
      'approvals',
      `approvals/${waiting_for?.[0]?.approval_id ?? ''}`,
      'runs',
      'runs?workflow_name=report&status=awaiting_approval',
      'runs?requester_email=nobody',
      `runs/${runId}`,
      `runs/${runId}/steps/read`,
      `runs/${large}`,
      `runs/${large}?steps=10`,
      'sessions',
      `sessions/${session}`,
    ])
      await measure(`${base}/console/${path}`, path.replace(/(run|apr|ses)_\w+/, 'ID'), cookie)
  } finally {
    await stack.stop()
    await home.remove()
  }
}

interface Answer {
  readonly id: string
  readonly execution_id: string
  readonly data: readonly { readonly id: string }[]
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

/** Starts `times` runs of a workflow of one step and `length` more, each after an earlier one. Returns the last id. */
async function waitingRuns(send: Send, key: string, length: number, times: number): Promise<string> {
  const steps = Array.from({ length }, (_, place) => ({
    id: `keep-${place}`,
    tool: 'memory_set',
    params: { key: `k/${place}`, value: '{{steps.read.output.text}}' },
    depends_on: place < 2 ? ['read'] : [`keep-${place - 2}`],
  }))
  const read = { id: 'read', tool: 'file_read', params: { path: 'customers.csv' } }
  const definition = { steps: [read, ...steps] }
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

async function measure(url: string, name: string, cookie: string): Promise<void> {
  const times: number[] = []
  for (let visit = 0; visit < visits; visit += 1) {
    const start = performance.now()
    const answer = await fetch(url, { headers: { cookie }, redirect: 'manual' })
    await answer.text()
    times.push(performance.now() - start)
    if (answer.status !== 200) throw new Error(`${url}: ${answer.status}`)
  }
  const p95 = [...times].sort((a, b) => a - b)[Math.floor(visits * 0.95)] ?? Number.NaN
  say(
    `  ${name}: ${median(times).toFixed(1)} ms in the middle, p95 ${p95.toFixed(1)} ms (goal below ${goal}: ${p95 < goal ? 'holds' : 'MISSED'})`,
  )
}

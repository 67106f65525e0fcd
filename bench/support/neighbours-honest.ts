import { randomUUID } from 'node:crypto'
import { Pool } from 'undici'
import { Api } from '../../test/support/client.ts'

export interface Measured {
  /**
   * The 99th percentile of the latency in milliseconds, for each kind of request. The latency counts from the time when
   * a request was due.
   */
  readonly p99: Readonly<Record<string, number>>
  /** A sentence for each wrong or missing answer. */
  readonly failures: readonly string[]
}

export interface Honest {
  /** Runs the fixed load for this many milliseconds. */
  load(milliseconds: number): Promise<Measured>
}

interface Kind {
  readonly perSecond: number
  /**
   * Sends a request of this kind. Throws if the status or the result is not as expected from an undisturbed service.
   */
  readonly send: () => Promise<void>
}

interface Answer {
  readonly status: number
  readonly body: Record<string, unknown>
}

/** A request that takes more milliseconds than this counts as failed, because the hook gives up after this time. */
const longestMilliseconds = 20_000

const definition = {
  steps: [
    { id: 'keep', tool: 'memory_set', params: { key: 'honest', value: { report: 'x'.repeat(2_000) } } },
    { id: 'read', tool: 'memory_get', params: { key: 'honest' }, depends_on: ['keep'] },
    { id: 'file', tool: 'file_read', params: { path: 'reports/q3-summary.md' }, depends_on: ['keep'] },
  ],
}

/**
 * Prepares a rule and a workflow in the bootstrap organization. All requests of the honest tenant use one pool of
 * connections.
 */
export async function prepareHonest(dataDir: string): Promise<Honest> {
  const [admin, member] = [new Api(dataDir, 'admin'), new Api(dataDir, 'member')]
  await admin.createRule({
    name: 'pushes are denied',
    verdict: 'deny',
    tools: ['Bash'],
    side_effects: ['egress'],
  })
  const workflowId = await member.createWorkflow('Honest', definition)
  const { base_url: baseUrl, users } = member.bootstrap
  const pool = new Pool(baseUrl, { connections: 64 })
  const send = async (method: 'GET' | 'POST' | 'PUT', path: string, body?: object): Promise<Answer> => {
    const { statusCode, body: answer } = await pool.request({
      method,
      path: `/api/v1${path}`,
      headers: { authorization: `Bearer ${users.member.api_key}`, 'content-type': 'application/json' },
      signal: AbortSignal.timeout(longestMilliseconds),
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    return { status: statusCode, body: (await answer.json()) as Record<string, unknown> }
  }
  const expect = (answer: Answer, holds: boolean): void => {
    if (!holds) throw new Error(`${answer.status} ${JSON.stringify(answer.body).slice(0, 300)}`)
  }
  const ask = async (command: string, wanted: string): Promise<void> => {
    const answer = await send('POST', '/authorize', {
      agent: { name: 'bench', kind: 'hook' },
      session_id: 'honest',
      tool_name: 'Bash',
      tool_input: { command },
      tool_use_id: randomUUID(),
    })
    expect(answer, answer.status === 200 && answer.body['decision'] === wanted)
  }
  const read = async (path: string): Promise<void> => {
    const answer = await send('GET', path)
    expect(answer, answer.status === 200)
  }
  const kinds: Readonly<Record<string, Kind>> = {
    authorize: { perSecond: 30, send: () => ask('ls -l', 'allow') },
    'authorize, denied': { perSecond: 5, send: () => ask('git push', 'deny') },
    'list runs': { perSecond: 5, send: () => read('/runs?limit=20') },
    'list approvals': { perSecond: 3, send: () => read('/approvals?limit=20') },
    'keep a value': {
      perSecond: 2,
      send: async () => {
        const answer = await send('PUT', '/memory/kept', { value: randomUUID() })
        expect(answer, answer.status === 200)
      },
    },
    'run of three steps': {
      perSecond: 1,
      send: async () => {
        const answer = await send('POST', `/workflows/${workflowId}/execute?wait=15`, { inputs: {} })
        expect(answer, answer.status === 200 && answer.body['status'] === 'completed')
      },
    },
  }
  return { load: (milliseconds) => openLoops(kinds, milliseconds) }
}

/** Sends each kind of request at its fixed rate, whether or not earlier requests are answered. */
async function openLoops(kinds: Readonly<Record<string, Kind>>, milliseconds: number): Promise<Measured> {
  const failures: string[] = []
  const measured = await Promise.all(
    Object.entries(kinds).map(async ([name, { perSecond, send }]) => {
      const times: number[] = []
      const open: Promise<void>[] = []
      const began = performance.now()
      for (let sent = 0; (sent / perSecond) * 1_000 < milliseconds; sent += 1) {
        const due = began + (sent / perSecond) * 1_000
        await new Promise((resolve) => setTimeout(resolve, Math.max(0, due - performance.now())))
        const answered = send().then(
          () => void times.push(performance.now() - due),
          (error: Error) => void failures.push(`${name}: ${error.message}`),
        )
        open.push(answered)
      }
      await Promise.all(open)
      times.sort((a, b) => a - b)
      return [name, times[Math.floor(times.length * 0.99)] ?? Number.NaN] as const
    }),
  )
  return { p99: Object.fromEntries(measured), failures }
}

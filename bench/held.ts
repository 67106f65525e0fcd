import { randomUUID } from 'node:crypto'
import { prepareOrganization, withServers } from './support/authorize-organization.ts'
import { withClient, withPostgres } from './support/postgres.ts'
import { count, machine, median, say } from './support/report.ts'

const held = 200
const asked = 1_000

/**
 * Measures held calls. Each call waits for a person in a request of its own, and must not use a database connection
 * while it waits. Also measures the time of other requests to `/authorize` and to the HTTP hook. Measures this time
 * without held calls, and again while held calls wait.
 */
export async function run(): Promise<void> {
  say(`held: one API process with a pool of 20 connections, 1,000 rules; ${machine()}`)
  await withPostgres(async (postgres) => {
    const key = await prepareOrganization(postgres)
    await withServers(postgres, 1, async ([server]) => {
      const client = new Client(`http://127.0.0.1:${server?.ours}`, key)
      await client.times(hookBody, '/hooks/claude-code')
      say(`  nobody waits: ${await client.both()}`)
      const waiting = await Promise.all(Array.from({ length: held }, () => client.hold()))
      const busy: number[] = []
      // Each call reads the database once before it waits. The loop waits until all these reads have ended.
      while ((await busyConnections(postgres.appUrl)) > 0);
      for (let sample = 0; sample < 20; sample += 1) busy.push(await busyConnections(postgres.appUrl))
      const most = Math.max(...busy)
      say(
        `  ${count(held)} held calls wait: ${most} connections in use (goal 0: ${most === 0 ? 'holds' : 'MISSED'})`,
      )
      say(`  beside them: ${await client.both()}`)
      const left = await client.withdraw(waiting)
      if (left.some((status) => status !== 'cancelled'))
        throw new Error(`some waiting calls got no answer: ${left.join(' ')}`)
    })
  })
}

/**
 * Returns the number of the application's connections that have been busy, or in a transaction, for more than 50 ms. No
 * single statement takes so long.
 */
async function busyConnections(url: string): Promise<number> {
  return withClient(url, async (client) => {
    const { rows } = await client.query<{ busy: number }>(
      `select count(*)::int as busy from pg_stat_activity
       where usename = current_user and pid <> pg_backend_pid() and state <> 'idle'
         and coalesce(xact_start, query_start) < clock_timestamp() - interval '50 ms'`,
    )
    return rows[0]?.busy ?? Number.NaN
  })
}

const questionBody = (tool: string): object => ({
  agent: { name: 'bench', kind: 'hook' },
  session_id: 'bench',
  tool_name: tool,
  tool_input: { path: '/w/a', of: randomUUID() },
  tool_use_id: randomUUID(),
})
const hookBody = (): object => ({
  session_id: 'bench',
  hook_event_name: 'PreToolUse',
  tool_name: 'Bash',
  tool_input: { command: 'ls -l' },
  tool_use_id: randomUUID(),
})

class Client {
  readonly #url: string
  readonly #key: string

  constructor(url: string, key: string) {
    this.#url = url
    this.#key = key
  }

  async send(method: string, path: string, body?: object): Promise<Record<string, string>> {
    const response = await fetch(`${this.#url}/api/v1${path}`, {
      method,
      headers: { authorization: `Bearer ${this.#key}`, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    const text = await response.text()
    if (response.status !== 200) throw new Error(`${response.status}: ${text}`)
    return text === '' ? {} : (JSON.parse(text) as Record<string, string>)
  }

  /** Sends one request after another. Returns the milliseconds that each request took. */
  async times(body: () => object, path: string): Promise<number[]> {
    const times: number[] = []
    for (let n = 0; n < asked; n += 1) {
      const started = performance.now()
      await this.send('POST', path, body())
      times.push(performance.now() - started)
    }
    return times
  }

  async both(): Promise<string> {
    const authorize = await this.times(() => questionBody('mcp__server1__free'), '/authorize')
    const hook = await this.times(hookBody, '/hooks/claude-code')
    const verdict = median(hook) < 5 ? 'holds' : 'MISSED'
    return `/authorize p50 ${median(authorize).toFixed(2)} ms, the http hook p50 ${median(hook).toFixed(2)} ms (goal 5 ms: ${verdict})`
  }

  /**
   * Asks about a call that requires an approval. Returns the id of the approval, and a promise of its status. The
   * promise resolves when the approval is decided or cancelled, or after 30 seconds.
   */
  async hold(): Promise<{ id: string; status: Promise<string> }> {
    const { approval_id: id, decision } = await this.send(
      'POST',
      '/authorize',
      questionBody('mcp__server1__held'),
    )
    if (id === undefined) throw new Error(`the call was not held: ${decision}`)
    const status = this.send('GET', `/authorize/approvals/${id}?wait=30`).then((answer) =>
      String(answer['status']),
    )
    return { id, status }
  }

  async withdraw(waiting: readonly { id: string; status: Promise<string> }[]): Promise<string[]> {
    for (const { id } of waiting) await this.send('POST', `/authorize/approvals/${id}/cancel`, {})
    return Promise.all(waiting.map(({ status }) => status))
  }
}

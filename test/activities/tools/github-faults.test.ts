import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { sql } from 'kysely'
import { createToolActivities } from '../../../src/activities/tool-activities.ts'
import { connect } from '../../../src/governance/connections/connections.ts'
import type { Json } from '../../../src/policy/types.ts'
import { emulatorToken, startEmulator, type Emulator } from '../../support/emulators.ts'
import { startFaultProxy, type Fault, type FaultProxy } from '../../support/fault-proxy.ts'
import {
  effectOf,
  keptOutput,
  opOf,
  stepOf,
  useEngine,
  type Engine,
} from '../../governance/runs/engine-fixture.ts'
import { execute } from '../execute.ts'

/*
 * Calls that write, through everything: decision, real client, a proxy with a fault, and a server that keeps state. In
 * the end the effect is there once, or not at all and the step says so, or a person is asked.
 */

let engine: Engine
let github: Emulator
let proxy: FaultProxy
useEngine((started) => (engine = started))
beforeAll(async () => {
  github = await startEmulator('github', {
    users: [{ login: 'admin' }],
    repos: [{ owner: 'admin', name: 'app', auto_init: true }],
  })
  proxy = await startFaultProxy(github.url)
  await ask('POST', '/repos/admin/app/issues', { title: 'for comments' })
})
afterAll(() => Promise.all([proxy?.close(), github?.close()]))
beforeEach(async () => {
  proxy.choose = () => 'pass'
  await engine.context.db.deleteFrom('connections').execute()
  const credential = { token: emulatorToken, base_url: proxy.url }
  const asked = { tool: 'github_comment', credential, scope: 'personal', name: undefined } as const
  await connect(engine.context, engine.caller('member'), asked, new AbortController().signal)
})

async function ask(method: string, path: string, body?: object): Promise<Json> {
  const answer = await fetch(`${github.url}${path}`, {
    method,
    headers: { authorization: `Bearer ${emulatorToken}`, 'content-type': 'application/json' },
    body: body === undefined ? null : JSON.stringify(body),
  })
  return (await answer.json()) as Json
}

const writes = {
  github_create_issue: {
    params: (text: string) => ({ repo: 'admin/app', title: 'a title', body: text }),
    list: '/repos/admin/app/issues?state=all&per_page=100',
    output: (made: { number: number; html_url: string }): Json => ({
      number: made.number,
      url: made.html_url,
    }),
  },
  github_comment: {
    params: (text: string) => ({ repo: 'https://github.com/admin/app/issues/1', body: text }),
    list: '/repos/admin/app/issues/1/comments?per_page=100',
    output: (made: { id: number; html_url: string }): Json => ({ id: made.id, url: made.html_url }),
  },
}
type Write = keyof typeof writes
type Made = { number: number; id: number; html_url: string; body: string }

const bodies = createToolActivities()

/** Makes one call attempt after attempt, as Temporal does, without its pauses. */
class Call {
  readonly tool: Write
  readonly text = `text ${Math.random()}`
  readonly pauses: number[] = []
  #runId = ''
  constructor(tool: Write) {
    this.tool = tool
  }

  async start(): Promise<this> {
    const params = writes[this.tool].params(this.text)
    this.#runId = await engine.run({ steps: [{ id: 's', tool: this.tool, params }] })
    return this
  }

  async attempt(body: (decided: unknown) => Promise<unknown> = (decided) => bodies[this.tool]!(decided)) {
    const args = [{ runId: this.#runId, stepId: 's', itemIndex: null }]
    const { answer } = await execute(engine.context, {
      workflowId: this.#runId,
      activityType: this.tool,
      args,
      body,
    })
    const { nextRetryDelay } = answer as { nextRetryDelay?: number }
    if (nextRetryDelay === undefined) return 'over'
    this.pauses.push(nextRetryDelay)
    return 'again'
  }

  /** Lets the service's delay pass. */
  async later(): Promise<void> {
    await sql`update effects set sent_at = sent_at - interval '61 seconds' where run_id = ${this.#runId}`.execute(
      engine.context.db,
    )
  }

  async untilOver(): Promise<this> {
    for (let attempts = 0; (await this.attempt()) === 'again'; attempts += 1) {
      if (attempts > 20) throw new Error('the call does not end')
      await this.later()
    }
    return this
  }

  async ended() {
    const op = opOf(this.#runId)
    const row = await effectOf(engine.context, op)
    const made = ((await ask('GET', writes[this.tool].list)) as unknown as Made[]).filter(({ body }) =>
      body?.includes(this.text),
    )
    const expected = made[0] === undefined ? null : writes[this.tool].output(made[0])
    const output = row?.state === 'completed' ? await keptOutput(engine.context, op) : expected
    expect(output).toEqual(expected)
    const { error } = await stepOf(engine.context, this.#runId)
    return { state: row?.state, made: made.length, error: row?.state === 'failed' ? error?.code : undefined }
  }
}

const once = { state: 'completed', made: 1, error: undefined }
const failed = (error: string) => ({ state: 'failed', made: 0, error })

/** A fault of the first write only. */
function first(fault: Fault): () => Fault {
  let isUsed = false
  return () => {
    if (isUsed) return 'pass'
    isUsed = true
    return fault
  }
}

const faults: readonly (readonly [string, () => () => Fault, object])[] = [
  ['nothing goes wrong', () => () => 'pass', once],
  ['the answer is lost after the request was carried out', () => first('lose answer'), once],
  ['the connection is cut before', () => first('cut'), once],
  ['the connection is cut before, each time', () => () => 'cut', failed('not_made')],
  ['HTML comes back for a request that was carried out', () => first('garble'), once],
  ['502 comes back for a request that was carried out', () => first('fail after'), once],
  ['503 comes back', () => first({ status: 503 }), once],
  ['503 comes back each time', () => () => ({ status: 503 }), failed('not_made')],
  ['429 comes back', () => first({ status: 429, headers: { 'retry-after': '7' } }), once],
  ['429 comes back each time', () => () => ({ status: 429 }), failed('github_rate_limited')],
  [
    'it is redirected to another host',
    () => () => ({ status: 307, headers: { location: 'http://127.0.0.1:9/' } }),
    failed('github_redirected'),
  ],
  ['the token was revoked', () => () => ({ status: 401 }), failed('connection_expired')],
  ['403 comes back', () => () => ({ status: 403 }), failed('github_forbidden')],
  ['422 comes back', () => () => ({ status: 422 }), failed('github_refused')],
]

describe.each(Object.keys(writes) as Write[])('%s, if', (tool) => {
  test.each(faults)('%s', async (_, fault, expected) => {
    const call = await new Call(tool).start()
    const ofWrite = fault()
    proxy.choose = (method) => (method === 'POST' ? ofWrite() : 'pass')
    expect(await (await call.untilOver()).ended()).toEqual(expected)
  })

  test('429 says how long to wait, waits so long', async () => {
    const call = await new Call(tool).start()
    const ofWrite = first({ status: 429, headers: { 'retry-after': '7' } })
    proxy.choose = (method) => (method === 'POST' ? ofWrite() : 'pass')
    await call.untilOver()
    expect(call.pauses).toEqual([7_000])
  })

  test('its list lags, is not made again before the delay', async () => {
    const call = await new Call(tool).start()
    let lags = true
    proxy.choose = (method) => (method === 'POST' ? 'lose answer' : lags ? 'empty list' : 'pass')
    expect(await call.attempt()).toBe('again')
    expect(await call.attempt()).toBe('again')
    const [, untilKnown = 0] = call.pauses
    expect(untilKnown).toBeGreaterThan(15_000)
    expect(untilKnown).toBeLessThanOrEqual(60_000)
    lags = false
    expect(await call.attempt()).toBe('over')
    expect(await call.ended()).toEqual(once)
  })

  test('it cannot be looked for, asks a person', async () => {
    const call = await new Call(tool).start()
    proxy.choose = (method) => (method === 'POST' ? 'lose answer' : { status: 404 })
    await call.untilOver()
    expect(await call.ended()).toEqual({ ...once, state: 'unknown_outcome' })
  })

  test('looking fails for a while, is looked for again', async () => {
    const call = await new Call(tool).start()
    const ofLook = first({ status: 503 })
    proxy.choose = (method) => (method === 'POST' ? 'lose answer' : ofLook())
    await call.untilOver()
    expect(call.pauses).toEqual([1_000, 15_000])
    expect(await call.ended()).toEqual(once)
  })

  test.each([true, false])(
    'its worker dies after the point of no return, request carried out: %s',
    async (isMade) => {
      const call = await new Call(tool).start()
      let wake!: () => void
      const dead = new Promise<void>((resolve) => (wake = resolve))
      let isSent!: () => void
      const sent = new Promise<void>((resolve) => (isSent = resolve))
      proxy.choose = (method) => (method === 'POST' && !isMade ? 'cut' : 'pass')
      const stuck = call.attempt(async (decided) => {
        try {
          return await bodies[tool]!(decided)
        } finally {
          isSent()
          await dead
        }
      })
      await sent
      proxy.choose = () => 'pass'
      await call.later()
      await call.untilOver()
      expect(await call.ended()).toEqual(once)
      // The worker was only slow: what it says now changes nothing.
      wake()
      await stuck
      expect(await call.ended()).toEqual(once)
    },
  )
})

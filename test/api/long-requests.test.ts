import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { mostLongWaiting } from '../../src/governance/rules/long-work.ts'
import type { Place } from '../../src/governance/limits/request-shares.ts'
import { agentWorld, type AgentWorld } from './agents/agent.ts'
import { addKey, addPerson, everyScope } from './fixtures.ts'
import { startTestServer, type Answer, type TestServer } from './server.ts'

/* Backtests, analyses and comparisons wait for their turn. Meanwhile, the caller may lose the rights. */

let server: TestServer
let world: AgentWorld
beforeAll(async () => {
  server = await startTestServer()
  world = await agentWorld(server)
  await world.change('POST', '/rules', { name: 'no mail', verdict: 'deny', tools: ['mail_*'] })
})
afterAll(() => server.close())

const routes = {
  backtest: (key: string) => send(key, 'POST', 'backtest', { rules: [] }),
  analysis: (key: string) => send(key, 'GET', 'analysis'),
  diff: (key: string) => send(key, 'POST', 'diff', { from: 'active', to: [] }),
}
const send = (key: string, method: string, name: string, body?: unknown) =>
  server.call(key, method, `/organizations/${world.organizationId}/rules/${name}`, body)

interface Asker {
  readonly id: string
  readonly secret: string
  readonly userId: string
}
let asker: Asker
beforeEach(async () => {
  const { userId } = await addPerson(server.context, world.organizationId, 'admin')
  asker = { userId, ...(await addKey(server.context, world.organizationId, userId, everyScope)) }
})

/** Takes every place of the organization for large requests. No other organization is served, so it has two places. */
const takeAll = (): Promise<Place[]> =>
  Promise.all([1, 2].map(() => server.context.shares.enter(world.organizationId, 'large')))

const told = ({ status, body }: Answer) => [status, body.error?.code]

/**
 * Sends one request more than may wait. The answer to that request shows that the others wait. Then changes the rights
 * of the caller, and lets the requests begin. Returns the refusal and the answers of the others.
 */
async function whileTheyWait(ask: (key: string) => Promise<Answer>, change: () => Promise<unknown>) {
  const places = await takeAll()
  try {
    const asked = Array.from({ length: mostLongWaiting + 1 }, async (_, index) => ({
      index,
      answer: await ask(asker.secret),
    }))
    const first = await Promise.race(asked)
    await change()
    for (const place of places) place.leave()
    const all = await Promise.all(asked)
    return { refused: first.answer, others: all.filter(({ index }) => index !== first.index) }
  } finally {
    for (const place of places) place.leave()
  }
}

const ways: Record<string, { change: (asker: Asker) => string; answer: [number, string] }> = {
  'the key was revoked': {
    change: ({ id }) => `update api_keys set revoked_at = now() where id = '${id}'`,
    answer: [401, 'unauthenticated'],
  },
  'the key lost a scope': {
    change: ({ id }) => `update api_keys set scopes = '{runs:read}' where id = '${id}'`,
    answer: [403, 'missing_scope'],
  },
  'the person is a viewer': {
    change: ({ userId }) => `update memberships set role = 'viewer' where user_id = '${userId}'`,
    answer: [403, 'insufficient_role'],
  },
  'the person was removed': {
    change: ({ userId }) => `delete from memberships where user_id = '${userId}'`,
    answer: [404, 'not_found'],
  },
}

describe.each(Object.keys(routes) as (keyof typeof routes)[])('%s', (name) => {
  test.each(Object.entries(ways))('few requests wait, and get no data after %s', async (_, way) => {
    const { refused, others } = await whileTheyWait(routes[name], () =>
      server.context.pool.query(way.change(asker)),
    )
    expect(told(refused)).toEqual([429, 'rate_limited'])
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0)
    expect(others.map(({ answer }) => told(answer))).toEqual(others.map(() => way.answer))
  })

  test('requests that waited are answered', async () => {
    const { others } = await whileTheyWait(routes[name], async () => {})
    expect(others.map(({ answer }) => answer.status)).toEqual(others.map(() => 200))
  })
})

describe('a request that waited reads what was saved meanwhile', () => {
  /** Asks, saves while the request waits, and returns the answer. */
  async function saved(name: keyof typeof routes, path: string, body: object) {
    const { others } = await whileTheyWait(routes[name], () => world.change('POST', path, body))
    return others.map(({ answer }) => answer.body)
  }

  test('a comparison', async () => {
    const answers = await saved('diff', '/rules', { name: 'no web', verdict: 'deny', tools: ['WebFetch'] })
    for (const { changes } of answers) expect(JSON.stringify(changes)).toContain('no web')
  })

  test('an analysis', async () => {
    const answers = await saved('analysis', '/rules', { name: 'letters', verdict: 'deny', tools: ['mail_send'] }) // prettier-ignore
    for (const { findings } of answers) expect(JSON.stringify(findings)).toContain('letters')
  })

  test('a backtest', async () => {
    await world.agent().ask('NotebookRead', {})
    const answers = await saved('backtest', '/tool-policies', { tool_name: 'NotebookRead', allowed: false })
    for (const { not_replayable } of answers)
      expect(not_replayable).toEqual([{ reason: 'policy_decided', count: 1 }])
  })
})

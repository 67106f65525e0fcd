import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { agentWorld, type AgentWorld } from './agents/agent.ts'
import { addKey, everyScope } from './fixtures.ts'
import { startTestServer, type TestServer } from './server.ts'

let server: TestServer
let world: AgentWorld
beforeAll(async () => {
  server = await startTestServer()
  world = await agentWorld(server)
})
afterAll(() => server.close())

const path = () => `/organizations/${world.organizationId}/rules/backtest`
const backtest = (body: unknown, key = world.admin.key) => server.call(key, 'POST', path(), body)
const fetches = { name: 'no fetch', verdict: 'deny', tools: ['WebFetch'] }

test('a backtest says how drafts would have decided the calls of the organization, and records nothing', async () => {
  const agent = world.agent()
  await agent.ask('WebFetch', { url: 'https://evil.net' })
  const before = (await server.call(world.admin.key, 'GET', `/organizations/${world.organizationId}/governance/audit`)).body.total // prettier-ignore
  const { status, body } = await backtest({ rules: [fetches] })
  expect(status).toBe(200)
  expect(body).toMatchObject({
    examined: 1,
    changed: 1,
    not_replayable: [],
    by_change: { 'allow->deny': 1 },
    samples: [{ tool: 'WebFetch', to: { verdict: 'deny', rule_name: 'no fetch' } }],
    limit_reached: null,
  })
  const audit = await server.call(world.admin.key, 'GET', `/organizations/${world.organizationId}/governance/audit`) // prettier-ignore
  expect(audit.body.total).toBe(before)
  const ignored = await backtest({ rules: [fetches], until: '2020-01-01' })
  expect(ignored.body).toEqual({
    examined: 0,
    changed: 0,
    not_replayable: [],
    by_change: {},
    samples: [],
    limit_reached: null,
    oldest: null,
  })
  expect((await backtest({ rules: [fetches], since: body.oldest })).body.examined).toBe(1)
  expect((await backtest({ rules: [fetches], until: body.oldest })).body.examined).toBe(0)
})

test('it looks at one organization alone', async () => {
  const other = await agentWorld(server)
  const own = await server.call(
    other.admin.key,
    'POST',
    `/organizations/${other.organizationId}/rules/backtest`,
    { rules: [fetches] },
  )
  expect(own.body.examined).toBe(0)
  expect((await backtest({ rules: [fetches] }, other.admin.key)).status).toBe(404)
})

test('a member may not ask, because the counts would show parameters of calls', async () => {
  const { status, body } = await backtest({ rules: [fetches] }, world.member.key)
  expect([status, body.error.code]).toEqual([403, 'insufficient_role'])
})

test.each(['runs:read', 'approvals:read', 'agents:read'])(
  'a key without `%s` may not ask, because counts and samples show what this scope protects',
  async (scope) => {
    const without = everyScope.filter((each) => each !== scope)
    const { secret } = await addKey(server.context, world.organizationId, world.admin.userId, without)
    const { status, body } = await backtest({ rules: [fetches] }, secret)
    expect([status, body.error]).toEqual([
      403,
      {
        code: 'missing_scope',
        message: expect.stringContaining(`\`${scope}\``),
        details: [{ path: scope, message: `needs the scope \`${scope}\`` }],
      },
    ])
  },
)

describe('a request that is not valid is refused', () => {
  const value = (length: number) => Array.from({ length }, (_, index) => `v${index}`)
  test.each([
    ['no rules', {}, 'rules'],
    [
      'a draft that could not be saved',
      { rules: [{ ...fetches, tools: ['mail_sendd'] }] },
      'rules.0.tools.0',
    ],
    ['a period that ends before it starts', { rules: [], since: '2026-02-01', until: '2026-01-01' }, 'until'],
    ['a time that is none', { rules: [], since: 'yesterday' }, 'since'],
    ['an unknown field', { rules: [], limit: 5 }, 'limit'],
    ['too many drafts', { rules: Array.from({ length: 1_001 }, () => fetches) }, 'rules'],
    [
      'too many values',
      {
        rules: Array.from({ length: 51 }, () => ({
          name: 'r',
          verdict: 'deny',
          params: [{ param: 'to', operator: 'in', value: value(1_000) }],
        })),
      },
      'rules',
    ],
  ])('%s', async (_, body, place) => {
    const answer = await backtest(body)
    expect(answer.status).toBe(422)
    expect(answer.body.error.details.map((each: { path: string }) => each.path)).toEqual([place])
  })
})

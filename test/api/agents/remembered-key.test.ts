import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { addKey } from '../fixtures.ts'
import { startTestServer, type TestServer } from '../server.ts'
import { Agent, agentWorld, type AgentWorld } from './agent.ts'

/*
 * If a key asks often, the service caches it instead of looking it up before each question (docs/decisions/0049).
 * Nobody may notice a difference.
 */

let server: TestServer
let world: AgentWorld
let agent: Agent
let keyId: string
beforeAll(async () => {
  server = await startTestServer()
})
beforeEach(async () => {
  world = await agentWorld(server)
  const key = await addKey(server.context, world.organizationId, world.member.userId, ['agents:authorize'])
  keyId = key.id
  agent = new Agent(server, key.secret)
})
afterAll(() => server.close())

const change = (values: object) =>
  server.context.db.updateTable('api_keys').set(values).where('id', '=', keyId).execute()
/** Asks until the key is cached. All these questions are allowed. */
const askOften = async () => {
  const answers = await Promise.all(Array.from({ length: 30 }, () => agent.ask('Read')))
  expect(new Set(answers.map(({ decision }) => decision))).toEqual(new Set(['allow']))
}
const entries = async (type: string): Promise<number> => {
  const { rows } = await server.context.pool.query(
    'select count(*)::int as n from audit_events where organization_id = $1 and event_type = $2',
    [world.organizationId, type],
  )
  return rows[0].n
}
const hook = (input: object) =>
  server.call(agent.key, 'POST', '/hooks/claude-code', {
    ...{ hook_event_name: 'PreToolUse', session_id: agent.session, tool_name: 'Read', tool_input: input },
  })

describe.each<[string, object, [number, string]]>([
  ['revoked', { revoked_at: new Date() }, [401, 'unauthenticated']],
  ['expired', { expires_at: new Date(Date.now() - 1) }, [401, 'unauthenticated']],
  ['given other scopes', { scopes: ['runs:read'] }, [403, 'missing_scope']],
])('%s between two of its questions', (_name, values, told) => {
  const said = ({ status, body }: { status: number; body: { error?: { code: string } } }) => [
    status,
    body.error?.code,
  ]

  test('the next question gets the error', async () => {
    await askOften()
    await change(values)
    expect(said(await agent.send(agent.question('Read')))).toEqual(told)
    expect(said(await hook({}))).toEqual(told)
    expect(await entries('agent_call.decided')).toBeLessThanOrEqual(32)
  })

  test('nor does it learn or store anything with a question that is not decided', async () => {
    await askOften()
    await change(values)
    expect(said(await agent.send({}))).toEqual(told)
    expect(said(await hook([]))).toEqual(told)
    expect(await entries('agent_call.unreadable')).toBe(0)
  })

  test('nor where the organization is at its limit', async () => {
    await askOften()
    await server.context.db
      .updateTable('organizations')
      .set({ quota_overrides: JSON.stringify({ authorize_per_minute: 1, requests_per_minute: 100_000 }) })
      .where('id', '=', world.organizationId)
      .execute()
    await change(values)
    for (let n = 0; n < 3; n += 1) expect(said(await agent.send(agent.question('Read')))).toEqual(told)
  })
})

test('no question is allowed before the key is looked up again', async () => {
  await askOften()
  await change({ revoked_at: new Date() })
  const answers = await Promise.all(Array.from({ length: 20 }, () => agent.send(agent.question('Read'))))
  expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 401))
})

test('may ask at once after it got the scope, or became valid again', async () => {
  await change({ scopes: ['runs:read'] })
  expect((await agent.send(agent.question('Read'))).status).toBe(403)
  await change({ scopes: ['agents:authorize'] })
  expect((await agent.ask('Read')).decision).toBe('allow')
  await change({ revoked_at: new Date() })
  expect((await agent.send(agent.question('Read'))).status).toBe(401)
  await change({ revoked_at: null })
  expect((await agent.ask('Read')).decision).toBe('allow')
})

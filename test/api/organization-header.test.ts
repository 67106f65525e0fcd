import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { Browser } from './browser.ts'
import { addOrganization, addPerson, sessionCookie } from './fixtures.ts'
import { startTestServer, type TestServer } from './server.ts'

/*
 * In a session, `X-Organization-Id` only asks for an organization: the header grants nothing, and reveals no
 * organization.
 */

let server: TestServer
let userId: string
let home: string
let foreign: string
beforeAll(async () => {
  server = await startTestServer()
  const one = await addOrganization(server.context)
  ;[home, userId] = [one.id, one.owner.userId]
  foreign = (await addOrganization(server.context)).id
})
afterAll(() => server.close())

async function send(method: string, path: string, organization: string, body?: unknown, key?: string) {
  const headers = {
    cookie: await sessionCookie(server.context, userId),
    'x-organization-id': organization,
    ...(key === undefined ? {} : { 'idempotency-key': key }),
  }
  return new Browser(server).send(method, path, body, headers)
}
const rowsOf = async (table: string): Promise<number> => {
  const { rows } = await server.context.pool.query(
    `select count(*)::int as n from ${table} where organization_id = $1`,
    [foreign],
  )
  return rows[0].n
}

describe('an organization that is not theirs and one that does not exist get the same answer', () => {
  test.each([
    ['GET', '/me', undefined, 200],
    ['POST', '/organizations', { name: 'Mine' }, 201],
    ['POST', '/invitations/accept', { token: 'nonsense-nonsense' }, 404],
    ['POST', '/authorize/sessions/end', { session_id: 'none' }, 404],
    ['GET', '/runs', undefined, 404],
    ['POST', '/workflows', { name: 'W', definition: { steps: [] } }, 404],
  ] as const)('%s %s', async (method, path, body, status) => {
    for (const organization of [foreign, 'org_bogus', '', 'x'.repeat(500)]) {
      const plain = await send(method, path, organization, body)
      const kept = await send(method, path, organization, body, `${path}-${organization.slice(0, 20)}`)
      expect([organization, plain.status, kept.status]).toEqual([organization, status, status])
      if (status === 404) expect(plain.body.error.code).toBe('not_found')
      else expect(plain.text).not.toContain(foreign)
    }
    expect(await rowsOf('idempotency_keys')).toBe(0)
  })

  test('and agents’ questions store nothing there', async () => {
    const question = {
      agent: { name: 'a', kind: 'hook' },
      session_id: 's',
      tool_name: 'Read',
      tool_input: {},
    }
    const before = await rowsOf('audit_events')
    const answer = await send('POST', '/authorize', foreign, question)
    expect(answer.status).toBe(200)
    await send('POST', '/authorize/observe', foreign, { session_id: 't', tool_name: 'Read', tool_input: {} })
    expect([await rowsOf('agent_sessions'), await rowsOf('audit_events')]).toEqual([0, before])
  })
})

test('an idempotency key belongs to the caller, whatever organization the request names', async () => {
  const first = await send('POST', '/organizations', home, { name: 'Once' }, 'same')
  const again = await send('POST', '/organizations', foreign, { name: 'Once' }, 'same')
  expect([again.status, again.text]).toEqual([201, first.text])
})

test('a person without any organization makes their first one with a key', async () => {
  const { userId: alone } = await addPerson(server.context, home, 'viewer')
  await server.context.pool.query('delete from memberships where user_id = $1', [alone])
  const cookie = await sessionCookie(server.context, alone)
  const answer = await new Browser(server).send(
    'POST',
    '/organizations',
    { name: 'First' },
    { cookie, 'idempotency-key': 'first' },
  )
  expect([answer.status, answer.body.name]).toEqual([201, 'First'])
})

import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { setConnection } from '../../src/governance/tools/connections.ts'
import { aDefinition, addOrganization } from './fixtures.ts'
import { startTestServer, type TestServer } from './server.ts'

/* The tools of an installation that strangers share: each organization has only those that the operator connected. */

let server: TestServer
beforeAll(async () => {
  server = await startTestServer({ env: { APP_ENV: 'staging', SMTP_URL: 'smtp://127.0.0.1:1' } })
})
afterAll(() => server?.close())

const tools = async (key: string, query = '') => {
  const { data } = (await server.call(key, 'GET', `/tools${query}`)).body
  const shown = data as {
    name: string
    connected: boolean
    needs_connection: boolean
    available: boolean
  }[]
  return Object.fromEntries(
    shown
      .filter(({ name }) => ['file_read', 'mail_send', 'memory_get', 'memory_set'].includes(name))
      .map((tool) => [
        tool.name,
        `${tool.needs_connection ? 'needs' : 'free'} ${tool.connected ? 'connected' : '-'} ${tool.available ? 'works' : '-'}`,
      ]),
  )
}
const memory = { memory_get: 'free connected works', memory_set: 'free connected works' }

test('the tools are shown for the organization in the request', async () => {
  const { users, organization_id: ours } = server.identities
  const { id, owner } = await addOrganization(server.context)
  const whole = { ...memory, file_read: 'needs connected works', mail_send: 'needs connected works' }
  expect(await tools(users.member.api_key)).toEqual(whole)
  expect(await tools(owner.key)).toEqual({ ...memory, file_read: 'needs - -', mail_send: 'needs - -' })
  const one = await server.call(owner.key, 'GET', '/tools/mail_send')
  expect(one.body).toMatchObject({
    available: false,
    unavailable_because: expect.stringContaining('npm run connect-installation'),
  })
  await setConnection(server.context, id, 'file_read', true)
  expect(await tools(owner.key)).toEqual({
    ...memory,
    file_read: 'needs connected works',
    mail_send: 'needs - -',
  })
  // If a person is a member of two organizations, the answer depends on the organization named in the request.
  await server.context.db
    .insertInto('memberships')
    .values({ organization_id: id, user_id: users.member.user_id, role: 'member' })
    .execute()
  expect((await tools(users.member.api_key, `?organization_id=${id}`))['mail_send']).toBe('needs - -')
  expect(await tools(users.member.api_key, `?organization_id=${ours}`)).toEqual(whole)
})

test('a saved workflow warns about steps that would fail', async () => {
  const { owner } = await addOrganization(server.context)
  const saved = await server.call(owner.key, 'POST', '/workflows', { name: 'w', definition: aDefinition })
  expect(saved.status).toBe(201)
  expect(saved.body.warnings.map((each: { path: string }) => each.path)).toEqual([
    'steps.0.tool',
    'steps.1.tool',
  ])
  const path = `/workflows/${saved.body.id}`
  expect((await server.call(owner.key, 'PUT', path, { definition: aDefinition })).body.warnings).toHaveLength(
    2,
  )
  expect((await server.call(owner.key, 'PUT', path, { name: 'v' })).body.warnings).toBeUndefined()
  expect((await server.call(owner.key, 'GET', path)).body.warnings).toBeUndefined()
  const here = await server.call(server.identities.users.member.api_key, 'POST', '/workflows', {
    name: 'w',
    definition: aDefinition,
  })
  expect(here.body.warnings).toBeUndefined()
})

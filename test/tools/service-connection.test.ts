import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { createToolServices } from '../../src/activities/tool-services.ts'
import type { ServiceConnection } from '../../src/tools/kit/executor.ts'
import { prefixes } from '../../src/api/app.ts'
import { UnsealError } from '../../src/governance/sealing/format.ts'
import { SecretsUnavailable } from '../../src/governance/sealing/secrets-backend.ts'
import { emulatorToken, startEmulator, type Emulator } from '../support/emulators.ts'
import { startTestServer, type TestServer } from '../api/server.ts'
import { until } from '../stack/until.ts'

let server: TestServer
let github: Emulator
beforeAll(async () => {
  ;[server, github] = await Promise.all([startTestServer(), startEmulator('github')])
})
beforeEach(() => server.context.db.deleteFrom('connections').execute())
afterAll(() => Promise.all([server?.close(), github?.close()]))

type Name = 'admin' | 'approver' | 'viewer'
const person = (name: Name) => server.identities.users[name]
const connect = async (name: Name, scope: string, token = emulatorToken): Promise<string> => {
  const body = { credential: { token, base_url: github.url }, scope }
  const answer = await server.call(person(name).api_key, 'POST', '/tools/github_get_issue/connect', body)
  expect(answer.status).toBe(201)
  return answer.body.id
}
const revoke = (name: Name, id: string) => server.call(person(name).api_key, 'DELETE', `/connections/${id}`)
const use = (name: Name, context = server.context): Promise<ServiceConnection<'github'>> => {
  const call = {
    organizationId: server.identities.organization_id,
    requester: { userId: person(name).user_id },
  }
  return createToolServices(context).connection(call, 'github_get_issue', 'github')
}
const tokenOf = async (name: Name) => (await use(name)).credential.token

describe('the connection of a call', () => {
  test('is the requester’s own, else the organization’s, and never another person’s', async () => {
    await connect('admin', 'organization', 'of-all')
    await connect('approver', 'personal', 'of-approver')
    expect(await Promise.all([tokenOf('approver'), tokenOf('admin'), tokenOf('viewer')])).toEqual([
      'of-approver',
      'of-all',
      'of-all',
    ])
  })

  test('is gone with its revocation, in every call after it', async () => {
    const id = await connect('approver', 'personal')
    expect(await tokenOf('approver')).toBe(emulatorToken)
    await revoke('approver', id)
    await expect(use('approver')).rejects.toMatchObject({
      code: 'tool_not_available',
      retryable: false,
      message: expect.stringContaining('POST /tools/github_get_issue/connect'),
    })
  })

  test('reaches its service and no other place', async () => {
    await connect('approver', 'personal')
    const { base, headers, fetchWithin } = await use('approver')
    const send = fetchWithin({ milliseconds: 60_000, bytes: 100_000 })
    expect(await (await send(`${base}/user`, { headers })).json()).toMatchObject({ login: 'admin' })
    await expect(send('https://api.github.com/user', { headers })).rejects.toMatchObject({
      problem: 'host_refused',
    })
  })

  test('that its service refuses expires: it shows so, and is not replaced by the organization’s', async () => {
    const id = await connect('approver', 'personal')
    await connect('admin', 'organization')
    const error = await (await use('approver')).expired()
    expect(error).toMatchObject({ code: 'connection_expired', retryable: false })
    const { body } = await server.call(person('approver').api_key, 'GET', '/connections')
    expect(body.data).toContainEqual(expect.objectContaining({ id, status: 'expired' }))
    await expect(use('approver')).rejects.toMatchObject({ code: 'connection_expired' })
    expect(await tokenOf('admin')).toBe(emulatorToken)
    await connect('approver', 'personal', 'anew')
    expect(await tokenOf('approver')).toBe('anew')
  })

  test('is retried later while the backend of secrets is away', async () => {
    await connect('approver', 'personal')
    const read = () => Promise.reject(new SecretsUnavailable('away'))
    const context = { ...server.context, secrets: { ...server.context.secrets, read } }
    await expect(use('approver', context)).rejects.toMatchObject({
      code: 'secrets_unavailable',
      retryable: true,
    })
  })

  test('does not open in a row of another organization, or of another connection', async () => {
    const id = await connect('approver', 'personal')
    const row = await server.context.db
      .selectFrom('connections')
      .selectAll()
      .where('id', '=', id)
      .executeTakeFirstOrThrow()
    const organizationId = server.identities.organization_id
    const read = (owner: { organizationId: string; connectionId: string }) =>
      server.context.secrets.read(owner, row)
    expect(await read({ organizationId, connectionId: id })).toContain(emulatorToken)
    for (const owner of [
      { organizationId: 'org_other', connectionId: id },
      { organizationId, connectionId: 'con_other' },
    ])
      await expect(read(owner)).rejects.toThrow(UnsealError)
  })

  test('was last used when a call took it', async () => {
    const id = await connect('approver', 'personal')
    await use('approver')
    const usedAt = () =>
      server.context.db
        .selectFrom('connections')
        .select('last_used_at')
        .where('id', '=', id)
        .executeTakeFirstOrThrow()
    await until('the use is noted', async () => (await usedAt()).last_used_at !== null)
  })
})

test.each(prefixes)(
  'the health of the database’s backend, below `%s`, is read by an admin alone',
  async (prefix) => {
    const path = `${prefix === '/' ? '' : prefix}/health/secrets`
    const answer = await server.call(person('admin').api_key, 'GET', path)
    expect(answer.body).toEqual({
      status: 'ok',
      backend: 'db',
      checks: { list_secrets: 'ok', get_secret: 'ok' },
    })
    const refused = await server.call(server.identities.users.member.api_key, 'GET', path)
    expect(refused.status).toBe(403)
  },
)

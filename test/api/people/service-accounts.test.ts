import { beforeEach, describe, expect, test } from '@jest/globals'
import { newId } from '../../../src/contract/ids.ts'
import { refuseScopesOfPeople } from '../../../src/governance/people/service-accounts.ts'
import { oneStep } from '../../governance/runs/engine-fixture.ts'
import { addOrganization, addPerson, requireFactors } from '../fixtures.ts'
import { useServer } from '../use-server.ts'
import type { Person } from '../access-matrix/place.ts'
import type { TestServer } from '../server.ts'

/* Service accounts: programs that have keys, and neither sign in nor vote. */

let server: TestServer
let id: string
let owner: Person
let admin: Person
useServer((started) => {
  server = started
})
beforeEach(async () => {
  ;({ id, owner } = await addOrganization(server.context))
  admin = await addPerson(server.context, id, 'admin')
})

const path = () => `/organizations/${id}/service-accounts`
const call = (key: string, method: string, to: string, body?: unknown) => server.call(key, method, to, body)
const create = async (body: object = {}) =>
  (await call(owner.key, 'POST', path(), { name: 'nightly', ...body })).body
const addKeyOf = (account: string, body: object = {}, by: Person = owner) =>
  call(by.key, 'POST', '/api-keys', {
    name: 'k',
    scopes: ['workflows:read', 'workflows:write', 'runs:read', 'runs:write'],
    organization_id: id,
    service_account: account,
    ...body,
  })
const run = (sql: string, values: unknown[]) => server.context.pool.query(sql, values)

describe('keys', () => {
  test('start runs as the account, and stay when the person who made them leaves', async () => {
    const second = await addPerson(server.context, id, 'owner')
    const account = await create()
    const { api_key: key, created_by } = (await addKeyOf(account.id, {}, second)).body
    expect(created_by).toBe(second.userId)
    expect((await call(owner.key, 'DELETE', `/organizations/${id}/members/${second.userId}`)).status).toBe(
      204,
    )
    const workflow = await call(key, 'POST', '/workflows', { name: 'W', definition: oneStep })
    expect(workflow.status).toBe(201)
    const started = await call(key, 'POST', `/workflows/${workflow.body.id}/execute?wait=0`, {})
    expect(
      started.body.requested_by ??
        (await call(key, 'GET', `/runs/${started.body.execution_id}`)).body.requested_by,
    ).toBe(account.id)
    const shown = (await call(admin.key, 'GET', `${path()}/${account.id}`)).body
    expect(shown).toMatchObject({ name: 'nightly', role: 'member', created_by: owner.userId, active_keys: 1 })
    expect(shown.last_used_at).not.toBeNull()
  })

  test('end in a year, unless the owner says otherwise', async () => {
    const account = await create()
    const ends = async (body: object) => (await addKeyOf(account.id, body)).body.expires_at
    const days = (Date.parse(await ends({})) - Date.now()) / 86_400_000
    expect(days).toBeCloseTo(365, 1)
    expect(await ends({ expires_at: null })).toBeNull()
  })

  test.each(['approvals:decide', 'tools:connect', 'api_keys:*', 'organizations:*'])(
    'cannot have `%s`',
    async (scope) => {
      const answer = await addKeyOf((await create()).id, { scopes: [scope] })
      expect([answer.status, answer.body.error.details[0].path]).toEqual([422, 'scopes'])
    },
  )

  test.each(['approvals:*', 'tools:*'])('cannot have `%s`, which contains such a scope', (scope) =>
    expect(() => refuseScopesOfPeople(['runs:read', scope])).toThrow(`cannot have \`${scope}\``),
  )

  test('need an owner, the role of the account, and an account of this organization', async () => {
    const account = await create({ role: 'viewer' })
    expect((await addKeyOf(account.id)).body.error.code).toBe('insufficient_role')
    expect((await addKeyOf(account.id, { scopes: ['runs:read'] }, admin)).body.error.code).toBe(
      'insufficient_role',
    )
    const elsewhere = await addOrganization(server.context)
    const other = await call(elsewhere.owner.key, 'POST', `/organizations/${elsewhere.id}/service-accounts`, {
      name: 'theirs',
    })
    expect((await addKeyOf(other.body.id, { scopes: ['runs:read'] })).status).toBe(422)
    expect((await addKeyOf(admin.userId, { scopes: ['runs:read'] })).status).toBe(422)
  })

  test('get more rights from any owner, and from no admin', async () => {
    const account = await create()
    const key = (await addKeyOf(account.id, { scopes: ['runs:read'] })).body.id
    const second = await addPerson(server.context, id, 'owner')
    const change = (by: Person, body: object) => call(by.key, 'PATCH', `/api-keys/${key}`, body)
    expect((await change(second, { scopes: ['runs:read', 'runs:write'], expires_at: null })).status).toBe(200)
    expect((await change(second, { scopes: ['approvals:decide'] })).status).toBe(422)
    expect((await change(admin, { scopes: ['runs:read'] })).status).toBe(404)
  })

  test('are backed by the second factor of the owner who made them', async () => {
    const account = await create()
    const { api_key: key } = (await addKeyOf(account.id)).body
    await requireFactors(server.context, id)
    expect((await call(key, 'GET', `/workflows?organization_id=${id}`)).body.error.code).toBe('mfa_required')
    await run('update api_keys set factor_confirmed_at = now() where user_id = $1', [account.id])
    expect((await call(key, 'GET', `/workflows?organization_id=${id}`)).status).toBe(200)
  })
})

describe('an account', () => {
  test('is no member in lists and routes of members', async () => {
    const account = await create()
    const { data } = (await call(owner.key, 'GET', `/organizations/${id}/members`)).body
    expect(data.map((each: { user_id: string }) => each.user_id)).not.toContain(account.id)
    const member = `/organizations/${id}/members/${account.id}`
    expect((await call(owner.key, 'PATCH', member, { role: 'admin' })).status).toBe(404)
    expect((await call(owner.key, 'DELETE', member)).status).toBe(404)
    const slack = { external_id: 'U012ABCDEF' }
    expect((await call(owner.key, 'PUT', `${member}/accounts/slack`, slack)).status).toBe(404)
    const invited = await call(owner.key, 'POST', `/organizations/${id}/invitations`, {
      email: account.email,
    })
    expect(invited.body.error.details).toMatchObject([{ path: 'email' }])
  })

  test('cannot sign in, whatever the sign-in library writes', async () => {
    const { id: account, email } = await create()
    const session = `insert into auth_sessions (id, token, user_id, expires_at) values ($1, $1, $2, now() + interval '1 day')`
    await expect(run(session, [newId('session'), account])).rejects.toThrow('cannot sign in')
    const password = `insert into auth_accounts (id, account_id, provider_id, user_id, password) values ($1, $2, 'credential', $2, 'x')`
    await expect(run(password, [newId('session'), account])).rejects.toThrow('cannot sign in')
    const factor = `insert into auth_two_factors (id, user_id, secret, backup_codes) values ($1, $2, 's', 'b')`
    await expect(run(factor, [newId('session'), account])).rejects.toThrow('cannot sign in')
    for (const change of [`email = 'a@acme.com'`, 'two_factor_enabled = true', 'email_verified = false'])
      await expect(run(`update users set ${change} where id = $1`, [account])).rejects.toThrow(
        'do not change',
      )
    const signIn = { email, password: 'a long password' }
    expect((await call('', 'POST', '/api/auth/sign-in/email', signIn)).status).toBeGreaterThanOrEqual(400)
  })

  test.each([`role = 'admin'`, `role = 'owner'`, `slack_account = 'U012ABCDEF', slack_linked_at = now()`])(
    'never gets: %s',
    async (change) => {
      const account = await create()
      await expect(run(`update memberships set ${change} where user_id = $1`, [account.id])).rejects.toThrow(
        'a service account is a viewer or member of one organization',
      )
    },
  )

  test('joins no other organization', async () => {
    const account = await create()
    const elsewhere = await addOrganization(server.context)
    await expect(
      run('insert into memberships (organization_id, user_id, role) values ($1, $2, $3)', [
        elsewhere.id,
        account.id,
        'member',
      ]),
    ).rejects.toThrow('of one organization')
  })

  test('has a name of its own, which is free again after its deletion; its keys end then', async () => {
    const account = await create()
    const taken = await call(owner.key, 'POST', path(), { name: 'nightly' })
    expect([taken.status, taken.body.error.details[0].path]).toEqual([422, 'name'])
    const { api_key: key } = (await addKeyOf(account.id)).body
    expect((await call(owner.key, 'DELETE', `${path()}/${account.id}`)).status).toBe(204)
    expect((await call(key, 'GET', `/workflows?organization_id=${id}`)).status).toBe(401)
    expect((await call(owner.key, 'GET', `${path()}/${account.id}`)).status).toBe(404)
    expect((await create()).name).toBe('nightly')
    const { events } = (
      await call(owner.key, 'GET', `/organizations/${id}/governance/audit?event_type=service_account.deleted`)
    ).body
    expect(events[0].metadata).toMatchObject({ account_id: account.id, name: 'nightly', revoked_keys: 1 })
  })
})

describe('who made the key', () => {
  test('does not decide what the account asks for', async () => {
    await call(owner.key, 'PATCH', `/organizations/${id}/governance`, { approvals_enabled: true })
    const rule = { name: 'hold all', verdict: 'require_approval', match_all: true }
    await call(owner.key, 'POST', `/organizations/${id}/rules`, rule)
    const account = await create()
    const { api_key: key } = (await addKeyOf(account.id)).body
    const workflow = await call(key, 'POST', '/workflows', { name: 'W', definition: oneStep })
    const asker = (await addKeyOf(account.id, { scopes: ['agents:authorize'] })).body.api_key
    const held = await call(asker, 'POST', '/authorize', {
      agent: { name: 'a', kind: 'sdk' },
      session_id: newId('session'),
      tool_name: 'Read',
      tool_input: { file_path: '/a' },
    })
    expect(held.body.decision).toBe('require_approval')
    const votes = async (by: Person) =>
      (await call(by.key, 'POST', `/approvals/${held.body.approval_id}/approve`, { comment: '' })).body
    expect((await votes(owner)).error.code).toBe('self_approval')
    expect((await votes(admin)).status).toBe('approved')
    await call(owner.key, 'PATCH', `/organizations/${id}/governance`, { approval_required_from: 'low' })
    const started = await call(key, 'POST', `/workflows/${workflow.body.id}/execute?wait=0`, {})
    const { rows } = await run('select authors from runs where id = $1', [started.body.execution_id])
    expect(rows[0]?.authors).toEqual(expect.arrayContaining([account.id, owner.userId]))
  })
})

import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import {
  changeApiKey,
  createApiKey,
  listApiKeys,
  removeApiKey,
} from '../../../src/governance/people/api-keys.ts'
import { authenticate, type Caller } from '../../../src/governance/access/identity.ts'
import type { BootstrapName } from '../../../src/governance/people/bootstrap.ts'
import { addKey } from '../../api/fixtures.ts'
import { auditOf, testContext, withPeople, type TestContext } from '../support.ts'

let running: TestContext
let caller: (name: BootstrapName) => Caller
beforeAll(async () => {
  running = await testContext()
  caller = (await withPeople(running.context)).caller
})
afterAll(() => running.close())

const create = (who: Caller, scopes: string[]) =>
  createApiKey(running.context, who, { name: 'k', scopes, expiresAt: null })
const opens = async (secret: string) =>
  (await authenticate(running.context.keys, `Bearer ${secret}`)) !== null
/** An owner whose key has more rights than any other key in these tests. */
const lofty = () => withScopes(caller('owner'), [...caller('owner').scopes, 'runs:*'])
/** The same person with a different key. */
async function withScopes(who: Caller, scopes: readonly string[], expires_at?: Date): Promise<Caller> {
  const extra = expires_at === undefined ? {} : { expires_at }
  const { id } = await addKey(running.context, who.organizationId, who.userId, scopes, extra)
  return { ...who, keyId: id, scopes }
}

describe('API keys', () => {
  test('a new key works, is shown once and audited without its secret', async () => {
    const key = await create(caller('member'), ['runs:write', 'runs:read', 'runs:read'])
    expect(await opens(key.secret)).toBe(true)
    expect(key).toMatchObject({
      scopes: ['runs:read', 'runs:write'],
      active: true,
      last4: key.secret.slice(-4),
    })
    const { data } = await listApiKeys(running.context.db, caller('member'), { limit: 200, cursor: null })
    expect(JSON.stringify(data)).not.toContain(key.secret)
    const [entry] = await auditOf(running.context, key.organization_id, 1)
    expect(entry).toMatchObject({ event_type: 'api_key.created', metadata: { key_id: key.id } })
    expect(entry?.canonical).not.toContain(key.secret)
  })

  test('cannot be broader than the key that makes it, even for an owner', async () => {
    const narrow = await withScopes(caller('owner'), ['api_keys:*', 'runs:*'])
    await expect(create(narrow, ['runs:read', 'rules:write', 'audit:read'])).rejects.toMatchObject({
      code: 'missing_scope',
      details: [{ path: 'rules:write' }, { path: 'audit:read' }],
    })
    expect(await create(narrow, ['runs:read', 'runs:*'])).toMatchObject({ scopes: ['runs:*', 'runs:read'] })
  })

  test('cannot have scopes that the maker’s role cannot use, whatever the maker’s key allows', async () => {
    const lofty = await withScopes(caller('member'), ['rules:*', 'runs:*', 'governance:*'])
    await expect(create(lofty, ['rules:write'])).rejects.toMatchObject({ code: 'insufficient_role' })
    await expect(create(lofty, ['rules:*'])).rejects.toMatchObject({ code: 'insufficient_role' })
    await create(lofty, ['runs:*', 'rules:read'])
  })

  test('can neither be widened nor, if broader, be changed or restored by a narrower key', async () => {
    const owner = caller('owner')
    const broad = await create(owner, ['rules:write', 'runs:read'])
    const narrow = await withScopes(owner, ['api_keys:*', 'runs:read'])
    const refused = { code: 'missing_scope', details: [{ path: 'rules:write' }] }
    const change = (body: Parameters<typeof changeApiKey>[3]) =>
      changeApiKey(running.context, narrow, broad.id, body)
    await expect(change({ name: 'mine' })).rejects.toMatchObject(refused)
    await expect(change({ expiresAt: null })).rejects.toMatchObject(refused)
    await expect(change({ active: false, name: 'mine' })).rejects.toMatchObject(refused)
    expect(await change({ active: false })).toMatchObject({ active: false })
    expect(await opens(broad.secret)).toBe(false)
    await expect(change({ active: true })).rejects.toMatchObject(refused)
    expect(await opens(broad.secret)).toBe(false)
    expect(await change({ active: true, scopes: ['runs:read'] })).toMatchObject({
      active: true,
      scopes: ['runs:read'],
    })
    expect(await opens(broad.secret)).toBe(true)
  })

  test('cannot outlast the key that makes or changes it', async () => {
    const soon = new Date(Date.now() + 3_600_000)
    const later = new Date(soon.getTime() + 1)
    const member = caller('member')
    const ending = await withScopes(member, ['api_keys:*', 'runs:read'], soon)
    const make = (expiresAt: Date | null) =>
      createApiKey(running.context, ending, { name: 'k', scopes: ['runs:read'], expiresAt })
    const refused = { code: 'insufficient_role', details: [{ path: 'expires_at' }] }
    for (const each of [null, later]) {
      await expect(make(each)).rejects.toMatchObject(refused)
      const itself = changeApiKey(running.context, ending, ending.keyId ?? '', { expiresAt: each })
      await expect(itself).rejects.toMatchObject(refused)
    }
    expect((await make(soon)).expires_at).toBe(soon.toISOString())
    const lasting = await create(member, ['api_keys:*'])
    const change = (body: Parameters<typeof changeApiKey>[3]) =>
      changeApiKey(running.context, ending, lasting.id, body)
    await expect(change({ scopes: ['api_keys:*', 'runs:read'] })).rejects.toMatchObject(refused)
    expect(await change({ scopes: ['api_keys:*', 'runs:read'], expiresAt: soon })).toMatchObject({
      expires_at: soon.toISOString(),
    })
    await change({ active: false })
    expect(await change({ active: true })).toMatchObject({ active: true })
    const eternal = await create(member, ['api_keys:*'])
    await change({ active: false })
    await changeApiKey(running.context, ending, eternal.id, { active: false })
    const back = changeApiKey(running.context, ending, eternal.id, { active: true })
    await expect(back).rejects.toMatchObject(refused)
  })

  test('of a session may have a whole area that its role can use', async () => {
    const { context } = running
    const session = async (name: BootstrapName): Promise<Caller> => {
      const who = caller(name)
      const id = crypto.randomUUID()
      const values = [id, id, who.userId, new Date(Date.now() + 60_000)]
      await context.pool.query(
        'insert into auth_sessions (id, token, user_id, expires_at) values ($1, $2, $3, $4)',
        values,
      )
      return { ...who, keyId: null, sessionId: id }
    }
    expect(await create(await session('owner'), ['runs:*', 'rules:*'])).toMatchObject({
      scopes: ['rules:*', 'runs:*'],
    })
    await expect(create(await session('viewer'), ['runs:*'])).rejects.toMatchObject({
      code: 'insufficient_role',
    })
  })

  test('revoking and restoring are different audit events', async () => {
    const member = caller('member')
    const key = await create(member, ['runs:read'])
    await changeApiKey(running.context, member, key.id, { active: false })
    await changeApiKey(running.context, member, key.id, { active: true })
    await changeApiKey(running.context, member, key.id, { name: 'other' })
    const entries = await auditOf(running.context, member.organizationId, 3)
    expect(entries.map((entry) => entry.event_type)).toEqual([
      'api_key.revoked',
      'api_key.reactivated',
      'api_key.updated',
    ])
  })

  test('a deleted key stays deleted', async () => {
    const member = caller('member')
    const key = await create(member, ['runs:read'])
    await removeApiKey(running.context, member, key.id)
    for (const change of [{ active: true }, { name: 'other' }])
      await expect(changeApiKey(running.context, member, key.id, change)).rejects.toMatchObject({
        code: 'conflict',
      })
    // A DELETE may be repeated.
    await removeApiKey(running.context, member, key.id)
    expect(await opens(key.secret)).toBe(false)
  })

  test('of others are visible only to an owner', async () => {
    const key = await create(caller('member'), ['runs:read'])
    const listed = async (name: BootstrapName) =>
      (await listApiKeys(running.context.db, caller(name), { limit: 200, cursor: null })).data.map(
        ({ id }) => id,
      )
    expect(await listed('owner')).toContain(key.id)
    expect(await listed('admin')).not.toContain(key.id)
    await expect(removeApiKey(running.context, caller('admin'), key.id)).rejects.toMatchObject({
      code: 'not_found',
    })
    expect(await opens(key.secret)).toBe(true)
    await removeApiKey(running.context, caller('owner'), key.id)
    expect(await opens(key.secret)).toBe(false)
  })

  test.each<[string, Parameters<typeof changeApiKey>[3], string[]]>([
    ['reactivated', { active: true }, ['active']],
    ['reactivated while narrowed', { active: true, scopes: ['runs:read'] }, ['active']],
    ['widened', { scopes: ['runs:read', 'rules:write'] }, ['scopes.rules:write']],
    ['widened to a whole area', { scopes: ['runs:*'] }, ['scopes.runs:*']],
    ['extended', { expiresAt: new Date('2998-01-02') }, ['expires_at']],
    ['made to last for ever', { expiresAt: null }, ['expires_at']],
    ['given all at once', { active: true, scopes: ['rules:write'], expiresAt: null }, ['active', 'scopes.rules:write', 'expires_at']], // prettier-ignore
  ])('of another person cannot be %s by an owner', async (_, change, paths) => {
    const { userId, organizationId } = caller('member')
    const key = await addKey(running.context, organizationId, userId, ['runs:read', 'runs:write'], {
      expires_at: new Date('2998-01-01'),
    })
    await changeApiKey(running.context, caller('member'), key.id, { active: false })
    await expect(changeApiKey(running.context, await lofty(), key.id, change)).rejects.toMatchObject({
      code: 'insufficient_role',
      details: paths.map((path) => ({ path })),
    })
    expect(await opens(key.secret)).toBe(false)
    await changeApiKey(running.context, caller('member'), key.id, { active: true })
    expect(await opens(key.secret)).toBe(true)
  })

  test('of another person can be renamed, narrowed, shortened and revoked by an owner', async () => {
    const { userId, organizationId } = caller('member')
    const key = await addKey(running.context, organizationId, userId, ['runs:*', 'tools:read'])
    const change = (body: Parameters<typeof changeApiKey>[3]) =>
      lofty().then((who) => changeApiKey(running.context, who, key.id, body))
    // The key was active before, so `active: true` adds no right.
    await change({ name: 'theirs', active: true })
    const end = new Date('2998-01-01')
    expect(await change({ scopes: ['runs:read'], expiresAt: end })).toMatchObject({
      name: 'theirs',
      scopes: ['runs:read'],
      expires_at: end.toISOString(),
    })
    expect(await change({ expiresAt: end })).toMatchObject({ active: true })
    expect(await change({ active: false, expiresAt: new Date('2997-01-01') })).toMatchObject({
      active: false,
    })
  })

  test('an expired one is not active', async () => {
    const { userId, organizationId } = caller('viewer')
    const past = await addKey(running.context, organizationId, userId, [], { expires_at: new Date(1) })
    const { data } = await listApiKeys(running.context.db, caller('viewer'), { limit: 200, cursor: null })
    expect(data.find(({ id }) => id === past.id)).toMatchObject({ active: false, revoked_at: null })
  })

  test('a change cannot set an expiry in the past, but an expired key keeps its own', async () => {
    const { userId, organizationId } = caller('member')
    const before = new Date(1)
    const key = await addKey(running.context, organizationId, userId, ['runs:read'], { expires_at: before })
    const change = (body: Parameters<typeof changeApiKey>[3]) =>
      lofty().then((who) => changeApiKey(running.context, who, key.id, body))
    expect(await change({ name: 'old', expiresAt: before })).toMatchObject({ name: 'old', active: false })
    await expect(change({ expiresAt: new Date(0) })).rejects.toMatchObject({
      code: 'validation_error',
      details: [{ path: 'expires_at' }],
    })
  })
})

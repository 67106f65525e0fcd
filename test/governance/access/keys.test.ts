import { crc32 } from 'node:zlib'
import { scryptSync } from 'node:crypto'
import { describe, expect, test, afterAll, beforeAll, jest } from '@jest/globals'
import fc from 'fast-check'
import {
  hashApiKey,
  isApiKey,
  newApiKey,
  authenticate,
  recall,
  roleIn,
  type Caller,
} from '../../../src/governance/access/identity.ts'
import {
  covers,
  hasRole,
  isScope,
  roleOfScope,
  scopes,
  scopesOfRole,
} from '../../../src/governance/access/scopes.ts'
import { addKey } from '../../api/fixtures.ts'
import { planLimits } from '../../../src/contract/plan-limits.ts'
import { testContext, withPeople, type TestContext, auditOf } from '../support.ts'
import { changeApiKey, createApiKey, listApiKeys } from '../../../src/governance/people/api-keys.ts'
import {
  type BootstrapName,
  bootstrapIdentities,
  bootstrapRoles,
  createOwner,
  hashPassword,
  newPassword,
} from '../../../src/governance/people/bootstrap.ts'
import type { Context } from '../../../src/governance/context.ts'

let running: TestContext
let context: Context
let people: Awaited<ReturnType<typeof withPeople>>
beforeAll(async () => {
  running = await testContext()
  context = running.context
  people = await withPeople(context)
})
afterAll(() => running.close())

const caller = (name: BootstrapName): Caller => people.caller(name)
const header = (key: string) => `Bearer ${key}`
const identify = (secret: string) => authenticate(context.keys, header(secret))
/** A new key of a person. */
const keyOf = (name: BootstrapName, scopes: readonly string[] = [], extra: { expires_at?: Date } = {}) =>
  addKey(context, caller(name).organizationId, caller(name).userId, scopes, extra)
const setRevoked = (id: string, revoked_at: Date | null = new Date()) =>
  context.db.updateTable('api_keys').set({ revoked_at }).where('id', '=', id).execute()

const removeApiKey = (by: Caller, id: string) =>
  changeApiKey(context, by, id, { active: false, isDeletion: true })

describe('an API key', () => {
  test('has the published form and a checksum', () => {
    const { secret, hash, last4 } = newApiKey()
    expect(secret).toMatch(/^csk_live_[0-9A-Za-z]{38}$/)
    expect(isApiKey(secret)).toBe(true)
    expect(hash).toBe(hashApiKey(secret))
    expect(hash).toMatch(/^[0-9a-f]{64}$/)
    expect(secret.endsWith(last4)).toBe(true)
  })

  test('ends with the CRC32 of the rest in base62', () => {
    const { secret } = newApiKey()
    const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
    const number = secret
      .slice(-6)
      .split('')
      .reduce((sum, digit) => sum * 62 + alphabet.indexOf(digit), 0)
    expect(number).toBe(crc32(secret.slice(0, -6)))
  })

  test('with any one character changed is invalid', () => {
    const { secret } = newApiKey()
    const changed = fc
      .tuple(
        fc.integer({ min: 0, max: secret.length - 1 }),
        fc.constantFrom('a', 'Z', '0', '9', '_', '-', 'é', ' '),
      )
      .map(([at, char]) => secret.slice(0, at) + char + secret.slice(at + 1))
      .filter((text) => text !== secret)
    fc.assert(fc.property(changed, (text) => !isApiKey(text)))
  })

  test('text of another form is no key', () => {
    const { secret } = newApiKey()
    fc.assert(
      fc.property(fc.string(), (text) => !isApiKey(text) && !isApiKey(secret + text.slice(0, 3) + '\n')),
    )
  })
})

describe('scopes', () => {
  test.each([
    [['runs:read'], 'runs:read', true],
    [['runs:*'], 'runs:read', true],
    [['runs:*'], 'runs:*', true],
    [['runs:read', 'runs:write'], 'runs:*', false],
    [['runs:read'], 'runs:write', false],
    [['run:*'], 'runs:read', false],
    [['*'], 'runs:read', false],
    [[], 'runs:read', false],
  ])('%j covers %s: %p', (held, wanted, expected) => {
    expect(covers(held, wanted)).toBe(expected)
  })

  test.each([
    ['runs:read', true],
    ['runs:*', true],
    ['secrets:*', true],
    ['secrets:list', false],
    ['nothing:*', false],
    ['constructor', false],
    ['*', false],
  ])('%s is a scope: %p', (text, expected) => {
    expect(isScope(text)).toBe(expected)
  })

  test('a whole area takes the role of its most demanding scope', () => {
    expect(roleOfScope('runs:*')).toBe('member')
    expect(roleOfScope('governance:*')).toBe('owner')
    expect(roleOfScope('runs:read')).toBe('viewer')
  })

  test('a role has the scopes of every role below it', () => {
    for (const [low, high] of [
      ['viewer', 'member'],
      ['member', 'admin'],
      ['admin', 'owner'],
    ] as const) {
      expect(hasRole(high, low)).toBe(true)
      expect(hasRole(low, high)).toBe(false)
      expect(scopesOfRole(high)).toEqual(expect.arrayContaining(scopesOfRole(low)))
    }
    expect(scopesOfRole('owner')).toEqual(Object.keys(scopes))
    expect(scopesOfRole('viewer')).not.toContain('agents:authorize')
  })
})

describe('authenticate', () => {
  test('returns the user, organization, key and scopes', async () => {
    const { agent_key: agentKey, users, organization_id: organizationId } = people.identities
    expect(await authenticate(context.keys, header(agentKey))).toEqual({
      user: { id: users.member.user_id, email: users.member.email, name: 'member' },
      userId: users.member.user_id,
      sessionId: null,
      boundTo: null,
      wanted: null,
      organizationId,
      charged: { holderId: organizationId, limits: planLimits.enterprise },
      keyName: 'agents',
      keyMadeBy: null,
      keyId: expect.stringMatching(/^key_/),
      scopes: ['agents:authorize'],
    })
  })

  test.each([
    ['no header', () => undefined],
    ['another scheme', (key: string) => `Basic ${key}`],
    ['a bare key', (key: string) => key],
    ['a key that was never made', () => header(newApiKey().secret)],
    ['two keys', (key: string) => `Bearer ${key} ${key}`],
  ])('%s authenticates nobody', async (_, make) => {
    expect(await authenticate(context.keys, make(people.identities.agent_key))).toBeNull()
  })

  test('concurrent requests are each answered with their own key', async () => {
    const keys = await Promise.all([1, 2, 3].map(() => keyOf('member')))
    const sent = [...keys, { id: null, secret: newApiKey().secret }, ...keys.slice(0, 1)]
    const answers = await Promise.all(sent.map(({ secret }) => identify(secret)))
    expect(answers.map((identity) => identity?.keyId ?? null)).toEqual(sent.map(({ id }) => id))
  })

  test('a revoked or expired key authenticates nobody, in any process, at once', async () => {
    const past = await keyOf('member', [], { expires_at: new Date(Date.now() - 1000) })
    expect(await identify(past.secret)).toBeNull()

    const key = await keyOf('member')
    const other = running.another()
    expect(await authenticate(other.keys, header(key.secret))).not.toBeNull()
    await setRevoked(key.id)
    expect(await authenticate(other.keys, header(key.secret))).toBeNull()
  })

  test('records the use of a key at most once a minute', async () => {
    const key = await keyOf('member')
    const lastUse = async (): Promise<Date | null> => {
      const row = await context.db
        .selectFrom('api_keys')
        .select('last_used_at')
        .where('id', '=', key.id)
        .executeTakeFirstOrThrow()
      return row.last_used_at
    }
    await identify(key.secret)
    let first: Date | null = null
    while (first === null) first = await lastUse()
    for (let call = 0; call < 5; call += 1) await identify(key.secret)
    expect(await lastUse()).toEqual(first)
  })
})

test('a person has the role of the membership, and none without one', async () => {
  const { userId, organizationId } = caller('approver')
  expect(await roleIn(context.db, userId, organizationId)).toBe('admin')
  expect(await roleIn(context.db, userId, 'org_x')).toBeNull()
})

describe('recall', () => {
  test('looks up the first twenty requests of a second, then remembers the key until the second is over', async () => {
    const key = await keyOf('member')
    const ask = () => recall(context.keys, header(key.secret))
    const now = jest.spyOn(performance, 'now')
    try {
      now.mockReturnValue(1_000)
      for (let n = 0; n < 20; n += 1) expect(await ask()).toMatchObject({ isRemembered: false })
      await setRevoked(key.id)
      now.mockReturnValue(1_999)
      expect(await ask()).toMatchObject({ identity: { keyId: key.id }, isRemembered: true })
      now.mockReturnValue(2_000)
      expect(await ask()).toBeNull()
    } finally {
      now.mockRestore()
    }
  })

  test('a key that asks seldom is always looked up', async () => {
    const key = await keyOf('member')
    expect(await recall(context.keys, header(key.secret))).not.toBeNull()
    await setRevoked(key.id)
    expect(await recall(context.keys, header(key.secret))).toBeNull()
  })

  test('an invalid key is never remembered', async () => {
    const key = await keyOf('member')
    await setRevoked(key.id)
    for (let n = 0; n < 25; n += 1) expect(await recall(context.keys, header(key.secret))).toBeNull()
    await setRevoked(key.id, null)
    expect(await recall(context.keys, header(key.secret))).toMatchObject({ isRemembered: false })
  })
})

const create = (who: Caller, scopes: string[]) =>
  createApiKey(context, who, { name: 'k', scopes, expiresAt: null })
const opens = async (secret: string) => (await identify(secret)) !== null
type Change = Parameters<typeof changeApiKey>[3]
const listed = async (name: BootstrapName) =>
  (await listApiKeys(context, caller(name), { limit: 200, cursor: null })).data
const refusal = (code: string, ...paths: string[]) => ({ code, details: paths.map((path) => ({ path })) })
/** An owner whose key has more rights than any other key in these tests. */
const lofty = () => withScopes(caller('owner'), [...caller('owner').scopes, 'runs:*'])
/** The same person with a different key. */
async function withScopes(who: Caller, scopes: readonly string[], expires_at?: Date): Promise<Caller> {
  const extra = expires_at === undefined ? {} : { expires_at }
  const { id } = await addKey(context, who.organizationId, who.userId, scopes, extra)
  return { ...who, keyId: id, scopes }
}

describe('API keys', () => {
  test('a new key works, is shown once and audited without its secret', async () => {
    const key = await create(caller('member'), ['runs:write', 'runs:read', 'runs:read'])
    expect(await opens(key.secret)).toBe(true)
    const scopes = ['runs:read', 'runs:write']
    expect(key).toMatchObject({ scopes, active: true, last4: key.secret.slice(-4) })
    expect(JSON.stringify(await listed('member'))).not.toContain(key.secret)
    const [entry] = await auditOf(context, key.organization_id, 1)
    expect(entry).toMatchObject({ event_type: 'api_key.created', metadata: { key_id: key.id } })
    expect(entry?.canonical).not.toContain(key.secret)
  })

  test('cannot be broader than the key that makes it, even for an owner', async () => {
    const narrow = await withScopes(caller('owner'), ['api_keys:*', 'runs:*'])
    await expect(create(narrow, ['runs:read', 'rules:write', 'audit:read'])).rejects.toMatchObject(
      refusal('missing_scope', 'rules:write', 'audit:read'),
    )
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
    const refused = refusal('missing_scope', 'rules:write')
    const change = (body: Change) => changeApiKey(context, narrow, broad.id, body)
    await expect(change({ name: 'mine' })).rejects.toMatchObject(refused)
    await expect(change({ expiresAt: null })).rejects.toMatchObject(refused)
    await expect(change({ active: false, name: 'mine' })).rejects.toMatchObject(refused)
    expect(await change({ active: false })).toMatchObject({ active: false })
    expect(await opens(broad.secret)).toBe(false)
    await expect(change({ active: true })).rejects.toMatchObject(refused)
    expect(await opens(broad.secret)).toBe(false)
    const restored = { active: true, scopes: ['runs:read'] }
    expect(await change(restored)).toMatchObject(restored)
    expect(await opens(broad.secret)).toBe(true)
  })

  test('cannot outlast the key that makes or changes it', async () => {
    const soon = new Date(Date.now() + 3_600_000)
    const later = new Date(soon.getTime() + 1)
    const member = caller('member')
    const ending = await withScopes(member, ['api_keys:*', 'runs:read'], soon)
    const make = (expiresAt: Date | null) =>
      createApiKey(context, ending, { name: 'k', scopes: ['runs:read'], expiresAt })
    const refused = refusal('insufficient_role', 'expires_at')
    for (const each of [null, later]) {
      await expect(make(each)).rejects.toMatchObject(refused)
      const itself = changeApiKey(context, ending, ending.keyId ?? '', { expiresAt: each })
      await expect(itself).rejects.toMatchObject(refused)
    }
    expect((await make(soon)).expires_at).toBe(soon.toISOString())
    const lasting = await create(member, ['api_keys:*'])
    const change = (body: Change) => changeApiKey(context, ending, lasting.id, body)
    await expect(change({ scopes: ['api_keys:*', 'runs:read'] })).rejects.toMatchObject(refused)
    const ends = await change({ scopes: ['api_keys:*', 'runs:read'], expiresAt: soon })
    expect(ends.expires_at).toBe(soon.toISOString())
    await change({ active: false })
    expect(await change({ active: true })).toMatchObject({ active: true })
    const eternal = await create(member, ['api_keys:*'])
    await change({ active: false })
    await changeApiKey(context, ending, eternal.id, { active: false })
    const back = changeApiKey(context, ending, eternal.id, { active: true })
    await expect(back).rejects.toMatchObject(refused)
  })

  test('of a session may have a whole area that its role can use', async () => {
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
    const { scopes } = await create(await session('owner'), ['runs:*', 'rules:*'])
    expect(scopes).toEqual(['rules:*', 'runs:*'])
    const refused = { code: 'insufficient_role' }
    await expect(create(await session('viewer'), ['runs:*'])).rejects.toMatchObject(refused)
  })

  test('revoking and restoring are different audit events', async () => {
    const member = caller('member')
    const key = await create(member, ['runs:read'])
    await changeApiKey(context, member, key.id, { active: false })
    await changeApiKey(context, member, key.id, { active: true })
    await changeApiKey(context, member, key.id, { name: 'other' })
    const entries = await auditOf(context, member.organizationId, 3)
    const types = entries.map((entry) => entry.event_type)
    expect(types).toEqual(['api_key.revoked', 'api_key.reactivated', 'api_key.updated'])
  })

  test('a deleted key stays deleted', async () => {
    const member = caller('member')
    const key = await create(member, ['runs:read'])
    await removeApiKey(member, key.id)
    const conflict = { code: 'conflict' }
    for (const change of [{ active: true }, { name: 'other' }])
      await expect(changeApiKey(context, member, key.id, change)).rejects.toMatchObject(conflict)
    // A DELETE may be repeated.
    await removeApiKey(member, key.id)
    expect(await opens(key.secret)).toBe(false)
  })

  test('of others are visible only to an owner', async () => {
    const key = await create(caller('member'), ['runs:read'])
    const ids = async (name: BootstrapName) => (await listed(name)).map(({ id }) => id)
    expect(await ids('owner')).toContain(key.id)
    expect(await ids('admin')).not.toContain(key.id)
    const removed = removeApiKey(caller('admin'), key.id)
    await expect(removed).rejects.toMatchObject({ code: 'not_found' })
    expect(await opens(key.secret)).toBe(true)
    await removeApiKey(caller('owner'), key.id)
    expect(await opens(key.secret)).toBe(false)
  })

  test.each<[string, Change, string[]]>([
    ['reactivated', { active: true }, ['active']],
    ['reactivated while narrowed', { active: true, scopes: ['runs:read'] }, ['active']],
    ['widened', { scopes: ['runs:read', 'rules:write'] }, ['scopes.rules:write']],
    ['widened to a whole area', { scopes: ['runs:*'] }, ['scopes.runs:*']],
    ['extended', { expiresAt: new Date('2998-01-02') }, ['expires_at']],
    ['made to last for ever', { expiresAt: null }, ['expires_at']],
    ['given all at once', { active: true, scopes: ['rules:write'], expiresAt: null }, ['active', 'scopes.rules:write', 'expires_at']], // prettier-ignore
  ])('of another person cannot be %s by an owner', async (_, change, paths) => {
    const end = { expires_at: new Date('2998-01-01') }
    const key = await keyOf('member', ['runs:read', 'runs:write'], end)
    await changeApiKey(context, caller('member'), key.id, { active: false })
    await expect(changeApiKey(context, await lofty(), key.id, change)).rejects.toMatchObject(
      refusal('insufficient_role', ...paths),
    )
    expect(await opens(key.secret)).toBe(false)
    await changeApiKey(context, caller('member'), key.id, { active: true })
    expect(await opens(key.secret)).toBe(true)
  })

  test('of another person can be renamed, narrowed, shortened and revoked by an owner', async () => {
    const key = await keyOf('member', ['runs:*', 'tools:read'])
    const change = (body: Change) => lofty().then((who) => changeApiKey(context, who, key.id, body))
    // The key was active before, so `active: true` adds no right.
    await change({ name: 'theirs', active: true })
    const end = new Date('2998-01-01')
    const narrowed = await change({ scopes: ['runs:read'], expiresAt: end })
    const scopes = ['runs:read']
    expect(narrowed).toMatchObject({ name: 'theirs', scopes, expires_at: end.toISOString() })
    expect(await change({ expiresAt: end })).toMatchObject({ active: true })
    const revoked = await change({ active: false, expiresAt: new Date('2997-01-01') })
    expect(revoked).toMatchObject({ active: false })
  })

  test('an expired one is not active', async () => {
    const past = await keyOf('viewer', [], { expires_at: new Date(1) })
    const shown = (await listed('viewer')).find(({ id }) => id === past.id)
    expect(shown).toMatchObject({ active: false, revoked_at: null })
  })

  test('a change cannot set an expiry in the past, but an expired key keeps its own', async () => {
    const before = new Date(1)
    const key = await keyOf('member', ['runs:read'], { expires_at: before })
    const change = (body: Change) => lofty().then((who) => changeApiKey(context, who, key.id, body))
    expect(await change({ name: 'old', expiresAt: before })).toMatchObject({ name: 'old', active: false })
    await expect(change({ expiresAt: new Date(0) })).rejects.toMatchObject(
      refusal('validation_error', 'expires_at'),
    )
  })
})

/** Contexts with a database in which nobody has started yet. */
const fresh = async (work: (made: TestContext) => Promise<void>) => {
  const made = await testContext()
  try {
    await work(made)
  } finally {
    await made.close()
  }
}

test('the first start makes the people once, with their keys, and no secret gets into the audit log', () =>
  fresh(async ({ context, another }) => {
    const count = async (table: string) =>
      (await context.pool.query(`select count(*)::int as n from ${table}`)).rows[0].n
    const full = new Error('the disk is full')
    // If the secrets cannot be saved, nobody is made.
    await expect(bootstrapIdentities(context, () => Promise.reject(full))).rejects.toBe(full)
    expect(await count('users')).toBe(0)
    const saved: unknown[] = []
    const save = async (identities: unknown) => void saved.push(identities)
    const both = await Promise.all([context, another()].map((each) => bootstrapIdentities(each, save)))
    const made = both.find((each) => each !== null)
    if (!made) throw new Error('nothing was made')
    expect(both.filter((each) => each !== null)).toEqual(saved)
    expect(await bootstrapIdentities(context)).toBeNull()
    expect(await count('organizations')).toBe(1)

    for (const name of Object.keys(bootstrapRoles) as BootstrapName[]) {
      const { user_id: userId, api_key: key, password } = made.users[name]
      const identity = await authenticate(context.keys, header(key))
      expect(identity).toMatchObject({ user: { id: userId }, organizationId: made.organization_id })
      expect(identity?.scopes).toEqual(scopesOfRole(bootstrapRoles[name]))
      expect(await roleIn(context.db, userId, made.organization_id)).toBe(bootstrapRoles[name])
      expect(password.length).toBeGreaterThanOrEqual(20)
    }
    const agent = await authenticate(context.keys, header(made.agent_key))
    expect(agent).toMatchObject({ user: { id: made.users.member.user_id }, scopes: ['agents:authorize'] })
    const organization = await context.db.selectFrom('organizations').selectAll().executeTakeFirstOrThrow()
    expect(organization).toMatchObject({ id: made.organization_id, plan: 'enterprise', personal: false })

    const rows = await context.db.selectFrom('audit_events').selectAll().orderBy('seq').execute()
    expect(rows[0]).toMatchObject({ seq: 1, event_type: 'organization.created' })
    expect(rows.slice(1).map((row) => row.event_type)).toEqual(Array(6).fill('api_key.created'))
    const text = rows.map((row) => row.canonical).join()
    for (const { api_key: key, password } of Object.values(made.users))
      for (const secret of [key, password]) expect(text).not.toContain(secret)
  }))

test('`createOwner` makes the first organization once, with a working key, and not once there are members', () =>
  fresh(async ({ context }) => {
    const request = { email: 'ada@acme.test', organizationName: 'Acme' }
    const both = await Promise.allSettled([createOwner(context, request), createOwner(context, request)])
    const owners = both.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []))
    expect(owners).toHaveLength(1)
    const [owner] = owners
    const identity = await authenticate(context.keys, header(owner?.api_key ?? ''))
    expect(identity).toMatchObject({ organizationId: owner?.organization_id, user: { email: request.email } })
    const [organization] = await context.db.selectFrom('organizations').select('name').execute()
    expect(organization?.name).toBe('Acme')
    await expect(createOwner(context, request)).rejects.toMatchObject({ code: 'conflict' })
    expect(await bootstrapIdentities(context)).toBeNull()
  }))

test('a password is stored as salt and scrypt key, in the form of the sign-in library', async () => {
  const password = newPassword()
  expect(password).toMatch(/^[A-Za-z0-9_-]{24}$/)
  const [salt = '', key] = (await hashPassword(password)).split(':')
  expect(salt).toMatch(/^[0-9a-f]{32}$/)
  const derived = scryptSync(password, salt, 64, { N: 16384, r: 16, p: 1, maxmem: 2 ** 26 })
  expect(key).toBe(derived.toString('hex'))
})

test('equal text in different Unicode forms has the same hash', async () => {
  const [salt = '', key] = (await hashPassword('pa\u0301ss')).split(':')
  expect(key).toBe(
    scryptSync('p\u00e1ss', salt, 64, { N: 16384, r: 16, p: 1, maxmem: 2 ** 26 }).toString('hex'),
  )
})

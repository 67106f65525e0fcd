import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals'
import { authenticate, newApiKey, recall, roleIn } from '../../../src/governance/access/identity.ts'
import { addKey } from '../../api/fixtures.ts'
import { planLimits } from '../../../src/contract/plan-limits.ts'
import { testContext, withPeople, type TestContext } from '../support.ts'

let running: TestContext
let people: Awaited<ReturnType<typeof withPeople>>
beforeAll(async () => {
  running = await testContext()
  people = await withPeople(running.context)
})
afterAll(() => running.close())

const header = (key: string) => `Bearer ${key}`

describe('authenticate', () => {
  test('returns the user, organization, key and scopes', async () => {
    const { agent_key: agentKey, users, organization_id: organizationId } = people.identities
    expect(await authenticate(running.context.keys, header(agentKey))).toEqual({
      user: { id: users.member.user_id, email: users.member.email, name: 'member' },
      userId: users.member.user_id,
      sessionId: null,
      wanted: null,
      organizationId,
      charged: { holderId: organizationId, limits: planLimits.enterprise },
      keyName: 'agents',
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
    expect(await authenticate(running.context.keys, make(people.identities.agent_key))).toBeNull()
  })

  test('concurrent requests are each answered with their own key', async () => {
    const { context } = running
    const { userId, organizationId } = people.caller('member')
    const keys = await Promise.all([1, 2, 3].map(() => addKey(context, organizationId, userId, [])))
    const sent = [...keys, { id: null, secret: newApiKey().secret }, ...keys.slice(0, 1)]
    const answers = await Promise.all(sent.map(({ secret }) => authenticate(context.keys, header(secret))))
    expect(answers.map((identity) => identity?.keyId ?? null)).toEqual(sent.map(({ id }) => id))
  })

  test('a revoked or expired key authenticates nobody, in any process, at once', async () => {
    const { context } = running
    const { userId, organizationId } = people.caller('member')
    const past = await addKey(context, organizationId, userId, [], {
      expires_at: new Date(Date.now() - 1000),
    })
    expect(await authenticate(context.keys, header(past.secret))).toBeNull()

    const key = await addKey(context, organizationId, userId, [])
    const other = running.another()
    expect(await authenticate(other.keys, header(key.secret))).not.toBeNull()
    await context.db
      .updateTable('api_keys')
      .set({ revoked_at: new Date() })
      .where('id', '=', key.id)
      .execute()
    expect(await authenticate(other.keys, header(key.secret))).toBeNull()
  })

  test('records the use of a key at most once a minute', async () => {
    const { context } = running
    const { userId, organizationId } = people.caller('member')
    const key = await addKey(context, organizationId, userId, [])
    const lastUse = async (): Promise<Date | null> => {
      const row = await context.db
        .selectFrom('api_keys')
        .select('last_used_at')
        .where('id', '=', key.id)
        .executeTakeFirstOrThrow()
      return row.last_used_at
    }
    await authenticate(context.keys, header(key.secret))
    let first: Date | null = null
    while (first === null) first = await lastUse()
    for (let call = 0; call < 5; call += 1) await authenticate(context.keys, header(key.secret))
    expect(await lastUse()).toEqual(first)
  })
})

describe('roleIn', () => {
  test('is the membership’s role, null without one', async () => {
    const { userId, organizationId } = people.caller('approver')
    expect(await roleIn(running.context.db, userId, organizationId)).toBe('admin')
    expect(await roleIn(running.context.db, userId, 'org_x')).toBeNull()
  })
})

describe('recall', () => {
  const revoke = (id: string) =>
    running.context.db.updateTable('api_keys').set({ revoked_at: new Date() }).where('id', '=', id).execute()

  test('looks up the first twenty requests of a second, then remembers the key until the second is over', async () => {
    const { context } = running
    const { userId, organizationId } = people.caller('member')
    const key = await addKey(context, organizationId, userId, [])
    const ask = () => recall(context.keys, header(key.secret))
    const now = jest.spyOn(performance, 'now')
    try {
      now.mockReturnValue(1_000)
      for (let n = 0; n < 20; n += 1) expect(await ask()).toMatchObject({ isRemembered: false })
      await revoke(key.id)
      now.mockReturnValue(1_999)
      expect(await ask()).toMatchObject({ identity: { keyId: key.id }, isRemembered: true })
      now.mockReturnValue(2_000)
      expect(await ask()).toBeNull()
    } finally {
      now.mockRestore()
    }
  })

  test('a key that asks seldom is always looked up', async () => {
    const { context } = running
    const { userId, organizationId } = people.caller('member')
    const key = await addKey(context, organizationId, userId, [])
    expect(await recall(context.keys, header(key.secret))).not.toBeNull()
    await revoke(key.id)
    expect(await recall(context.keys, header(key.secret))).toBeNull()
  })

  test('an invalid key is never remembered', async () => {
    const { context } = running
    const { userId, organizationId } = people.caller('member')
    const key = await addKey(context, organizationId, userId, [])
    await revoke(key.id)
    for (let n = 0; n < 25; n += 1) expect(await recall(context.keys, header(key.secret))).toBeNull()
    await context.db.updateTable('api_keys').set({ revoked_at: null }).where('id', '=', key.id).execute()
    expect(await recall(context.keys, header(key.secret))).toMatchObject({ isRemembered: false })
  })
})

import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { acts, splitKey } from '../../../src/api/access.ts'
import type { Role } from '../../../src/policy/types.ts'
import type { Scope } from '../../../src/governance/access/scopes.ts'
import { until } from '../../stack/until.ts'
import { addKey, addOrganization, addPerson, enrolPeople, factorCookie, requireFactors } from '../fixtures.ts'
import { startTestServer, type Answer, type TestServer } from '../server.ts'
import { accessTo, requestOf, validRequests, type GuardedKey } from './valid-requests.ts'
import { addPlace, type Place, withGoogle } from './place.ts'
import { World } from './world.ts'

/* Nobody can act after losing their key, session or role, even if their request was already being processed. */

let server: TestServer
let place: Place
beforeAll(async () => {
  server = await startTestServer({ env: withGoogle })
  const { id, owner } = await addOrganization(server.context)
  place = await addPlace(server, id, owner)
  await enrolPeople(server.context, [owner.userId, place.requester.userId])
  await requireFactors(server.context, id)
})

/** Adds a person with a second factor, which also confirmed the person's key. */
async function addEnrolled(organizationId: string, role: Role) {
  const person = await addPerson(server.context, organizationId, role)
  await enrolPeople(server.context, [person.userId])
  return person
}
const confirmed = { factor_confirmed_at: new Date() }
afterAll(() => server.close())

/**
 * Routes that act under the lock of a given organization. Routes for agents, and routes without an organization, are
 * tested below.
 */
const acting = (Object.keys(validRequests) as GuardedKey[]).filter(
  (key) =>
    accessTo(key).factor !== true &&
    splitKey(key).method !== 'GET' &&
    (splitKey(key).method !== 'POST' || acts(key)) &&
    accessTo(key).subject !== 'nothing',
)

/** The answer to `ask` if the SQL in `take` runs while the request waits for the organization's lock. */
async function whileItWaits<T>(organizationId: string, ask: () => Promise<T>, take: string): Promise<T> {
  const { pool } = server.context
  const holder = await pool.connect()
  try {
    await holder.query('begin')
    await holder.query('select 1 from chain_head where organization_id = $1 for update', [organizationId])
    const answer = ask()
    await until('the request waits for the lock', async () => {
      const { rowCount } = await pool.query(
        `select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
      )
      return rowCount !== 0
    })
    await holder.query(take)
    await holder.query('commit')
    return await answer
  } finally {
    holder.release(true)
  }
}

const entriesOf = async (organizationId: string): Promise<number> => {
  const { rows } = await server.context.pool.query(
    'select count(*)::int as n from audit_events where organization_id = $1',
    [organizationId],
  )
  return rows[0].n
}

type Sender = { userId: string; keyId: string; scope: Scope | null }
const ways: Record<string, { take: (sender: Sender) => string; told: [number, string] }> = {
  'the key is revoked': {
    take: ({ keyId }) => `update api_keys set revoked_at = now() where id = '${keyId}'`,
    told: [401, 'unauthenticated'],
  },
  'the key runs out': {
    take: ({ keyId }) => `update api_keys set expires_at = now() where id = '${keyId}'`,
    told: [401, 'unauthenticated'],
  },
  'the key loses the scope': {
    take: ({ keyId }) => `update api_keys set scopes = '{tools:read}' where id = '${keyId}'`,
    told: [403, 'missing_scope'],
  },
  'no factor stands behind the key': {
    take: ({ keyId }) => `update api_keys set factor_confirmed_at = null where id = '${keyId}'`,
    told: [403, 'mfa_required'],
  },
  'the person gives their factor up': {
    take: ({ userId }) => `update users set two_factor_enabled = false where id = '${userId}'`,
    told: [403, 'mfa_required'],
  },
  'the person is removed': {
    take: ({ userId }) => `delete from memberships where user_id = '${userId}'`,
    told: [404, 'not_found'],
  },
}
const demoted = {
  take: ({ userId }: Sender) => `update memberships set role = 'viewer' where user_id = '${userId}'`,
  told: [403, 'insufficient_role'] as [number, string],
}

test('the table has many acting routes', () => {
  expect(acting.length).toBeGreaterThan(30)
})

describe.each(acting)('%s does nothing once', (key) => {
  const { role, scope } = accessTo(key)
  const all = role === 'viewer' ? ways : { ...ways, 'the person is a viewer': demoted }
  // If the route needs no scope, losing a scope changes nothing.
  const those = Object.entries(all).filter(([way]) => scope !== null || way !== 'the key loses the scope')
  test.each(those)('%s', async (_, { take, told }) => {
    const { context } = server
    const { organizationId } = place
    const person = await addEnrolled(organizationId, role)
    const world = new World(server, place, person)
    const filling = await validRequests[key].prepare(world)
    // Removing oneself leaves nothing to check.
    const { path, body } = requestOf(key, organizationId, filling)
    const { id, secret } = await addKey(
      context,
      organizationId,
      person.userId,
      scope === null ? [] : [scope],
      confirmed,
    )
    const before = await entriesOf(organizationId)
    const answer = await whileItWaits(
      organizationId,
      () => server.call(secret, splitKey(key).method, path, body),
      take({ userId: person.userId, keyId: id, scope }),
    )
    expect([answer.status, answer.body.error.code]).toEqual(told)
    expect(await entriesOf(organizationId)).toBe(before)
  })
})

describe.each(['POST /api-keys/{id}/confirm', 'POST /organizations/{id}/rules'] as const)(
  '%s, by a session, does nothing once',
  (key) => {
    test.each([
      ['the session ends', 'delete from auth_sessions where user_id = $1', 401, 'unauthenticated'],
      [
        'the session has no second factor',
        `update auth_sessions set opened_with = 'password' where user_id = $1`,
        403,
        'mfa_required',
      ],
      [
        'the person removes their factor',
        'update users set two_factor_enabled = false where id = $1',
        403,
        'mfa_required',
      ],
      ['the person is removed', 'delete from memberships where user_id = $1', 404, 'not_found'],
    ])('%s', async (_, take, ...told) => {
      const { organizationId } = place
      const person = await addEnrolled(organizationId, accessTo(key).role)
      const filling = await validRequests[key].prepare(new World(server, place, person))
      const { path, body } = requestOf(key, organizationId, filling)
      const headers = { cookie: await factorCookie(server.context, person.userId), origin: server.base }
      const before = await entriesOf(organizationId)
      const answer = await whileItWaits(
        organizationId,
        () => server.call(null, splitKey(key).method, path, body, headers),
        take.replace('$1', `'${person.userId}'`),
      )
      expect([answer.status, answer.body.error.code]).toEqual(told)
      expect(await entriesOf(organizationId)).toBe(before)
    })
  },
)

describe('the same is true', () => {
  const rules = () => `/organizations/${place.organizationId}/rules`
  const aRule = { name: 'No mail', verdict: 'deny', tools: ['mail_send'] }

  test('for a person whose organization now requires a second factor', async () => {
    const { id, owner } = await addOrganization(server.context)
    const { userId, key } = await addPerson(server.context, id, 'admin')
    const answer = await whileItWaits(
      id,
      () => server.call(key, 'POST', `/organizations/${id}/rules`, aRule),
      `update organizations set settings = settings || '{"require_mfa": true}' where id = '${id}'`,
    )
    expect([answer.status, answer.body.error.code]).toEqual([403, 'mfa_required'])
    expect(answer.body.error.details[0].message).toMatch(/^http.*second-factor$/)
    await enrolPeople(server.context, [userId, owner.userId])
    expect((await server.call(key, 'POST', `/organizations/${id}/rules`, aRule)).status).toBe(201)
  })

  test.each([
    ['the key is revoked', 'update api_keys set revoked_at = now() where id = $1', 401, 'unauthenticated'],
    [
      'a factor is required that the key does not have',
      `update organizations set settings = settings || '{"require_mfa": true}'
       where id = (select organization_id from api_keys where id = $1)`,
      403,
      'mfa_required',
    ],
  ])('for joining by an invitation once %s', async (_, take, ...told) => {
    const { context } = server
    const { id } = await addOrganization(context)
    const { userId } = await addPerson(context, id, 'viewer')
    const email = `${userId}@elsewhere.test`
    const { body } = await server.call(
      place.owner.key,
      'POST',
      `/organizations/${place.organizationId}/invitations`,
      {
        email,
        send_mail: false,
      },
    )
    const key = await addKey(context, id, userId, ['organizations:*'])
    const answer = await whileItWaits(
      place.organizationId,
      () => server.call(key.secret, 'POST', '/invitations/accept', { token: body.token }),
      take.replace('$1', `'${key.id}'`),
    )
    expect([answer.status, answer.body.error.code]).toEqual(told)
    const { rowCount } = await context.pool.query(
      'select 1 from memberships where user_id = $1 and organization_id = $2',
      [userId, place.organizationId],
    )
    expect(rowCount).toBe(0)
  })

  test('for a refusal, which an idempotency key must not keep for a sender who comes back', async () => {
    const { userId } = await addEnrolled(place.organizationId, 'admin')
    const { id, secret } = await addKey(
      server.context,
      place.organizationId,
      userId,
      ['rules:write'],
      confirmed,
    )
    const ask = () =>
      server.call(secret, 'POST', rules(), { ...aRule, name: 'Once' }, { 'idempotency-key': 'once' })
    const refused = await whileItWaits(
      place.organizationId,
      ask,
      `update api_keys set revoked_at = now() where id = '${id}'`,
    )
    expect(refused.status).toBe(401)
    await server.context.pool.query('update api_keys set revoked_at = null where id = $1', [id])
    expect((await ask()).status).toBe(201)
  })
})

describe('for an agent whose key is revoked meanwhile', () => {
  const agentKeys = ['POST /authorize', 'POST /hooks/claude-code'] as const
  const ended: Record<string, (keyId: string) => string> = {
    revoked: (keyId) => `update api_keys set revoked_at = now() where id = '${keyId}'`,
    'run out': (keyId) => `update api_keys set expires_at = now() where id = '${keyId}'`,
    'without the scope': (keyId) => `update api_keys set scopes = '{}' where id = '${keyId}'`,
  }
  async function asked(key: GuardedKey, take: (keyId: string) => string): Promise<Answer> {
    const { context } = server
    const person = await addPerson(context, place.organizationId, 'member')
    const { path, body } = requestOf(
      key,
      place.organizationId,
      await validRequests[key].prepare(new World(server, place, person)),
    )
    const { id, secret } = await addKey(context, place.organizationId, person.userId, ['agents:authorize'])
    return whileItWaits(place.organizationId, () => server.call(secret, 'POST', path, body), take(id))
  }

  test.each(agentKeys.flatMap((key) => Object.keys(ended).map((how) => [key, how] as const)))(
    '%s: denied, %s',
    async (key, how) => {
      const { status, text } = await asked(key, ended[how] as (keyId: string) => string)
      expect(status).toBe(200)
      expect(text).toMatch(/"(decision|permissionDecision)":"deny"/)
      expect(text).toContain('has ended')
    },
  )

  test.each([
    'POST /authorize/observe',
    'POST /authorize/sessions/end',
    'POST /authorize/approvals/{id}/cancel',
  ] as const)('%s: refused', async (key) => {
    const { status, body } = await asked(key, ended['revoked'] as (keyId: string) => string)
    expect([status, body.error.code]).toEqual([401, 'unauthenticated'])
  })
})

import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { splitKey } from '../../../src/api/route.ts'
import type { GuardedKey } from '../../../src/api/routes/index.ts'
import type { Scope } from '../../../src/governance/access/scopes.ts'
import type { Role } from '../../../src/policy/types.ts'
import { publicBase } from '../../../src/shared/config.ts'
import { until } from '../../stack/until.ts'
import {
  addKey,
  addOrganization,
  addPerson,
  aRule,
  enrolPeople,
  everyScope,
  factorCookie,
  requireFactors,
  sessionCookie,
} from '../fixtures.ts'
import { startTestServer, type Answer, type TestServer } from '../server.ts'
import { statusOf } from './callers.ts'
import { fingerprint } from './database.ts'
import { addPlace, type Person, type Place, withGoogle } from './place.ts'
import {
  accessTo,
  guardedKeys,
  isActing,
  requestOf,
  validRequests,
  withoutObjects,
} from './valid-requests.ts'
import { World } from './world.ts'

/*
 * Every route in an organization that requires a second factor. Nobody gets in without one, and nobody can act after
 * losing their key, session, factor or role, even if their request was already being processed.
 */

const routes = guardedKeys
const confirmed = { factor_confirmed_at: new Date() }

let server: TestServer
let place: Place
let senders: Sender[]
beforeAll(async () => {
  server = await startTestServer({ env: withGoogle })
  const { id, owner } = await addOrganization(server.context)
  place = await addPlace(server, id, owner)
  await enrolPeople(server.context, [owner.userId, place.requester.userId])
  await requireFactors(server.context, id)
  senders = await everySender()
})
afterAll(() => server.close())

/** Adds a person with a second factor, which also confirmed the person's key. */
async function addEnrolled(organizationId: string, role: Role) {
  const person = await addPerson(server.context, organizationId, role)
  await enrolPeople(server.context, [person.userId])
  return person
}

/** An owner with a session or key. So only a missing factor can refuse a request. */
interface Sender {
  readonly name: string
  readonly person: Person
  readonly headers: Record<string, string>
  readonly hasFactor: boolean
  readonly isSession: boolean
}

async function everySender(): Promise<Sender[]> {
  const { context } = server
  const { organizationId: id } = place
  const [enrolled, without] = [await addEnrolled(id, 'owner'), await addPerson(context, id, 'owner')]
  const withKey = async (name: string, person: Person, hasFactor: boolean, isConfirmed: boolean) => {
    const { secret } = await addKey(context, id, person.userId, everyScope, isConfirmed ? confirmed : {})
    return { name, person, headers: { authorization: `Bearer ${secret}` }, hasFactor, isSession: false }
  }
  const withCookie = (name: string, person: Person, hasFactor: boolean, cookie: string) => {
    const headers = { cookie, origin: publicBase(context.config), 'x-organization-id': id }
    return { name, person, headers, hasFactor, isSession: true }
  }
  const cookies = {
    password: await sessionCookie(context, enrolled.userId),
    old: await sessionCookie(context, enrolled.userId, undefined, 'unrecorded'),
    backupCode: await sessionCookie(context, enrolled.userId, undefined, 'password+backup_code'),
    totp: await factorCookie(context, enrolled.userId),
    // The cookie says that the session was opened with a factor, but the person has none: the factor was removed later.
    nobodys: await factorCookie(context, without.userId),
  }
  return [
    await withKey('a key made without a factor', enrolled, false, false),
    await withKey('a confirmed key', enrolled, true, true),
    await withKey('a confirmed key of somebody who has no factor any more', without, false, true),
    withCookie('a session opened with the password', enrolled, false, cookies.password),
    withCookie('a session from before this was kept', enrolled, false, cookies.old),
    withCookie('a session opened with a backup code', enrolled, true, cookies.backupCode),
    withCookie('a session opened with a code', enrolled, true, cookies.totp),
    withCookie('a session of somebody who has no factor any more', without, false, cookies.nobodys),
  ]
}

/** Whether the answer to this sender must be `mfa_required`. */
function isRefused(key: GuardedKey, { hasFactor, isSession }: Sender): boolean {
  const { scope, subject, factor } = accessTo(key)
  if (factor === true) return !isSession || !hasFactor
  if (scope === 'agents:authorize') return false
  // Without a factor, a person must still be able to find out where to enrol.
  if (subject === 'nothing' && isSession) return false
  return !hasFactor
}

let sent = 0
describe.each(routes)('%s, where a second factor is required,', (key) => {
  const { method } = splitKey(key)
  async function prepare(sender: Sender, by = sender.person) {
    const world = new World(server, place, by)
    const request = requestOf(key, place.organizationId, await validRequests[key].prepare(world))
    return { sender, world, request }
  }
  async function send({ sender, request }: Awaited<ReturnType<typeof prepare>>) {
    sent += 1
    const once = method === 'POST' ? { 'idempotency-key': `factor-${sent}` } : {}
    const headers = { ...sender.headers, ...once }
    const answer = await server.call(null, method, request.path, request.body, headers)
    return [sender.name, answer.status, answer.body?.error?.code]
  }

  test('refuses those without a factor, and changes nothing', async () => {
    const refused = senders.filter((sender) => isRefused(key, sender))
    expect(refused.length > 0).toBe(accessTo(key).scope !== 'agents:authorize')
    // Senders without a factor could not create the objects of their requests, so another sender creates them.
    const [first] = refused
    if (first === undefined) return
    const prepared = await prepare(first, senders[0]?.person)
    const before = await fingerprint(server.context)
    for (const sender of refused)
      expect(await send({ ...prepared, sender })).toEqual([sender.name, 403, 'mfa_required'])
    expect(await fingerprint(server.context)).toEqual(before)
  })

  test('lets the others in', async () => {
    for (const sender of senders.filter((each) => !isRefused(key, each))) {
      const request = await prepare(sender)
      expect(await send(request)).toEqual([sender.name, validRequests[key].status, undefined])
      await validRequests[key].restore?.(request.world)
    }
  })
})

/**
 * Routes that act under the lock of a given organization. Routes for agents, and routes without an organization, are
 * tested below.
 */
const acting = routes.filter(
  (key) =>
    accessTo(key).factor !== true &&
    splitKey(key).method !== 'GET' &&
    (splitKey(key).method !== 'POST' || isActing(key)) &&
    !withoutObjects.has(key) &&
    accessTo(key).subject !== 'nothing',
)

/**
 * The answer to `ask` if the SQL in `take` runs while the request waits for the organization's lock. `$user` and `$key`
 * stand for these ids.
 */
async function whileItWaits<T>(
  organizationId: string,
  ask: () => Promise<T>,
  take: string,
  { user = '', key = '' }: { user?: string; key?: string } = {},
): Promise<T> {
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
    await holder.query(take.replace('$user', `'${user}'`).replace('$key', `'${key}'`))
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

/** What is taken away, and the code of the refusal. */
type Way = readonly [sql: string, code: string]
const factorGone = 'update users set two_factor_enabled = false where id = $user'
const memberGone = 'delete from memberships where user_id = $user'
const keyRevoked = 'update api_keys set revoked_at = now() where id = $key'
const ways: Record<string, Way> = {
  'the key is revoked': [keyRevoked, 'unauthenticated'],
  'the key runs out': ['update api_keys set expires_at = now() where id = $key', 'unauthenticated'],
  'the key loses the scope': [`update api_keys set scopes = '{tools:read}' where id = $key`, 'missing_scope'],
  'no factor stands behind the key': [
    'update api_keys set factor_confirmed_at = null where id = $key',
    'mfa_required',
  ],
  'the person gives their factor up': [factorGone, 'mfa_required'],
  'the person is removed': [memberGone, 'not_found'],
}
const demoted: Way = [`update memberships set role = 'viewer' where user_id = $user`, 'insufficient_role']
const ofSession: Record<string, Way> = {
  'the session ends': ['delete from auth_sessions where user_id = $user', 'unauthenticated'],
  'the session has no second factor': [
    `update auth_sessions set opened_with = 'password' where user_id = $user`,
    'mfa_required',
  ],
  'the person removes their factor': [factorGone, 'mfa_required'],
  'the person is removed': [memberGone, 'not_found'],
}

test('there are many acting routes', () => {
  expect(acting.length).toBeGreaterThan(30)
})

/** A person of this role with a second factor, and a valid request of the person. */
async function prepared(key: GuardedKey, role: Role) {
  const person = await addEnrolled(place.organizationId, role)
  const filling = await validRequests[key].prepare(new World(server, place, person))
  return { userId: person.userId, request: requestOf(key, place.organizationId, filling) }
}

/** Expects that the request is refused, and writes nothing, if something is taken away while it waits. */
async function isRefusedLate(
  ask: () => Promise<Answer>,
  [take, code]: Way,
  ids: { user: string; key?: string },
): Promise<void> {
  const { organizationId } = place
  const before = await entriesOf(organizationId)
  const answer = await whileItWaits(organizationId, ask, take, ids)
  expect([answer.status, answer.body.error.code]).toEqual([statusOf[code], code])
  expect(await entriesOf(organizationId)).toBe(before)
}

describe.each(acting)('%s does nothing once', (key) => {
  const { role, scope } = accessTo(key)
  const all = role === 'viewer' ? ways : { ...ways, 'the person is a viewer': demoted }
  // If the route needs no scope, losing a scope changes nothing.
  const those = Object.entries(all).filter(([way]) => scope !== null || way !== 'the key loses the scope')
  test.each(those)('%s', async (_, way) => {
    const { organizationId } = place
    const { userId, request } = await prepared(key, role)
    const scopes: Scope[] = scope === null ? [] : [scope]
    const { id, secret } = await addKey(server.context, organizationId, userId, scopes, confirmed)
    const ask = () => server.call(secret, splitKey(key).method, request.path, request.body)
    await isRefusedLate(ask, way, { user: userId, key: id })
  })
})

describe.each(['POST /api-keys/{id}/confirm', 'POST /organizations/{id}/rules'] as const)(
  '%s, by a session, does nothing once',
  (key) => {
    test.each(Object.entries(ofSession))('%s', async (_, way) => {
      const { userId, request } = await prepared(key, accessTo(key).role)
      const headers = { cookie: await factorCookie(server.context, userId), origin: server.base }
      const ask = () => server.call(null, splitKey(key).method, request.path, request.body, headers)
      await isRefusedLate(ask, way, { user: userId })
    })
  },
)

describe('the same is true', () => {
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

  const factorRequired = `update organizations set settings = settings || '{"require_mfa": true}'
    where id = (select organization_id from api_keys where id = $key)`
  test.each<[string, ...Way]>([
    ['the key is revoked', keyRevoked, 'unauthenticated'],
    ['a factor is required that the key does not have', factorRequired, 'mfa_required'],
  ])('for joining by an invitation once %s', async (_, take, code) => {
    const { context } = server
    const { id } = await addOrganization(context)
    const { userId } = await addPerson(context, id, 'viewer')
    const email = `${userId}@elsewhere.test`
    const path = `/organizations/${place.organizationId}/invitations`
    const { body } = await server.call(place.owner.key, 'POST', path, { email, send_mail: false })
    const key = await addKey(context, id, userId, ['organizations:*'])
    const ask = () => server.call(key.secret, 'POST', '/invitations/accept', { token: body.token })
    const answer = await whileItWaits(place.organizationId, ask, take, { key: key.id })
    expect([answer.status, answer.body.error.code]).toEqual([statusOf[code], code])
    const statement = 'select 1 from memberships where user_id = $1 and organization_id = $2'
    const { rowCount } = await context.pool.query(statement, [userId, place.organizationId])
    expect(rowCount).toBe(0)
  })

  test('for a refusal, which an idempotency key must not keep for a sender who comes back', async () => {
    const { organizationId } = place
    const { userId } = await addEnrolled(organizationId, 'admin')
    const { id, secret } = await addKey(server.context, organizationId, userId, ['rules:write'], confirmed)
    const once = { 'idempotency-key': 'once' }
    const path = `/organizations/${organizationId}/rules`
    const ask = () => server.call(secret, 'POST', path, { ...aRule, name: 'Once' }, once)
    const refused = await whileItWaits(organizationId, ask, keyRevoked, { key: id })
    expect(refused.status).toBe(401)
    await server.context.pool.query('update api_keys set revoked_at = null where id = $1', [id])
    expect((await ask()).status).toBe(201)
  })
})

describe('for an agent whose key is revoked meanwhile', () => {
  const agentKeys = ['POST /authorize', 'POST /hooks/claude-code'] as const
  const ended: Record<string, string> = {
    revoked: 'revoked_at = now()',
    'run out': 'expires_at = now()',
    'without the scope': `scopes = '{}'`,
  }
  async function asked(key: GuardedKey, how: string): Promise<Answer> {
    const { organizationId } = place
    const person = await addPerson(server.context, organizationId, 'member')
    const filling = await validRequests[key].prepare(new World(server, place, person))
    const { path, body } = requestOf(key, organizationId, filling)
    const { userId } = person
    const { id, secret } = await addKey(server.context, organizationId, userId, ['agents:authorize'])
    const take = `update api_keys set ${ended[how]} where id = $key`
    return whileItWaits(organizationId, () => server.call(secret, 'POST', path, body), take, { key: id })
  }

  test.each(agentKeys.flatMap((key) => Object.keys(ended).map((how) => [key, how] as const)))(
    '%s: denied, %s',
    async (key, how) => {
      const { status, text } = await asked(key, how)
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
    const { status, body } = await asked(key, 'revoked')
    expect([status, body.error.code]).toEqual([401, 'unauthenticated'])
  })
})

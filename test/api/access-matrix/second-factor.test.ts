import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { publicBase } from '../../../src/shared/config.ts'
import { splitKey } from '../../../src/api/access.ts'
import {
  addKey,
  addOrganization,
  addPerson,
  enrolPeople,
  everyScope,
  factorCookie,
  requireFactors,
  sessionCookie,
} from '../fixtures.ts'
import { startTestServer, type TestServer } from '../server.ts'
import { fingerprint } from './database.ts'
import { accessTo, requestOf, validRequests, type GuardedKey } from './valid-requests.ts'
import { addPlace, type Person, type Place, withGoogle } from './place.ts'
import { World } from './world.ts'

/*
 * Every route in an organization that requires a second factor. The senders are owners with sessions and keys, with and
 * without a second factor. Only the missing factor can therefore refuse a request.
 */

const routes = Object.keys(validRequests) as GuardedKey[]

interface Sender {
  readonly name: string
  readonly person: Person
  readonly headers: Record<string, string>
  readonly hasFactor: boolean
  readonly isSession: boolean
}

let server: TestServer
let place: Place
let senders: Sender[]

beforeAll(async () => {
  server = await startTestServer({ env: withGoogle })
  const { context } = server
  const { id, owner } = await addOrganization(context)
  place = await addPlace(server, id, owner)
  const [enrolled, without] = [await addPerson(context, id, 'owner'), await addPerson(context, id, 'owner')]
  await enrolPeople(context, [owner.userId, place.requester.userId, enrolled.userId])
  await requireFactors(context, id)
  const withKey = async (name: string, person: Person, hasFactor: boolean, confirmed: boolean) => {
    const extra = confirmed ? { factor_confirmed_at: new Date() } : {}
    const { secret } = await addKey(context, id, person.userId, everyScope, extra)
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
  senders = [
    await withKey('a key made without a factor', enrolled, false, false),
    await withKey('a confirmed key', enrolled, true, true),
    await withKey('a confirmed key of somebody who has no factor any more', without, false, true),
    withCookie('a session opened with the password', enrolled, false, cookies.password),
    withCookie('a session from before this was kept', enrolled, false, cookies.old),
    withCookie('a session opened with a backup code', enrolled, true, cookies.backupCode),
    withCookie('a session opened with a code', enrolled, true, cookies.totp),
    withCookie('a session of somebody who has no factor any more', without, false, cookies.nobodys),
  ]
})
afterAll(() => server.close())

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
describe.each(routes)('%s', (key) => {
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

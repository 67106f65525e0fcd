import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { access, accessOf, splitKey, type RouteKey } from '../../src/api/access.ts'
import { newId } from '../../src/contract/ids.ts'
import type { Role } from '../../src/policy/types.ts'
import { addPlace, type Person } from './access-matrix/place.ts'
import { scopesTo, validRequests, type GuardedKey } from './access-matrix/valid-requests.ts'
import { World } from './access-matrix/world.ts'
import { addKey, addOrganization, addPerson, requireFactors } from './fixtures.ts'
import { startTestServer, type TestServer } from './server.ts'

/*
 * The path of a request can name an object inside its subject, such as a version of a workflow. An object that does not
 * exist is 404 before a too low role is 403 and a wrong query or body is 422 (docs/decisions/0247).
 */

let server: TestServer
let world: World
const people = new Map<Role, Person>()
beforeAll(async () => {
  server = await startTestServer()
  const { id, owner } = await addOrganization(server.context)
  world = new World(server, await addPlace(server, id, owner), owner)
  people.set('owner', owner)
  for (const role of ['viewer', 'member', 'admin'] as const)
    people.set(role, await addPerson(server.context, id, role))
})
afterAll(() => server.close())

const keys = (Object.keys(access) as RouteKey[]).filter(
  (key): key is GuardedKey => !accessOf(key).public && splitKey(key).path.includes('{'),
)
/** The last object in the path of these routes may be missing, or another server chooses the query. */
const others = new Set<string>(['PUT /memory/{key}', 'GET /connections/callback/{integration}'])
const naming = keys.filter((key) => !others.has(key))

/** Names that no object has. */
const absent = (name: string): string => (name === 'version' ? '99' : `no-${newId('event')}`)

/** The paths of the route in which one object does not exist. The others exist. */
async function pathsOf(key: GuardedKey): Promise<[name: string, path: string][]> {
  const { ids = {} } = await validRequests[key].prepare(world)
  const { path } = splitKey(key)
  const names = [...path.matchAll(/\{(\w+)\}/g)].map((match) => match[1] as string)
  return names.map((missing) => [
    missing,
    path.replaceAll(/\{(\w+)\}/g, (_, name: string) =>
      encodeURIComponent(name === missing ? absent(name) : (ids[name] ?? world.organizationId)),
    ),
  ])
}

describe.each(naming)('%s', (key) => {
  test('answers 404 before 403 and 422', async () => {
    const { method } = splitKey(key)
    const body = method === 'GET' || method === 'DELETE' ? undefined : { nonsense: 1 }
    for (const [name, path] of await pathsOf(key))
      for (const [role, { userId }] of people) {
        const { secret } = await addKey(server.context, world.organizationId, userId, scopesTo(key))
        for (const query of ['', '?nonsense=1', '?nonsense=1&nonsense=2']) {
          const answer = await server.call(secret, method, `${path}${query}`, body)
          const who = `${role}: ${name} of ${method} ${path}${query}`
          expect([who, answer.status, answer.body.error.code]).toEqual([who, 404, 'not_found'])
        }
      }
  })
})

test('a role that is too low gets 403 before 422, also for a query parameter that is given twice', async () => {
  const path = `/organizations/${world.organizationId}/governance`
  const { secret } = await addKey(
    server.context,
    world.organizationId,
    (people.get('member') as Person).userId,
    ['governance:read'],
  )
  const answer = await server.call(secret, 'GET', `${path}?x=1&x=2`)
  expect([answer.status, answer.body.error.code]).toEqual([403, 'insufficient_role'])
})

test('keys and connections of other people do not exist for those who may not see them', async () => {
  const [member, viewer] = [people.get('member'), people.get('viewer')] as [Person, Person]
  const { id } = await addKey(server.context, world.organizationId, member.userId, ['runs:read'])
  const theirs = new World(server, world.place, member)
  const connection = await theirs.connection()
  for (const [key, path] of [
    ['PATCH /api-keys/{id}', `/api-keys/${id}`],
    ['PATCH /connections/{id}', `/connections/${connection}`],
  ] as const) {
    const { secret } = await addKey(server.context, world.organizationId, viewer.userId, scopesTo(key))
    const answer = await server.call(secret, 'PATCH', path, { nonsense: 1 })
    expect([key, answer.status]).toEqual([key, 404])
  }
})

describe('a tool policy is named by its tool and role', () => {
  test.each([
    ['PATCH', '', { allowed: true, role: 'viewer' }, 404],
    ['PATCH', '?role=viewer', { allowed: true }, 404],
    ['PATCH', '', { allowed: true, role: 'boss' }, 422],
    ['PATCH', '?role=boss', { allowed: true }, 422],
    ['DELETE', '?role=viewer', undefined, 404],
    ['DELETE', '?role=boss', undefined, 422],
  ] as const)('%s %s %j: %i', async (method, query, body, status) => {
    const tool = await world.toolPolicy()
    const path = `/organizations/${world.organizationId}/tool-policies/${tool}${query}`
    const answer = await server.call(world.place.owner.key, method, path, body)
    expect(answer.status).toBe(status)
  })
})

test('an admin deletes the labels of a deleted value; for a member it does not exist any more', async () => {
  const key = newId('file')
  const path = `/memory/${key}?organization_id=${world.organizationId}`
  await server.call(world.place.owner.key, 'PUT', path, { value: 1, labels: ['internal'] })
  expect((await server.call(world.place.owner.key, 'DELETE', path)).status).toBe(204)
  const [member, admin] = [people.get('member'), people.get('admin')] as [Person, Person]
  expect((await server.call(member.key, 'DELETE', path)).status).toBe(404)
  expect((await server.call(admin.key, 'GET', path)).status).toBe(404)
  expect((await server.call(admin.key, 'DELETE', path)).status).toBe(204)
})

test('a sender without a required second factor does not learn which names exist', async () => {
  const { id, owner } = await addOrganization(server.context)
  const key = newId('file')
  await server.call(owner.key, 'PUT', `/memory/${key}`, { value: 1 })
  await requireFactors(server.context, id)
  for (const path of [`/memory/${key}`, '/memory/no-such-key', `/organizations/${id}/tool-policies/Bash`])
    expect(await codeOf(owner.key, path)).toEqual([403, 'mfa_required'])
  const stranger = await addOrganization(server.context)
  expect(await codeOf(stranger.owner.key, `/organizations/${id}/tool-policies/Bash`)).toEqual([
    404,
    'not_found',
  ])
})

async function codeOf(key: string, path: string): Promise<unknown> {
  const { status, body } = await server.call(key, 'DELETE', path)
  return [status, body.error.code]
}

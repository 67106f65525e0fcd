import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { splitKey } from '../../../src/api/route.ts'
import type { GuardedKey } from '../../../src/api/routes/index.ts'
import { prefixes } from '../../../src/api/app.ts'
import { newId } from '../../../src/contract/ids.ts'
import { covers, hasRole } from '../../../src/governance/access/scopes.ts'
import type { Role } from '../../../src/policy/types.ts'
import { addOrganization } from '../fixtures.ts'
import { startTestServer, type Answer, type TestServer } from '../server.ts'
import { callersFor, everyStanding, nobodies, statusOf, type Caller, type Standing } from './callers.ts'
import { appendedSince, fingerprint, lengths } from './database.ts'
import { addPlace, type Place, withGoogle } from './place.ts'
import {
  accessTo,
  guardedKeys,
  isActing,
  isRare,
  mayWait,
  requestOf,
  routeOf,
  scopesTo,
  validRequests,
  withoutObjects,
} from './valid-requests.ts'
import type { Filling, Request } from './valid-requests.ts'
import { World } from './world.ts'

/*
 * Every route × role × scope × (own, foreign, unknown organization). A request gets the right code; a refused one
 * reveals and changes nothing. All requests are valid, so that only what the route needs can refuse them. A request that
 * must be refused is also sent with a nonsensical body, since its sender must not learn what is wrong with the body.
 */

const keys = guardedKeys

let server: TestServer
let ours: Place
let theirs: Place
let standings: Standing[]
let strangers: Caller[]

beforeAll(async () => {
  server = await startTestServer({ env: withGoogle })
  const { context } = server
  const [one, other] = [await addOrganization(context), await addOrganization(context)]
  ours = await addPlace(server, one.id, one.owner)
  theirs = await addPlace(server, other.id, other.owner)
  standings = await everyStanding(context, ours, theirs)
  strangers = await nobodies(context, ours)
})
afterAll(() => server.close())

/** The first scope of the route that the caller lacks. */
const missingScope = (key: GuardedKey, { scopes }: Caller) =>
  scopesTo(key).find((scope) => !covers(scopes, scope))

/**
 * The code with which the caller is refused, or null if the caller may enter. Checks come in this order: 401,
 * `missing_scope`, 404, `insufficient_role`. `createdBy` says whose object the request names.
 */
function refusalOf(
  key: GuardedKey,
  caller: Caller,
  organizationId: string | null,
  createdBy: 'caller' | 'owner',
): string | null {
  const { role, subject, factor } = accessTo(key)
  if (caller.person === null) return 'unauthenticated'
  if (missingScope(key, caller) !== undefined) return 'missing_scope'
  if (subject === 'nothing') return null
  const theirRole = organizationId === null ? undefined : caller.roles.get(organizationId)
  if (theirRole === undefined || (createdBy === 'owner' && !sees(key, theirRole))) return 'not_found'
  if (factor === true && caller.isSignedIn !== true) return 'mfa_required'
  return hasRole(theirRole, role) ? null : 'insufficient_role'
}

/** Whether a person with this role can see a key or a personal connection of the owner. */
function sees(key: GuardedKey, role: Role): boolean {
  const { subject } = accessTo(key)
  return hasRole(role, subject === 'api_key' ? 'owner' : subject === 'connection' ? 'admin' : 'viewer')
}

/** A request that must be refused. It is sent a second time with the body `nonsense`. */
interface Attempt extends Request {
  /** null: the request names an organization that does not exist. */
  readonly organizationId: string | null
  readonly nonsense?: object
}

/**
 * The same request for three targets: our organization, their organization, and an organization that does not exist.
 * Their organization is named in the path and query, or in the body.
 */
async function attempts(key: GuardedKey): Promise<Attempt[]> {
  const [here, there] = await Promise.all(
    [ours, theirs].map((place) => validRequests[key].prepare(new World(server, place, place.owner))),
  )
  const at = (organizationId: string, filling: Filling, where: string | null = organizationId): Attempt => ({
    ...requestOf(key, organizationId, filling),
    organizationId: where,
    ...(filling.body === undefined ? {} : { nonsense: { nonsense: 1 } }),
  })
  const { organizationId: their } = theirs
  const all = [at(ours.organizationId, here as Filling), at(their, there as Filling)]
  if (accessTo(key).subject === 'nothing') return all
  all.push(at(newId('organization'), { ...there, ids: unknownIds(there as Filling) }, null))
  // A form has no field for the organization.
  const isForm = there?.body instanceof FormData
  if (accessTo(key).subject === 'own' && there?.body !== undefined && !isForm) {
    const named = { organization_id: their }
    const path = requestOf(key, '', there).path.replace('organization_id=', '')
    const body = { ...(there.body as object), ...named }
    all.push({ path, body, organizationId: their, nonsense: { ...named, nonsense: 1 } })
  }
  return all
}

/**
 * Replaces ids by unused ids of the same form. Values that are not ids, such as a version or a tool's name, are
 * unchanged.
 */
function unknownIds({ ids = {} }: Filling): Record<string, string> {
  return Object.fromEntries(
    Object.entries(ids).map(([name, id]) => [name, id.replace(/^([a-z]+_)[0-9A-Z]{26}$/, `$1${ulid()}`)]),
  )
}
const ulid = (): string => newId('event').slice('evt_'.length)

let sent = 0
/** Uses the path prefixes in turn, since all prefixes lead to the same routes. */
function send(key: GuardedKey, caller: Caller, { path }: Request, body: unknown): Promise<Answer> {
  const { method } = splitKey(key)
  sent += 1
  const prefix = prefixes[sent % prefixes.length] as string
  // Each request has its own `Idempotency-Key`: a refusal must not store even this key.
  const once = method === 'POST' ? { 'idempotency-key': `matrix-${sent}` } : {}
  return server.call(null, method, `${prefix === '/' ? '' : prefix}${path}`, body, {
    ...caller.headers,
    ...once,
  })
}

const callersByScope = new Map<string, Caller[]>()

/** Returns the same callers for every route that needs the same scopes. */
async function callersOf(key: GuardedKey): Promise<Caller[]> {
  const needed = scopesTo(key)
  const known = callersByScope.get(needed.join())
  if (known !== undefined) return known
  const each = standings.map((who) => callersFor(server.context, ours, who, needed))
  const callers = [...(await Promise.all(each)).flat(), ...strangers]
  callersByScope.set(needed.join(), callers)
  return callers
}

/** The text of an answer and the names of its headers. Ids are left out, because they come from the request. */
function told(answer: Answer): string {
  const text = JSON.stringify(answer.body.error).replaceAll(/[a-z]+_[0-9A-Z]{26}/g, 'ID')
  return [text, ...[...answer.headers.keys()].sort()].join(' ')
}

/**
 * Expects that the request is refused with `code`, and returns the text of each answer. The first refusal with a code
 * and path is also tested with a nonsensical body; `tried` contains the combinations tested before. One such test is
 * enough: whether the service reads the body first does not depend on the sender.
 */
async function refuse(
  key: GuardedKey,
  caller: Caller,
  request: Attempt,
  code: string,
  tried: Set<string>,
): Promise<string[]> {
  const { role } = accessTo(key)
  const tellings: string[] = []
  const isNew = !tried.has(`${code} ${request.path}`)
  tried.add(`${code} ${request.path}`)
  for (const body of [request.body, ...(isNew && request.nonsense !== undefined ? [request.nonsense] : [])]) {
    const answer = await send(key, caller, request, body)
    const who = `${caller.name}: ${request.path} ${JSON.stringify(body)}`
    expect([who, answer.status, answer.body?.error?.code]).toEqual([who, statusOf[code], code])
    if (code === 'missing_scope') expect(answer.body.error.details[0].path).toBe(missingScope(key, caller))
    if (code === 'insufficient_role') expect(answer.body.error.details[0].path).toBe(role)
    tellings.push(told(answer))
  }
  return tellings
}

const chainOf = async ({ organizationId }: Place) =>
  server.context.db
    .selectFrom('chain_head')
    .selectAll()
    .where('organization_id', '=', organizationId)
    .executeTakeFirstOrThrow()

test('every route that needs a key has a valid request', () => {
  expect(Object.keys(validRequests).sort()).toEqual([...keys].sort())
})

const ofAgents: ReadonlySet<string> = new Set([
  'POST /authorize',
  'POST /authorize/observe',
  'POST /hooks/claude-code',
])

/**
 * Routes about a person's agents in an organization. Their answers depend on the person's role in that organization.
 */
const inTheirOrganization: ReadonlySet<string> = new Set([
  'GET /authorize/approvals/{id}',
  'POST /authorize/approvals/{id}/cancel',
  'POST /authorize/observe',
  'POST /authorize/sessions/end',
])

function refusedThere(key: GuardedKey, role: Role | undefined): number | null {
  if (!inTheirOrganization.has(key)) return null
  if (role === undefined) return 404
  return hasRole(role, accessTo(key).role) ? null : 403
}

describe.each(keys)('%s', (key) => {
  test('refuses everyone else, in the documented order, reveals nothing and changes nothing', async () => {
    const callers = await callersOf(key)
    const requests = await attempts(key)
    const before = await fingerprint(server.context)
    const tried = new Set<string>()
    let refused = 0
    for (const caller of callers) {
      const unknown = new Set<string>()
      for (const request of requests) {
        const code = refusalOf(key, caller, request.organizationId, 'owner')
        if (code === null) continue
        refused += 1
        const tellings = await refuse(key, caller, request, code, tried)
        if (code === 'not_found') for (const each of tellings) unknown.add(each)
      }
      // Objects of other organizations get exactly the same answer as objects that do not exist.
      expect(unknown.size).toBeLessThanOrEqual(1)
    }
    expect(refused).toBeGreaterThanOrEqual(strangers.length * requests.length)
    expect(await fingerprint(server.context)).toEqual(before)
  })

  test('lets in everyone with its scope and role, appends the events that it declares, and changes nobody else’s data', async () => {
    const { subject } = accessTo(key)
    let admitted = 0
    const appended = new Set<string>()
    for (const caller of await callersOf(key)) {
      const { person } = caller
      if (person === null) continue
      for (const place of subject === 'nothing' ? [ours] : [ours, theirs]) {
        if (refusalOf(key, caller, place.organizationId, 'caller') !== null) continue
        const world = new World(server, place, person)
        const filling = await validRequests[key].prepare(world)
        const elsewhere = place === ours ? theirs : ours
        const before = [await chainOf(place), await chainOf(elsewhere)]
        const known = await lengths(server.context)
        const request = requestOf(key, place.organizationId, filling)
        const answer = await send(key, caller, request, request.body)
        const who = `${caller.name}: ${request.path} ${answer.status < 300 ? '' : answer.text}`
        const isRefused = refusedThere(key, caller.roles.get(place.organizationId))
        expect([who, answer.status]).toEqual([who, isRefused ?? validRequests[key].status])
        for (const event of await appendedSince(server.context, known)) appended.add(event)
        await validRequests[key].restore?.(world)
        const after = [await chainOf(place), await chainOf(elsewhere)]
        if (isRefused !== null) {
          expect([who, after]).toEqual([who, before])
          continue
        }
        admitted += 1
        // Agents' questions lead to decisions. These are stored in the organization of the asker's session.
        if (ofAgents.has(key)) continue
        expect(after[1]).toEqual(before[1])
        // Every change appends to the audit chain of the changed organization; a question appends nothing.
        const isElsewhere = key === 'POST /organizations' || key === 'POST /invitations/accept'
        const isAsking =
          isElsewhere ||
          withoutObjects.has(key) ||
          splitKey(key).method === 'GET' ||
          (splitKey(key).method === 'POST' && !isActing(key))
        expect([who, after[0]?.seq === before[0]?.seq]).toEqual([who, isAsking])
      }
    }
    expect(admitted).toBeGreaterThan(0)
    const declared = (routeOf(key).audit ?? []).filter((event) => !isRare(key, event))
    expect([...appended].sort()).toEqual(declared.toSorted())
  })
})

test('what can answer that a change waits declares the event of that', () => {
  const waiting = keys.filter(mayWait)
  expect(waiting.length).toBeGreaterThan(10)
  const asking = [
    'POST /workflows/{id}/execute',
    'POST /runs/{id}/rerun',
    'POST /tools/{name}/try',
    'POST /authorize',
    'POST /hooks/claude-code',
  ]
  const declaring = keys.filter((key) => routeOf(key).audit?.includes('approval.requested') === true)
  expect(declaring.filter((key) => !asking.includes(key)).toSorted()).toEqual(waiting.toSorted())
})

describe('objects of another organization are not found through one’s own', () => {
  const nested = keys.filter(
    (key) => /\{(?:rule|key|user|invitation)\}/.test(key) && key !== 'PUT /memory/{key}',
  )
  test.each(nested)('%s', async (key) => {
    const { ids = {}, body } = await validRequests[key].prepare(new World(server, theirs, theirs.owner))
    const { id: _, ...inner } = ids
    const before = await fingerprint(server.context)
    for (const { name, person, roles } of standings) {
      const tellings: string[] = []
      for (const asked of [inner, unknownIds({ ids: inner })]) {
        const request = requestOf(key, ours.organizationId, { ids: asked, body })
        const answer = await server.call(person.key, splitKey(key).method, request.path, body)
        tellings.push(told(answer))
        if (roles.get(ours.organizationId) === 'owner') expect(answer.status).toBe(404)
      }
      expect([name, tellings[0]]).toEqual([name, tellings[1]])
    }
    expect(await fingerprint(server.context)).toEqual(before)
  })
})

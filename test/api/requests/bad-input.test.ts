import { beforeAll, describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { z } from 'zod'
import { isGuarded, splitKey, type Route } from '../../../src/api/route.ts'
import { routes, type GuardedKey } from '../../../src/api/routes/index.ts'
import { queryOf } from '../../../src/api/query.ts'
import { defaultBodyLimit } from '../../../src/api/json-body.ts'
import { newId } from '../../../src/contract/ids.ts'
import type { Role } from '../../../src/policy/types.ts'
import { World } from '../access-matrix/world.ts'
import { type Resources, resourcesOf } from '../resources.ts'
import { addPlace, type Person } from '../access-matrix/place.ts'
import { byDepth } from '../../support/depth.ts'
import type { Answer, TestServer } from '../server.ts'
import { codeOf, useServer } from '../use-server.ts'
import { guardedKeys, scopesTo, validRequests } from '../access-matrix/valid-requests.ts'
import { addKey, addOrganization, addPerson, requireFactors } from '../fixtures.ts'

type Key = (typeof routes)[number]['key']

/**
 * Routes that can answer with an error. An agent's question gets a decision even if its body is wrong
 * (test/api/agents).
 */
const erring = routes.filter((route) => route.ask === undefined)
const withBody = erring.filter((route) => route.body !== undefined && route.receive === undefined)
const routeOf = (key: Key) => routes.find((each) => each.key === key) as Route
const guarded = routes.filter(isGuarded)

/** The names of objects inside the subjects of paths, by path parameter. */
type InnerNames = Readonly<Record<string, string>>

/** Creates one of each object that a path can name inside its subject. */
async function innerNamesOf(world: World): Promise<InnerNames> {
  const tool = await world.toolPolicy()
  await world.make(`/organizations/${world.organizationId}/role-policy-overrides`, {
    tool_name: tool,
    role: 'auditor',
    allowed: false,
  })
  const user = await world.anotherMember()
  return {
    ...(await world.delivery()),
    user,
    group: await world.group([user]),
    account: await world.serviceAccount(),
    invitation: await world.invitation(),
    rerun: await world.rerun(),
    token: await world.scimToken(),
    domain: await world.provider(),
    key: await world.memoryKey(),
    tool,
    name: 'web_search',
    step: 's',
    // The held call that `/authorize/approvals/{id}` names.
    held: await world.heldCall(),
  }
}

/**
 * Returns a function that makes the path of a route with valid ids. An inner object that `inner` does not name is called
 * `1`. `replace` replaces the last id.
 */
function pathsOf(ours: Resources, inner: InnerNames = {}) {
  return function pathOf(key: Key, replace?: string): string {
    const subject = routeOf(key).needs?.subject ?? 'nothing'
    const ids: Record<string, string> = {
      workflow: ours.ids.workflow,
      run: ours.ids.run,
      approval: ours.ids.approval,
      api_key: ours.ids.key,
      agent_session: ours.ids.session,
      connection: ours.ids.connection,
      file: ours.ids.file,
      ...(inner['held'] === undefined ? {} : { nothing: inner['held'] }),
    }
    const names = [...splitKey(key).path.matchAll(/\{(\w+)\}/g)].map((match) => match[1] as string)
    return names.reduce((path, name, index) => {
      const rule = path.includes('/label-rules/') ? ours.ids.labelRule : ours.ids.rule
      const object = name === 'rule' ? rule : (inner[name] ?? '1')
      const own = name === 'id' ? (ids[subject] ?? ours.organizationId) : object
      return path.replace(`{${name}}`, replace !== undefined && index === names.length - 1 ? replace : own)
    }, splitKey(key).path)
  }
}

let server: TestServer
let ours: Resources
let pathOf: ReturnType<typeof pathsOf>
let owner: string
const { personOf } = useServer(async (started) => {
  server = started
  const { organization_id: organizationId } = server.identities
  const sender = personOf('owner')
  owner = sender.key
  const made = await resourcesOf(server, organizationId, sender.userId)
  const world = new World(server, await addPlace(server, organizationId, sender), sender)
  const run = await world.runWithStep('completed')
  const template = { template_name: 'T' }
  await world.send(sender, 'POST', `/workflow-registry/${made.ids.workflow}/approve-template`, template)
  ours = { ...made, ids: { ...made.ids, run } }
  const { trigger } = await world.trigger(made.ids.workflow, { inputs: { to: 'x' } })
  pathOf = pathsOf(ours, { ...(await innerNamesOf(world)), trigger })
})

const keysOf = (some: readonly { readonly key: Key }[]): Key[] => some.map(({ key }) => key)
/** Sends a request to the route as the owner. Without a body, one that takes a body gets an empty object. */
function ask(key: Key, { body = {}, query = '', id }: { body?: unknown; query?: string; id?: string } = {}) {
  const { method } = splitKey(key)
  const sent = method === 'GET' || method === 'DELETE' ? undefined : body
  return server.call(owner, method, pathOf(key, id) + query, sent)
}

function expectRefused(answer: Answer, statuses: number[]): void {
  expect(statuses).toContain(answer.status)
  expect(answer.body.error.message).toMatch(/^[^A-Z].*[^.]$/s)
  expect(answer.text).not.toMatch(/node_modules|\.ts:|SELECT|postgres/i)
}

describe('bad bodies', () => {
  const bodies: [string, string, number[]][] = [
    ['not JSON', '{"a":', [400]],
    ['a NUL', '{"name":"a\\u0000b"}', [400]],
    ['__proto__', '{"__proto__":{"a":1}}', [400]],
    ['constructor', '{"constructor":{"prototype":{}}}', [400]],
    ['too deep', `{"inputs":${'['.repeat(1000)}${']'.repeat(1000)}}`, [400]],
    ['an unknown field', '{"zzz":1}', [422]],
    ['a list', '[]', [422]],
    ['text', '"x"', [422]],
    ['null', 'null', [422]],
  ]
  for (const [name, body, statuses] of bodies) {
    // Routes that need a session with a second factor refuse keys before they look at the fields.
    const asked = withBody.filter(({ needs }) => statuses.includes(400) || needs?.factor !== true)
    test.each(keysOf(asked))(`${name}: %s`, async (key) => {
      const answer = await ask(key, { body })
      expectRefused(answer, statuses)
      if (name === 'an unknown field')
        expect(answer.body.error.details).toContainEqual({
          path: 'zzz',
          message: expect.stringMatching(/^unknown field: /),
        })
    })
  }

  test.each(withBody.map((route) => [route.key, route.bodyLimit ?? defaultBodyLimit] as const))(
    'too large: %s',
    async (key, limit) => {
      expectRefused(await ask(key, { body: { name: 'x'.repeat(limit) } }), [413])
    },
  )

  test.each(keysOf(withBody))('another content type: %s', async (key) => {
    const { method } = splitKey(key)
    const answer = await server.call(owner, method, pathOf(key), '{}', { 'content-type': 'text/plain' })
    expectRefused(answer, [415])
  })

  /** Bodies that are almost valid: real field names with values of every kind. */
  const near = (shape: readonly string[]) =>
    fc.dictionary(
      fc.constantFrom(...shape, 'zzz'),
      fc.oneof(fc.jsonValue(), fc.constantFrom(-1, 1e300, '', 'x', [])),
    )
  // A random quota could refuse the requests of later tests.
  const random = keysOf(withBody).filter((key) => key !== 'PATCH /organizations/{id}/quota')
  test.each(random)('random JSON breaks nothing: %s', async (key) => {
    const { body: schema } = routeOf(key)
    const shape = schema instanceof z.ZodObject ? Object.keys(schema.shape) : []
    const query = key.endsWith('/execute') ? '?wait=0' : ''
    await fc.assert(
      fc.asyncProperty(near(shape), async (body) => {
        expect((await ask(key, { body, query })).status).toBeLessThan(500)
      }),
      { numRuns: byDepth(5, 50) },
    )
  })

  test('every wrong field is named, in words', async () => {
    const body = {
      name: 7,
      verdict: 'perhaps',
      params: [{ param: 'to', operator: 'domain_in', value: ['com'] }],
      colour: 'red',
    }
    const answer = await ask('POST /organizations/{id}/rules', { body })
    const paths = answer.body.error.details.map((detail: { path: string }) => detail.path)
    expect(paths).toEqual(expect.arrayContaining(['name', 'verdict', 'params.0.value.0', 'colour']))
    const missing = await ask('POST /workflows')
    expect(missing.body.error.details).toContainEqual({ path: 'definition', message: 'is missing' })
  })
})

describe('values that would change nothing or cannot be meant', () => {
  const settings = 'PATCH /organizations/{id}/governance'
  const late = '9999-12-31T23:59:59-14:00'
  const misspelt = { call: { tool: 'mail_sent' } }
  test.each<[string, Key, unknown, string, RegExp]>([
    ['a message without a version', 'PUT /workflows/{id}', { name: 'n', message: 'm' }, 'message', /give its `definition` too/], // prettier-ignore
    ['an external tool without a setting', settings, { external_tools: { X: {} } }, 'external_tools.X', /give `side_effect` or `output_labels`/], // prettier-ignore
    ['a category that is no slug', settings, { category_flags: { 'a b': true } }, 'category_flags.a b', /a category is a lower-case slug/], // prettier-ignore
    ['a risk that does not exist', settings, { approval_required_from: 'none' }, 'approval_required_from', /or null for never/], // prettier-ignore
    ['a key without scopes', 'PATCH /api-keys/{id}', { scopes: [] }, 'scopes', /can do nothing/],
    [
      'a year of five digits',
      'PATCH /api-keys/{id}',
      { expires_at: late },
      'expires_at',
      /before the year 10000/,
    ],
    [
      'a misspelt tool',
      'POST /organizations/{id}/rules/test',
      misspelt,
      'call.tool',
      /did you mean `mail_send`/,
    ],
  ])('%s: %s %j', async (_, key, body, path, message) => {
    const answer = await ask(key, { body })
    expectRefused(answer, [422])
    expect(answer.body.error.details).toContainEqual({ path, message: expect.stringMatching(message) })
  })

  test('an empty change of a workflow is accepted and writes nothing', async () => {
    const before = (await ask('GET /workflows/{id}')).body
    const after = (await ask('PUT /workflows/{id}')).body
    expect(before).toMatchObject(after)
  })
})

describe('names', () => {
  const nameFields = ['name', 'template_name', 'tags'] as const
  // The name of a group has an alphabet of its own.
  const free = withBody.filter(({ key }) => !key.includes('/groups'))
  const withName = free.flatMap((route) => {
    const shape = route.body instanceof z.ZodObject ? route.body.shape : {}
    return nameFields.filter((field) => field in shape).map((field) => [field, route.key] as const)
  })

  test('there are names of all kinds', () => expect(withName.length).toBeGreaterThan(12))

  test.each(withName)('`%s` must be one line of visible text: %s', async (field, key) => {
    const names = ['a\nb', 'a\rb', 'a\u2028b', 'a\u0007', 'a\u0085', 'a\u202eb', 'a\u2066b', '\u001b[2J']
    for (const name of names) {
      const answer = await ask(key, { body: { [field]: field === 'tags' ? [name] : name } })
      expectRefused(answer, [422])
      const message = 'must be one line without control characters'
      const path = field === 'tags' ? 'tags.0' : field
      expect(answer.body.error.details).toContainEqual({ path, message })
    }
  })
})

describe('bad paths and queries', () => {
  const ids = [
    ...['%00', 'wf_%00', '..%2f..', '%F0%9F%92%A9', "'%3B--", 'x'.repeat(3000), '-1'],
    ...['__proto__', 'constructor'],
  ]
  const withId = guarded.filter((route) => splitKey(route.key).path.includes('{'))
  test.each(keysOf(withId))('unknown ids: %s', async (key) => {
    for (const id of ids) {
      const answer = await ask(key, { id })
      // Some of these values are valid, so a success is fine too.
      if (answer.status >= 400) expectRefused(answer, [400, 404, 422])
    }
  })

  const lists = guarded.filter((route) => route.query !== undefined && splitKey(route.key).method === 'GET')
  const queries = [
    ...['limit=0', 'limit=201', 'limit=1e1', 'limit=', 'page=0', 'per_page=-1', 'wait=61', 'after=x'],
    ...['mine=yes', 'cursor=x', 'cursor=%00', 'cursor=eA%3D%3D', 'status=nope', 'since=yesterday'],
    ...['limit[]=1', 'a[b]=c'],
  ]
  test.each(keysOf(lists))('meaningless values: %s', async (key) => {
    const { query: schema } = routeOf(key)
    const shape = schema instanceof z.ZodObject ? Object.keys(schema.shape) : []
    expect(shape).not.toEqual([])
    for (const query of queries) {
      const answer = await ask(key, { query: `?${query}` })
      expect(answer.status).toBeLessThan(500)
      if (shape.includes(query.split('=')[0] as string)) expect([400, 422]).toContain(answer.status)
    }
  })

  test('a parameter given twice is refused by name', async () => {
    const answer = await server.call(owner, 'GET', '/workflows?limit=1&limit=2')
    expect(answer.status).toBe(422)
    expect(answer.body.error.details).toEqual([
      { path: 'limit', message: 'is given more than once: give it once' },
    ])
  })

  // Routes that need a session with a second factor refuse keys before they read parameters. Elsewhere other servers
  // choose the names of parameters.
  const forKeys = erring.filter(
    ({ key, needs }) =>
      needs?.factor !== true &&
      key !== 'GET /connections/callback/{integration}' &&
      key !== 'POST /deliveries/{trigger}',
  )
  test.each(keysOf(forKeys))('unknown parameters: %s', async (key) => {
    const [known = 'y'] = Object.keys(queryOf(routeOf(key)).shape)
    const answer = await ask(key, { query: `?statsu=x&${known}s=1` })
    expectRefused(answer, [422])
    expect(answer.body.error.code).toBe('validation_error')
    const message = expect.stringMatching(/^unknown field: /)
    for (const path of ['statsu', `${known}s`])
      expect(answer.body.error.details).toContainEqual({ path, message })
    expect(answer.body.error.message).toMatch(/`statsu`|\(and \d more\)/)
  })

  test('the query may name an organization only where the path names none', async () => {
    const named = `organization_id=${ours.organizationId}`
    const runs = await server.call(owner, 'GET', `/runs?${named}`)
    expect(runs.status).toBe(200)
    const key = await server.call(owner, 'POST', `/api-keys?${named}`, { name: 'k', scopes: ['runs:read'] })
    expect(key.body.organization_id).toBe(ours.organizationId)
    for (const path of [`/runs/${ours.ids.run}`, `/organizations/${ours.organizationId}/rules`])
      expect((await server.call(owner, 'GET', `${path}?${named}`)).status).toBe(422)
  })

  test('an undecodable path is a bad request', async () => {
    expectRefused(await server.call(owner, 'GET', '/memory/%E0%A4%A'), [400])
  })
})

describe('objects of another owner', () => {
  /*
   * The path of a request can name an object inside its subject, such as a version of a workflow. An object that does not
   * exist is 404 before a too low role is 403 and a wrong query or body is 422 (docs/decisions/0247).
   */

  let world: World
  const people = {} as Record<Role, Person>
  beforeAll(async () => {
    const { id, owner } = await addOrganization(server.context)
    world = new World(server, await addPlace(server, id, owner), owner)
    people.owner = owner
    for (const role of ['viewer', 'member', 'admin'] as const)
      people[role] = await addPerson(server.context, id, role)
  })
  const keyOf = async (role: Role, scopes: readonly string[]) =>
    (await addKey(server.context, world.organizationId, people[role].userId, scopes)).secret

  const keys = guardedKeys.filter((key) => splitKey(key).path.includes('{'))
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

  // The role of viewers is too low for most routes, the role of owners is enough for all.
  test.each(naming)('%s: answers 404 before 403 and 422', async (key) => {
    const { method } = splitKey(key)
    const body = method === 'GET' || method === 'DELETE' ? undefined : { nonsense: 1 }
    const paths = await pathsOf(key)
    for (const role of ['viewer', 'owner'] as const) {
      const secret = await keyOf(role, scopesTo(key))
      for (const [name, path] of paths)
        for (const query of ['', '?nonsense=1', '?nonsense=1&nonsense=2']) {
          const answer = await server.call(secret, method, `${path}${query}`, body)
          const who = `${role}: ${name} of ${method} ${path}${query}`
          expect([who, answer.status, answer.body.error.code]).toEqual([who, 404, 'not_found'])
        }
    }
  })

  test('a role that is too low gets 403 before 422, also for a query parameter that is given twice', async () => {
    const path = `/organizations/${world.organizationId}/governance?x=1&x=2`
    const answer = await server.call(await keyOf('member', ['governance:read']), 'GET', path)
    expect(codeOf(answer)).toBe('403 insufficient_role')
  })

  test('keys and connections of other people do not exist for those who may not see them', async () => {
    const { id } = await addKey(server.context, world.organizationId, people.member.userId, ['runs:read'])
    const connection = await new World(server, world.place, people.member).connection()
    for (const [key, path] of [
      ['PATCH /api-keys/{id}', `/api-keys/${id}`],
      ['PATCH /connections/{id}', `/connections/${connection}`],
    ] as const) {
      const secret = await keyOf('viewer', scopesTo(key))
      const { status } = await server.call(secret, 'PATCH', path, { nonsense: 1 })
      expect([key, status]).toEqual([key, 404])
    }
  })

  describe('a tool policy is named by its tool and role', () => {
    test.each([
      ['PATCH', '', { allowed: true, role: 'viewer' }, 404],
      ['PATCH', '?role=viewer', { allowed: true }, 404],
      ['PATCH', '', { allowed: true, role: 'Boss' }, 422],
      ['PATCH', '?role=Boss', { allowed: true }, 422],
      ['DELETE', '?role=viewer', undefined, 404],
      ['DELETE', '?role=Boss', undefined, 422],
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
    const { member, admin } = people
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
      expect(codeOf(await server.call(owner.key, 'DELETE', path))).toBe('403 mfa_required')
    const stranger = await addOrganization(server.context)
    const policy = `/organizations/${id}/tool-policies/Bash`
    expect(codeOf(await server.call(stranger.owner.key, 'DELETE', policy))).toBe('404 not_found')
  })
})

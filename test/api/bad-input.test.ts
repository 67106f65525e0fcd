import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { z } from 'zod'
import { accessOf, splitKey } from '../../src/api/access.ts'
import { queryOf } from '../../src/api/query.ts'
import { defaultBodyLimit } from '../../src/api/json-body.ts'
import { routes } from '../../src/api/routes/index.ts'
import { erring, guarded, innerNamesOf, pathsOf, routeOf, withBody } from './called-routes.ts'
import { addPlace } from './access-matrix/place.ts'
import { World } from './access-matrix/world.ts'
import { resourcesOf, type Resources } from './resources.ts'
import { startTestServer, type Answer, type TestServer } from './server.ts'

let server: TestServer
let ours: Resources
let pathOf: ReturnType<typeof pathsOf>
let owner: string
beforeAll(async () => {
  server = await startTestServer()
  const { organization_id: organizationId, users } = server.identities
  owner = users.owner.api_key
  const made = await resourcesOf(server, organizationId, users.owner.user_id)
  const sender = { userId: users.owner.user_id, key: owner }
  const world = new World(server, await addPlace(server, organizationId, sender), sender)
  const run = await world.runWithStep('completed')
  await world.send(sender, 'POST', `/workflow-registry/${made.ids.workflow}/approve-template`, {
    template_name: 'T',
  })
  ours = { ...made, ids: { ...made.ids, run } }
  pathOf = pathsOf(ours, await innerNamesOf(world))
})
afterAll(() => server.close())

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
    const asked = withBody.filter(({ key }) => statuses.includes(400) || !('factor' in accessOf(key)))
    test.each(asked.map((route) => [route.key]))(`${name}: %s`, async (key) => {
      const { method } = splitKey(key)
      const answer = await server.call(owner, method, pathOf(key), body)
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
      const body = JSON.stringify({ name: 'x'.repeat(limit) })
      expectRefused(await server.call(owner, splitKey(key).method, pathOf(key), body), [413])
    },
  )

  test.each(withBody.map((route) => [route.key]))('another content type: %s', async (key) => {
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
  test.each(withBody.map((route) => [route.key]))('random JSON breaks nothing: %s', async (key) => {
    const route = withBody.find((each) => each.key === key)
    const shape = route?.body instanceof z.ZodObject ? Object.keys(route.body.shape) : []
    const { method } = splitKey(key)
    await fc.assert(
      fc.asyncProperty(near(shape), async (body) => {
        const path = key.endsWith('/execute') ? `${pathOf(key)}?wait=0` : pathOf(key)
        expect((await server.call(owner, method, path, body)).status).toBeLessThan(500)
      }),
      { numRuns: 15 },
    )
  })

  test('every wrong field is named, in words', async () => {
    const answer = await server.call(owner, 'POST', `/organizations/${ours.organizationId}/rules`, {
      name: 7,
      verdict: 'perhaps',
      params: [{ param: 'to', operator: 'domain_in', value: ['com'] }],
      colour: 'red',
    })
    const paths = answer.body.error.details.map((detail: { path: string }) => detail.path)
    expect(paths).toEqual(expect.arrayContaining(['name', 'verdict', 'params.0.value.0', 'colour']))
    const missing = await server.call(owner, 'POST', '/workflows', {})
    expect(missing.body.error.details).toContainEqual({ path: 'name', message: 'is missing' })
  })
})

describe('values that would change nothing or cannot be meant', () => {
  test.each<[string, (typeof routes)[number]['key'], unknown, string, RegExp]>([
    [
      'a message without a version',
      'PUT /workflows/{id}',
      { name: 'n', message: 'm' },
      'message',
      /give its `definition` too/,
    ],
    [
      'an external tool without a setting',
      'PATCH /organizations/{id}/governance',
      { external_tools: { X: {} } },
      'external_tools.X',
      /give `side_effect` or `output_labels`/,
    ],
    [
      'a category that is no slug',
      'PATCH /organizations/{id}/governance',
      { category_flags: { 'a b': true } },
      'category_flags.a b',
      /a category is a lower-case slug/,
    ],
    [
      'a risk that does not exist',
      'PATCH /organizations/{id}/governance',
      { approval_required_from: 'none' },
      'approval_required_from',
      /or null for never/,
    ],
    ['a key without scopes', 'PATCH /api-keys/{id}', { scopes: [] }, 'scopes', /can do nothing/],
    [
      'a year of five digits',
      'PATCH /api-keys/{id}',
      { expires_at: '9999-12-31T23:59:59-14:00' },
      'expires_at',
      /before the year 10000/,
    ],
    [
      'a misspelt tool',
      'POST /organizations/{id}/rules/test',
      { call: { tool: 'mail_sent' } },
      'call.tool',
      /did you mean `mail_send`/,
    ],
  ])('%s: %s %j', async (_, key, body, path, message) => {
    // prettier-ignore
    const answer = await server.call(owner, splitKey(key).method, pathOf(key), body)
    expectRefused(answer, [422])
    expect(answer.body.error.details).toContainEqual({ path, message: expect.stringMatching(message) })
  })

  test('an empty change of a workflow is accepted and writes nothing', async () => {
    const path = pathOf('PUT /workflows/{id}')
    const before = (await server.call(owner, 'GET', path)).body
    expect((await server.call(owner, 'PUT', path, {})).body).toEqual(before)
  })
})

describe('names', () => {
  const nameFields = ['name', 'template_name', 'tags'] as const
  const withName = withBody.flatMap((route) => {
    const shape = route.body instanceof z.ZodObject ? route.body.shape : {}
    return nameFields.filter((field) => field in shape).map((field) => [field, route.key] as const)
  })

  test('there are names of all kinds', () => expect(withName.length).toBeGreaterThan(12))

  test.each(withName)('`%s` must be one line of visible text: %s', async (field, key) => {
    for (const name of [
      'a\nb',
      'a\rb',
      'a\u2028b',
      'a\u0007',
      'a\u0085',
      'a\u202eb',
      'a\u2066b',
      '\u001b[2J',
    ]) {
      const value = field === 'tags' ? [name] : name
      const answer = await server.call(owner, splitKey(key).method, pathOf(key), { [field]: value })
      expectRefused(answer, [422])
      const message = 'must be one line without control characters'
      const path = field === 'tags' ? 'tags.0' : field
      expect(answer.body.error.details).toContainEqual({ path, message })
    }
  })
})

describe('bad paths and queries', () => {
  const ids = [
    '%00',
    'wf_%00',
    '..%2f..',
    '%F0%9F%92%A9',
    "'%3B--",
    'x'.repeat(3000),
    '-1',
    '__proto__',
    'constructor',
  ]
  const withId = guarded.filter((route) => splitKey(route.key).path.includes('{'))
  test.each(withId.map((route) => [route.key]))('unknown ids: %s', async (key) => {
    const { method } = splitKey(key)
    for (const id of ids) {
      const body = method === 'GET' || method === 'DELETE' ? undefined : {}
      const answer = await server.call(owner, method, pathOf(key, id), body)
      // Some of these values are valid, so a success is fine too.
      if (answer.status >= 400) expectRefused(answer, [400, 404, 422])
    }
  })

  const lists = guarded.filter((route) => route.query !== undefined && splitKey(route.key).method === 'GET')
  const queries = [
    'limit=0',
    'limit=201',
    'limit=1e1',
    'limit=',
    'page=0',
    'per_page=-1',
    'wait=61',
    'after=x',
    'mine=yes',
  ]
  const strange = [
    'cursor=x',
    'cursor=%00',
    'cursor=eA%3D%3D',
    'status=nope',
    'since=yesterday',
    'limit[]=1',
    'a[b]=c',
  ]
  test.each(lists.map((route) => [route.key]))('meaningless values: %s', async (key) => {
    const schema = routes.find((route) => route.key === key)?.query
    const shape = schema instanceof z.ZodObject ? Object.keys(schema.shape) : []
    expect(shape).not.toEqual([])
    for (const query of [...queries, ...strange]) {
      const answer = await server.call(owner, 'GET', `${pathOf(key)}?${query}`)
      expect(answer.status).toBeLessThan(500)
      const name = query.split('=')[0] as string
      if (shape.includes(name)) expect([400, 422]).toContain(answer.status)
    }
  })

  test('a parameter given twice is refused by name', async () => {
    const answer = await server.call(owner, 'GET', '/workflows?limit=1&limit=2')
    expect(answer.status).toBe(422)
    expect(answer.body.error.details).toEqual([
      { path: 'limit', message: 'is given more than once: give it once' },
    ])
  })

  // Routes that need a session with a second factor refuse keys before they read parameters. The callback is excluded,
  // because authorization servers may add parameters.
  const forKeys = erring.filter(
    ({ key }) => !('factor' in accessOf(key)) && key !== 'GET /connections/callback/{integration}',
  )
  test.each(forKeys.map((route) => [route.key]))('unknown parameters: %s', async (key) => {
    const { method } = splitKey(key)
    const known = Object.keys(queryOf(routeOf(key)).shape)
    const body = method === 'GET' || method === 'DELETE' ? undefined : {}
    const answer = await server.call(owner, method, `${pathOf(key)}?statsu=x&${known[0] ?? 'y'}s=1`, body)
    expectRefused(answer, [422])
    expect(answer.body.error.code).toBe('validation_error')
    for (const path of ['statsu', `${known[0] ?? 'y'}s`])
      expect(answer.body.error.details).toContainEqual({
        path,
        message: expect.stringMatching(/^unknown field: /),
      })
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

import pg from 'pg'
import express from 'express'
import { once } from 'node:events'
import { connect } from 'node:net'
import { createServer, request as httpRequest, type IncomingMessage } from 'node:http'
import { Readable } from 'node:stream'
import { describe, expect, test } from '@jest/globals'
import { idPrefixes, newId } from '../../../src/contract/ids.ts'
import { ApiError, errorBody, retryAfter, statusOf, toApiError } from '../../../src/api/errors.ts'
import { DomainError } from '../../../src/governance/errors.ts'
import { readFileUpload } from '../../../src/api/file-form.ts'
import { goneSignal } from '../../../src/api/dispatch.ts'
import { accessTo, guardedKeys, isActing, requestOf, validRequests } from '../access-matrix/valid-requests.ts'
import { addPlace, type Place } from '../access-matrix/place.ts'
import { World } from '../access-matrix/world.ts'
import { addKey, addOrganization, enrolPeople, factorCookie } from '../fixtures.ts'
import { listen, type Answer, type TestServer } from '../server.ts'
import { useServer } from '../use-server.ts'

/* Conventions of the API and of identity that are not covered by the tests of single routes. */

let server: TestServer
let place: Place
let world: World
const { keyOf } = useServer(async (started) => {
  server = started
  const { id, owner } = await addOrganization(server.context)
  place = await addPlace(server, id, owner)
  world = new World(server, place, owner)
})

const ask = (method: string, path: string, body?: unknown): Promise<Answer> =>
  server.call(place.owner.key, method, path, body)
const newKey = (more: object = {}) => ask('POST', '/api-keys', { name: 'k', scopes: ['runs:read'], ...more })

describe('lists are `{data, next_cursor}`, newest first, fifty at a time', () => {
  const here = (path: string) => () => `/organizations/${place.organizationId}/${path}`
  const ruleBody = (path: string, extra: object) => () =>
    world.make(here(path)(), { name: newId('rule'), tools: ['file_read'], ...extra })
  type Listed = [string, () => string, () => Promise<unknown>, string, string]
  const lists: Listed[] = [
    ['workflows', () => '/workflows', () => world.workflow(), 'wf', 'created_at'],
    ['templates', () => '/workflow-registry', () => world.template(), 'wf', 'approved_at'],
    ['runs', () => '/runs', () => world.run(), 'run', 'created_at'],
    ['executions', () => '/executions', () => world.run(), 'run', 'created_at'],
    ['approvals', () => '/approvals', () => world.approval(), 'apr', 'created_at'],
    ['rules', here('rules'), ruleBody('rules', { verdict: 'deny' }), 'rule', 'created_at'],
    [
      'label rules',
      here('label-rules'),
      ruleBody('label-rules', { add_labels: ['a'] }),
      'lrule',
      'created_at',
    ],
    ['members', here('members'), () => world.anotherMember(), 'usr', 'joined_at'],
    ['invitations', here('invitations'), () => world.invitation(), 'inv', 'created_at'],
    ['keys', () => '/api-keys', () => newKey(), 'key', 'created_at'],
  ]
  test.each(lists)('%s', async (_, pathOf, make, prefix, time) => {
    for (let turn = 0; turn < 3; turn += 1) await make()
    const path = pathOf()
    const whole = (await ask('GET', `${path}?limit=200`)).body
    expect(Object.keys(whole).sort()).toEqual(['data', 'next_cursor'])
    expect(whole.next_cursor).toBeNull()
    expect(whole.data.length).toBeGreaterThanOrEqual(3)
    const walked: unknown[] = []
    let cursor = ''
    do {
      const { body } = await ask('GET', `${path}?limit=2${cursor}`)
      expect(body.data.length).toBeLessThanOrEqual(2)
      walked.push(...body.data)
      cursor = body.next_cursor === null ? '' : `&cursor=${body.next_cursor}`
    } while (cursor !== '')
    const idsOf = (rows: unknown[]) =>
      (rows as Record<string, string>[]).map((row) => row[prefix === 'usr' ? 'user_id' : 'id'] as string)
    expect(idsOf(walked)).toEqual(idsOf(whole.data))
    for (const id of idsOf(walked)) expect(id).toMatch(new RegExp(`^${prefix}_[0-9A-HJKMNP-TV-Z]{26}$`))
    const times = (whole.data as Record<string, string>[]).map((row) => row[time] as string)
    expect(times).toEqual([...times].sort().reverse())
    for (const each of times) expect(each).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
  })

  test('a cursor of another list is refused, and leads nowhere', async () => {
    for (let turn = 0; turn < 2; turn += 1) {
      await world.workflow()
      await world.template()
      await world.approval()
      await ruleBody('rules', { verdict: 'deny' })()
    }
    const paths = [
      ...lists.map(([, pathOf]) => pathOf()),
      ...['connections', 'files', 'agent-sessions', 'tools', 'rule-templates'].map((name) => `/${name}`),
      '/governance/tool-constraints',
      ...['webhooks', 'notifications', 'tool-policies', 'role-policy-overrides'].map((name) => here(name)()),
    ]
    const given = ['workflows', 'workflow-registry', 'approvals', 'tools', 'rule-templates']
    for (const from of [here('rules')(), ...given.map((name) => `/${name}`)]) {
      const { next_cursor: cursor } = (await ask('GET', `${from}?limit=1`)).body
      expect([from, typeof cursor]).toEqual([from, 'string'])
      // Both lists are the catalogue's tools by name.
      const same = from === '/tools' ? [from, '/governance/tool-constraints'] : [from]
      for (const path of paths) {
        const { status, body } = await ask('GET', `${path}?cursor=${cursor}`)
        expect([from, path, status]).toEqual([from, path, same.includes(path) ? 200 : 422])
        if (status === 422) expect(body.error.details[0].path).toBe('cursor')
      }
    }
  })

  test('without a limit there are fifty', async () => {
    for (let turn = 0; turn < 51; turn += 1) await newKey()
    const { body } = await ask('GET', '/api-keys')
    expect(body.data).toHaveLength(50)
    expect((await ask('GET', `/api-keys?cursor=${body.next_cursor}`)).body.data.length).toBeGreaterThan(0)
  })
})

// Other routes: idempotent.test.ts
describe('every POST that needs a second factor takes an `Idempotency-Key`', () => {
  test.each(guardedKeys.filter((key) => isActing(key) && accessTo(key).factor === true))(
    '%s',
    async (key) => {
      const filling = await validRequests[key].prepare(world)
      const { path, body } = requestOf(key, place.organizationId, filling)
      await enrolPeople(server.context, [place.owner.userId])
      const cookie = await factorCookie(server.context, place.owner.userId)
      const headers = { 'idempotency-key': newId('event'), cookie, origin: server.base }
      const send = () => server.call(null, 'POST', path, body, headers)
      const seen = (answer: Answer) => [answer.status, answer.text, answer.headers.get('idempotent-replayed')]
      const first = await send()
      expect(seen(first)).toEqual([validRequests[key].status, first.text, null])
      const again = await send()
      expect(seen(again)).toEqual([first.status, first.text, 'true'])
      expect(again.headers.get('x-request-id')).not.toBe(first.headers.get('x-request-id'))
    },
  )
})

describe('API keys', () => {
  test.each([
    ['no scopes', { scopes: [] }, 'scopes'],
    ['scopes that are all false', { scopes: { 'runs:read': false } }, 'scopes'],
    ['an end in the past', { expires_at: '2001-01-01T00:00:00Z' }, 'expires_at'],
  ])('that could do nothing are refused: %s', async (_what, over, path) => {
    const { status, body } = await newKey({ name: 'dead', ...over })
    expect([status, body.error.code, body.error.details[0].path]).toEqual([422, 'validation_error', path])
    const { body: keys } = await ask('GET', '/api-keys?limit=200')
    expect(keys.data.map((key: { name: string }) => key.name)).not.toContain('dead')
  })

  test('are shown once, accept scopes as map or list, and return a map', async () => {
    const forms = [['runs:read', 'secrets:*'], { 'runs:read': true, 'secrets:*': true, 'runs:write': false }]
    for (const scopes of forms) {
      const expires = new Date(Date.now() + 3_600_000).toISOString()
      const { body } = await newKey({ scopes, organization_id: place.organizationId, expires_at: expires })
      expect(body.api_key).toMatch(/^csk_live_[0-9A-Za-z]{38}$/)
      expect(body.scopes).toMatchObject({ 'runs:read': true, 'secrets:*': true })
      expect(body.scopes['runs:write']).not.toBe(true)
      expect(body.expires_at).toBe(expires)
      expect((await server.call(body.api_key, 'GET', '/runs')).status).toBe(200)
      const listed = await ask('GET', '/api-keys?limit=200')
      const renamed = await ask('PATCH', `/api-keys/${body.id}`, { name: 'ours' })
      for (const { text } of [listed, renamed]) expect(text).not.toContain(body.api_key)
      expect(renamed.body).not.toHaveProperty('api_key')
      const { rows } = await server.context.pool.query('select * from api_keys where id = $1', [body.id])
      expect(JSON.stringify(rows)).not.toContain(body.api_key.slice(9))
      expect((await ask('DELETE', `/api-keys/${body.id}`)).status).toBe(204)
      expect((await server.call(body.api_key, 'GET', '/runs')).status).toBe(401)
    }
  })

  test.each([
    [['api_keys:*', 'runs:read'], ['runs:read'], 201],
    [['api_keys:*', 'runs:*'], ['runs:read', 'runs:write'], 201],
    [['api_keys:*', 'runs:*'], ['runs:*'], 201],
    [['api_keys:*', 'runs:read'], ['runs:*'], 403],
    [['api_keys:*', 'runs:read', 'runs:write'], ['runs:*'], 403],
    [['api_keys:*'], ['runs:read'], 403],
    [['api_keys:*', 'run:*', '*', 'runs:'], ['runs:read'], 403],
  ])('a key with %j makes one with %j: %i', async (own, wanted, status) => {
    const { secret } = await addKey(server.context, place.organizationId, place.owner.userId, own)
    const made = await server.call(secret, 'POST', '/api-keys', { name: 'made', scopes: wanted })
    expect(made.status).toBe(status)
    if (status === 403)
      expect(made.body.error.details.map(({ path }: { path: string }) => path)).toEqual(wanted)
  })

  test('a key that a narrower key cannot make, it cannot edit or reactivate either', async () => {
    const wide = (await newKey({ scopes: ['runs:write'] })).body
    const narrow = (await newKey({ scopes: ['api_keys:*'] })).body.api_key
    const change = (body: object) => server.call(narrow, 'PATCH', `/api-keys/${wide.id}`, body)
    for (const body of [{ name: 'x' }, { scopes: ['runs:write'] }, { expires_at: null }, { active: true }])
      expect([body, (await change(body)).body.error?.code]).toEqual([body, 'missing_scope'])
    expect((await change({ active: false })).status).toBe(200)
    expect((await change({ active: true })).body.error.code).toBe('missing_scope')
    expect((await ask('PATCH', `/api-keys/${wide.id}`, { active: true })).body.active).toBe(true)
  })
})

test('the scopes are the documented ones', async () => {
  const documented =
    'workflows:read|write runs:read|write approvals:read|decide rules:read|write governance:read|write policies:read|write quota:read|write audit:read registry:write tools:read|connect memory:read|write files:write agents:authorize agents:read|revoke secrets:* api_keys:* organizations:read|*'
  const all = documented.split(' ').flatMap((each) => {
    const [area = '', verbs = ''] = each.split(':')
    return verbs.split('|').map((verb) => `${area}:${verb}`)
  })
  const { body } = await ask('GET', '/scopes')
  expect(body.scopes.map(({ name }: { name: string }) => name)).toEqual(all)
})

test('ids have the documented prefixes', () => {
  const named = ['org', 'usr', 'wf', 'run', 'apr', 'dec', 'ses', 'rule', 'lrule', 'key', 'file', 'evt']
  expect(Object.values(idPrefixes)).toEqual(expect.arrayContaining(named))
})

describe('the application', () => {
  test('answers every prefix alike', async () => {
    const { owner } = server.identities.users
    for (const prefix of ['', '/v1', '/api/v1']) {
      const answer = await server.call(owner.api_key, 'GET', `${prefix}/me`)
      expect(answer.status).toBe(200)
      expect(answer.body.user).toMatchObject({ id: owner.user_id, email: owner.email, name: 'owner' })
      expect(answer.body.organizations).toEqual([
        expect.objectContaining({
          id: server.identities.organization_id,
          role: 'owner',
          plan: 'enterprise',
        }),
      ])
      expect(answer.body.scopes['governance:write']).toBe(true)
    }
  })

  test('keeps a valid request id and replaces another', async () => {
    const kept = await server.call(null, 'GET', '/health', undefined, { 'x-request-id': 'abc-1' })
    expect(kept.headers.get('x-request-id')).toBe('abc-1')
    const replaced = await server.call(null, 'GET', '/health', undefined, { 'x-request-id': 'a b' })
    expect(replaced.headers.get('x-request-id')).toMatch(/^[0-9a-f-]{36}$/)
  })

  test('shows no header about its software', async () => {
    const { headers } = await server.call(null, 'GET', '/health')
    expect(headers.get('x-powered-by')).toBeNull()
    expect(headers.get('x-content-type-options')).toBe('nosniff')
  })

  test.each([
    ['GET', '/nowhere'],
    ['GET', '/api/v1/nowhere'],
    ['PUT', '/health'],
    ['OPTIONS', '/me'],
    ['GET', '/ME'],
  ])('%s %s is not found, in the usual form of errors', async (method, path) => {
    const answer = await server.call(null, method, path)
    expect(answer.status).toBe(404)
    expect(answer.body.error.code).toBe('not_found')
    expect(answer.body.meta.request_id).toBe(answer.headers.get('x-request-id'))
  })

  test.each([null, 'csk_live_x', 'nonsense'])('%p is not a key: 401 with what to send', async (key) => {
    const answer = await server.call(key, 'GET', '/me')
    expect(answer.status).toBe(401)
    expect(answer.body.error.code).toBe('unauthenticated')
    expect(answer.headers.get('www-authenticate')).toBe('Bearer')
  })

  const lengthOf = (piece: string) => piece.length.toString(16)
  test.each<[string, string, (piece: string) => string]>([
    ['declares its length', 'Content-Length: 6291456', (piece) => piece],
    ['is sent in chunks', 'Transfer-Encoding: chunked', (piece) => `${lengthOf(piece)}\r\n${piece}\r\n`],
  ])(
    'a sender of a body that is too large and %s can send all of it and reads 413',
    async (_, length, form) => {
      const { hostname, port } = new URL(server.base)
      const socket = connect(Number(port), hostname)
      let [text, problem] = ['', null as Error | null]
      socket.setEncoding('utf8').on('data', (part: string) => (text += part))
      socket.on('error', (error) => (problem = error))
      const closed = once(socket, 'close')
      socket.write(
        `POST /workflows HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${keyOf('owner')}\r\nContent-Type: application/json\r\n${length}\r\n\r\n`,
      )
      for (let sent = 0; sent < 48 && problem === null; sent += 1)
        await new Promise<void>((resolve) => socket.write(form('x'.repeat(128 * 1024)), () => resolve()))
      if (length.endsWith('chunked')) socket.write('0\r\n\r\n')
      await closed
      expect(problem).toBeNull()
      expect(text).toMatch(/^HTTP\/1.1 413 [^]*"code":"too_large"/)
    },
  )
})

const databaseError = (code: string) =>
  Object.assign(new pg.DatabaseError('relation "secrets" of row (1, hunter2)', 1, 'error'), { code })

describe('errors', () => {
  test.each(
    Object.entries({
      400: 'bad_request',
      401: 'unauthenticated',
      403: 'missing_scope insufficient_role run_denied self_approval not_an_approver',
      404: 'not_found',
      409: 'conflict approval_already_decided approval_expired idempotency_in_progress bad_transition',
      413: 'too_large',
      415: 'unsupported_media_type',
      422: 'validation_error idempotency_mismatch',
      429: 'rate_limited quota_exceeded',
      500: 'internal',
      503: 'unavailable',
    }),
  )('with the status %s are the published ones', (status, codes) => {
    for (const code of codes.split(' ')) expect(statusOf).toHaveProperty(code, Number(status))
  })

  test('429 and 503 say when to try again', () => {
    for (const [code, status] of Object.entries(statusOf))
      if (status === 429 || status === 503)
        expect(retryAfter[code as keyof typeof retryAfter]).toBeGreaterThan(0)
  })

  test('of the domain keep code, message and details', () => {
    const details = [{ path: 'a', message: 'b' }]
    const error = toApiError(new DomainError('conflict', 'taken', details))
    expect(errorBody(error, 'r1')).toEqual({
      error: { code: 'conflict', message: 'taken', details },
      meta: { request_id: 'r1' },
    })
    const own = new ApiError('too_large', 'x')
    expect(toApiError(own)).toBe(own)
  })

  test.each([
    ['an unexpected error', new Error('hunter2'), 'internal'],
    ['a value that is not an error', 'hunter2', 'internal'],
    ['a constraint', databaseError('23503'), 'internal'],
    ['a shut-down', databaseError('57P01'), 'unavailable'],
    ['a time-out', databaseError('25P04'), 'unavailable'],
    ['a deadlock', databaseError('40P01'), 'unavailable'],
    ['a refused connection', Object.assign(new Error('hunter2'), { code: 'ECONNREFUSED' }), 'unavailable'],
  ])('%s shows no internal details', (_, thrown, code) => {
    const body = errorBody(toApiError(thrown), 'r1')
    expect(body.error.code).toBe(code)
    expect(JSON.stringify(body)).not.toMatch(/hunter2|secrets/)
  })
})

describe('an upload', () => {
  const place = { admit: async () => {}, works: () => {} }

  test('a form that does not arrive in time is refused, so that it does not hold memory', async () => {
    const refused = Promise.withResolvers<unknown>()
    const server = createServer((request) => {
      readFileUpload(request, place, 20).then(refused.resolve, refused.resolve)
    })
    const sent = httpRequest(await listen(server), {
      method: 'POST',
      headers: { 'content-type': 'multipart/form-data; boundary=x', 'content-length': 1_000 },
    })
    try {
      sent.on('error', () => {})
      sent.write('--x\r\ncontent-disposition: form-data; name="file"; filename="a.txt"\r\n\r\nhello')
      expect(await refused.promise).toMatchObject({
        code: 'bad_request',
        message: expect.stringContaining('did not arrive within'),
      })
    } finally {
      sent.destroy()
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    }
  })

  /** Reads these bytes as a form with the boundary `b`. */
  function readForm(bytes: string): Promise<unknown> {
    const headers = { 'content-type': 'multipart/form-data; boundary=b' }
    const request = Object.assign(Readable.from([Buffer.from(bytes, 'latin1')]), { headers })
    return readFileUpload(request as unknown as IncomingMessage, place)
  }

  const part = (...headers: string[]): string => `--b\r\n${headers.join('\r\n')}\r\n\r\nhello\r\n--b--\r\n`

  test.each([
    ['a field', part('content-disposition: form-data')],
    ['a field with a file before it', `--b\r\ncontent-disposition: form-data; name="file"; filename="a"\r\n\r\nx\r\n${part('content-disposition: form-data')}`], // prettier-ignore
    ['a file', part('content-disposition: form-data; filename="a.txt"')],
    ['a file by its type', part('content-disposition: form-data', 'content-type: application/octet-stream')],
  ])('%s without a name is refused, and ends no process', async (_, bytes) => {
    await expect(readForm(bytes)).rejects.toMatchObject({ code: 'validation_error', details: [{ path: '' }] })
  })
})

test('the calls of one request share one signal, which aborts when the client goes', async () => {
  const draining = new AbortController()
  let added = 0
  const signals = new Set<AbortSignal>()
  const app = express().get('/', (_request, response) => {
    const before = response.listenerCount('close')
    for (let call = 0; call < 50; call += 1) signals.add(goneSignal(response, { draining: draining.signal }))
    added = response.listenerCount('close') - before
    response.flushHeaders()
  })
  const server = createServer(app)
  const base = await listen(server)
  try {
    const client = new AbortController()
    await fetch(base, { signal: client.signal })
    const [signal] = signals
    expect([signals.size, added, signal?.aborted]).toEqual([1, 1, false])
    const aborted = once(signal as AbortSignal, 'abort')
    client.abort()
    await aborted
  } finally {
    server.closeAllConnections()
    server.close()
  }
})

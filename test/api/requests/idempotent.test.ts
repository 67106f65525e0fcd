import { randomBytes } from 'node:crypto'
import { beforeAll, describe, expect, test } from '@jest/globals'
import { createApp } from '../../../src/api/app.ts'
import { createHttpServer } from '../../../src/api/http-server.ts'
import { createContext } from '../../../src/programs/create-context.ts'
import type { Context } from '../../../src/governance/context.ts'
import type { Combiner } from '../../../src/governance/audit/combiner.ts'
import { splitKey } from '../../../src/api/route.ts'
import type { GuardedKey } from '../../../src/api/routes/index.ts'
import { newId } from '../../../src/contract/ids.ts'
import type { BootstrapName } from '../../../src/governance/people/bootstrap.ts'
import { finishRun } from '../../../src/governance/runs/end/finish.ts'
import { type Answer, bodyOf, listen, type TestServer, usualServices } from '../server.ts'
import { useServer } from '../use-server.ts'
import { World } from '../access-matrix/world.ts'
import { addKey, aDefinition, factorCookie, sessionCookie } from '../fixtures.ts'
import {
  accessTo,
  guardedKeys,
  isActing,
  type Request,
  requestOf,
  validRequests,
  withoutObjects,
} from '../access-matrix/valid-requests.ts'
import { addPlace, type Place } from '../access-matrix/place.ts'

type Run = Combiner['run']

/** Starts another API process on the database of `context`. `wrap` wraps the function that runs its transactions. */
async function otherServer(
  context: Context,
  wrap: (run: Run, end: () => Promise<void>) => Run,
): Promise<{ base: string; end: () => Promise<void> }> {
  const other = createContext(context.config, 'api')
  const { combiner } = other
  let isEnding: Promise<void> | null = null
  const end = () => (isEnding ??= other.close())
  Object.assign(other, {
    combiner: {
      join: combiner.join.bind(combiner),
      policy: combiner.policy.bind(combiner),
      run: wrap(combiner.run.bind(combiner), end),
    },
  })
  const services = { ...usualServices(other), mail: async () => {} }
  const server = createHttpServer(createApp(other, services))
  const base = await listen(server)
  return {
    base,
    async end() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
      await end()
    },
  }
}

/** Sends one POST to a failing process. */
async function postTo(
  url: string,
  key: string,
  body: unknown,
  headers: Record<string, string>,
): Promise<Answer> {
  const response = await fetch(url, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${key}`,
      // `fetch` sets the content type of a form itself.
      ...(body instanceof FormData ? {} : { 'content-type': 'application/json' }),
      ...headers,
    },
    body: bodyOf(body),
  })
  const text = await response.text()
  return { status: response.status, headers: response.headers, text, body: JSON.parse(text) }
}

/**
 * Sends a request to a process that dies when its first transaction has committed. The process does nothing after that.
 */
async function sendAndDie(context: Context, send: (base: string) => Promise<unknown>): Promise<void> {
  const dead = Promise.withResolvers<void>()
  const dying = await otherServer(context, (run, end) => async (...operation) => {
    await run(...operation)
    // Closing its connections ensures that the process can neither renew a lock nor store an answer.
    await end()
    dead.resolve()
    return new Promise(() => {})
  })
  const sent = send(dying.base).then(
    (answer) => Promise.reject(new Error(`it answered: ${JSON.stringify(answer)}`)),
    () => Promise.reject(new Error('the request failed before anything was committed')),
  )
  try {
    await Promise.race([dead.promise, sent])
  } finally {
    sent.catch(() => {})
    await dying.end()
  }
}

/**
 * Sends a request to a process that stops just before its transaction. Runs `meanwhile`, and lets the process continue.
 */
async function sendAndStall(
  context: Context,
  send: (base: string) => Promise<Answer>,
  meanwhile: () => Promise<unknown>,
): Promise<Answer> {
  const [reached, gate] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const stalling = await otherServer(context, (run) => async (...operation) => {
    reached.resolve()
    await gate.promise
    return run(...operation)
  })
  try {
    const answer = send(stalling.base)
    await Promise.race([reached.promise, answer])
    await meanwhile()
    gate.resolve()
    return await answer
  } finally {
    gate.resolve()
    await stalling.end()
  }
}

let server: TestServer
let organizationId: string
let key: string
let counter = 0
const { as, personOf, keyOf } = useServer((started) => {
  server = started
  organizationId = server.identities.organization_id
  key = keyOf('owner')
})

const fresh = () => ({ 'idempotency-key': `key-${(counter += 1)}` })
const workflow = (name = 'W') => ({ name, definition: aDefinition })
const post = (path: string, body: unknown, headers: Record<string, string>, who = key) =>
  server.call(who, 'POST', path, body, headers)
const countOf = async (table: string): Promise<number> =>
  (await server.context.pool.query(`select count(*)::int as n from ${table}`)).rows[0].n

describe('Idempotency-Key', () => {
  test('the same call again gets the first answer, byte for byte, and changes nothing', async () => {
    const headers = fresh()
    const first = await post('/workflows', workflow(), headers)
    const count = await countOf('workflows')
    const again = await post('/api/v1/workflows', workflow(), headers)
    expect([again.status, again.text]).toEqual([201, first.text])
    expect(first.headers.get('idempotent-replayed')).toBeNull()
    expect(again.headers.get('idempotent-replayed')).toBe('true')
    expect(again.headers.get('content-type')).toBe(first.headers.get('content-type'))
    expect(await countOf('workflows')).toBe(count)
  })

  test('a session without a second factor never gets the answer of one with it, not even a half-made one', async () => {
    const { user_id: id } = server.identities.users.owner
    const { body: saved } = await post('/workflows', workflow(), {})
    const send = async (
      cookie: Promise<string>,
      headers: Record<string, string>,
      path = '/api-keys',
      body: object = { name: 'k', scopes: ['runs:read'] },
    ) => server.call(null, 'POST', path, body, { cookie: await cookie, origin: server.base, ...headers })
    const [withFactor, another] = [factorCookie(server.context, id), factorCookie(server.context, id)]
    const [without, older] = [
      sessionCookie(server.context, id),
      sessionCookie(server.context, id, undefined, 'unrecorded'),
    ]
    for (const [first, same, other] of [
      [withFactor, another, without],
      [without, older, withFactor],
    ] as const) {
      const headers = fresh()
      const { status, text } = await send(first, headers)
      expect(status).toBe(201)
      expect((await send(same, headers)).text).toBe(text)
      // The process died before it stored the answer. The new key is only in `made` then.
      await server.context.pool.query(
        "update idempotency_keys set response_status = null, locked_until = now() - interval '1 second' where key = $1",
        [headers['idempotency-key']],
      )
      const apart = await send(other, headers)
      expect([apart.status, apart.headers.get('idempotent-replayed')]).toEqual([201, null])
      expect(apart.body.api_key).not.toBe(JSON.parse(text).api_key)
      const runs: string[] = []
      for (const each of [first, same, other]) {
        const { body } = await send(each, headers, `/workflows/${saved.id}/execute?wait=0`, {
          inputs: { to: 'a@b.test' },
        })
        runs.push(body.execution_id)
      }
      expect(runs).toEqual([expect.any(String), runs[0], expect.any(String)])
      expect(runs[2]).not.toBe(runs[0])
    }
  })

  test.each(['/api-keys/', '/v1/api-keys', '/api/v1/api-keys/'])('%s is the same route', async (path) => {
    const headers = fresh()
    const body = { name: 'k', scopes: ['runs:read'] }
    const first = await post('/api-keys', body, headers)
    const count = await countOf('api_keys')
    const again = await post(path, body, headers)
    expect(again.headers.get('idempotent-replayed')).toBe('true')
    expect(again.text).toBe(first.text)
    expect(await countOf('api_keys')).toBe(count)
  })

  test('an id in another encoding is the same, another id is not', async () => {
    const headers = fresh()
    const id = organizationId
    const rule = { name: 'one', verdict: 'deny', match_all: true, status: 'inactive' }
    const first = await post(`/organizations/${id}/rules`, rule, headers)
    const encoded = await post(`/organizations/${id.replace('_', '%5F')}/rules/`, rule, headers)
    expect([encoded.status, encoded.text]).toEqual([201, first.text])
    const [one, two] = [await post('/workflows', workflow(), {}), await post('/workflows', workflow(), {})]
    const rollback = (of: string) => post(`/workflows/${of}/versions/1/rollback`, { message: '' }, headers)
    expect((await rollback(one.body.id)).headers.get('idempotent-replayed')).toBeNull()
    expect((await rollback(two.body.id)).headers.get('idempotent-replayed')).toBeNull()
  })

  test('the order of fields does not make another body', async () => {
    const headers = fresh()
    const definition = `"definition":${JSON.stringify(aDefinition)}`
    const first = await post('/workflows', `{"name":"W",${definition}}`, headers)
    const again = await post('/workflows', `{${definition}, "name":"W"}`, headers)
    expect(again.text).toBe(first.text)
  })

  test('another body is a mismatch', async () => {
    const headers = fresh()
    await post('/workflows', workflow('A'), headers)
    const answer = await post('/workflows', workflow('B'), headers)
    expect([answer.status, answer.body.error.code]).toEqual([422, 'idempotency_mismatch'])
  })

  test('of racing calls one acts; the others get its answer or must wait', async () => {
    const headers = fresh()
    const before = await countOf('workflows')
    const answers = await Promise.all(
      Array.from({ length: 6 }, () => post('/workflows', workflow(), headers)),
    )
    expect(await countOf('workflows')).toBe(before + 1)
    for (const answer of answers)
      if (answer.status !== 201) expect(answer.body.error.code).toBe('idempotency_in_progress')
  })

  test('a refusal by the domain is kept, one by the form of the body is not', async () => {
    const rules = `/organizations/${organizationId}/rules`
    const rule = { name: 'taken', verdict: 'deny', match_all: true, status: 'inactive' }
    const { id } = (await post(rules, rule, {})).body
    const headers = fresh()
    expect((await post(rules, { ...rule, colour: 1 }, headers)).status).toBe(422)
    const refused = await post(rules, rule, headers)
    expect(refused.status).toBe(422)
    await server.call(key, 'DELETE', `${rules}/${id}`)
    const again = await post(rules, rule, headers)
    expect([again.status, again.text]).toEqual([422, refused.text])
  })

  test('is another key for another person', async () => {
    const headers = fresh()
    const first = await post('/workflows', workflow(), headers)
    const other = await post('/workflows', workflow(), headers, keyOf('member'))
    expect(other.status).toBe(201)
    expect(other.body.id).not.toBe(first.body.id)
  })

  test('replays a new API key’s answer without storing the key readable', async () => {
    const headers = fresh()
    const first = await post('/api-keys', { name: 'k', scopes: ['runs:read'] }, headers)
    expect((await post('/api-keys', { name: 'k', scopes: ['runs:read'] }, headers)).text).toBe(first.text)
    const { rows } = await server.context.pool.query('select * from idempotency_keys')
    expect(JSON.stringify(rows)).not.toContain(first.body.api_key)
  })

  test('is another one for another API key of the same person, so that no answer goes to a narrower key', async () => {
    const narrow = await addKey(server.context, organizationId, personOf('owner').userId, ['api_keys:*'])
    const headers = fresh()
    const body = { name: 'k', scopes: ['api_keys:*', 'rules:write'] }
    const first = await post('/api-keys', body, headers)
    const other = await post('/api-keys', body, headers, narrow.secret)
    expect([other.status, other.body.error?.code]).toEqual([403, 'missing_scope'])
    expect(other.text).not.toContain(first.body.api_key)
    expect((await post('/api-keys', body, headers)).text).toBe(first.text)
  })

  test.each(['', ' ', 'a b', 'x'.repeat(256), 'ü'])('`%s` is not a key', async (text) => {
    const answer = await post('/workflows', workflow(), { 'idempotency-key': text })
    expect([answer.status, answer.body.error.code]).toEqual([400, 'bad_request'])
  })

  test('a failure on our side frees the key', async () => {
    const headers = fresh()
    const { combiner } = server.context
    Object.assign(server.context, { combiner: { run: () => Promise.reject(new Error('broken')) } })
    const failed = await post('/workflows', workflow(), headers)
    Object.assign(server.context, { combiner })
    expect([failed.status, failed.body.error.code]).toEqual([500, 'internal'])
    expect(failed.text).not.toContain('broken')
    expect((await post('/workflows', workflow(), headers)).status).toBe(201)
  })

  const named = guardedKeys.filter((each) => each.startsWith('POST ') && each.includes('{'))
  const long = randomBytes(3_000).toString('hex')
  const pathOf = (route: string, name: string) => splitKey(route).path.replaceAll(/\{\w+\}/g, name)

  test.each(named)('%s accepts the longest name that fits into a request’s path', async (route) => {
    const answer = await post(pathOf(route, long), {}, fresh())
    expect([answer.status < 500, answer.text]).toEqual([true, answer.text])
  })

  test('two long paths are two calls, and a repeated one is one', async () => {
    const { context } = server
    const owner = personOf('owner')
    const world = new World(server, { organizationId, owner, requester: owner }, owner)
    const { webhook: webhookId, delivery: one } = await world.delivery()
    const webhook = `/organizations/${organizationId}/webhooks/${webhookId}`
    const [event, other] = [newId('message'), newId('delivery')]
    const copy = async (table: 'webhook_events' | 'webhook_deliveries', given: object) => {
      const row = await context.db.selectFrom(table).selectAll().executeTakeFirstOrThrow()
      await context.db
        .insertInto(table)
        .values({ ...row, ...given })
        .execute()
    }
    await copy('webhook_events', { id: event })
    await copy('webhook_deliveries', { id: other, event_id: event })
    const headers = fresh()
    const replayed = async (delivery: string) => {
      const answer = await post(`${webhook}/deliveries/${delivery}/redeliver`, {}, headers)
      expect(answer.status).toBe(202)
      return answer.headers.get('idempotent-replayed')
    }
    expect(await replayed(one)).toBeNull()
    expect(await replayed(other)).toBeNull()
    expect(await replayed(one)).toBe('true')
  })
})

describe('a process that ends between commit and answer', () => {
  /*
   * A repeated request with the same key and body gets the first answer again. This holds even if the process died
   * between the commit and the answer, or was so slow that its lock expired. Every changing route is tested with its
   * valid request.
   */

  /** Additional checks of the answer to the repeated request. */
  type Check = (answer: Answer, sent: Request) => Promise<void>

  let place: Place
  beforeAll(async () => {
    place = await addPlace(server, organizationId, personOf('owner'))
  })

  const found = (by: BootstrapName, path: string, body: unknown) =>
    as(by, 'GET', path).then((answer) => expect(answer.body).toMatchObject(body as object))
  const foundBelow: Check = (answer, { path }) => found('admin', `${path}/${answer.body.id}`, answer.body)
  const voted =
    (decision: 'approve' | 'reject', status: string): Check =>
    async (answer, { path, body }) => {
      expect(answer.body).toMatchObject({ status, votes: [{ decision, comment: 'c' }] })
      // A request with another key counts as another vote.
      const second = await as('admin', 'POST', path, body, fresh())
      expect(second.body.error.code).toBe('approval_already_decided')
    }

  const checks: Partial<Record<GuardedKey, Check>> = {
    'POST /workflows': (answer) => found('member', `/workflows/${answer.body.id}`, answer.body),
    async 'POST /workflows/{id}/versions/{version}/rollback'(answer) {
      expect(answer.body).toMatchObject({ new_version: 2, rolled_back_from: 1 })
    },
    async 'POST /workflow-registry/{id}/use'(answer) {
      const { body } = await as('member', 'GET', '/workflows?limit=2')
      const made = body.data.map((each: { id: string }) => each.id)
      // The workflow was created only once: it is the newest, and the one before it is the template.
      expect(made).toEqual([answer.body.id, answer.body.template_id])
    },
    async 'POST /workflows/{id}/execute'(answer, { path }) {
      const { body } = await as('member', 'GET', `/runs?workflow_id=${path.split('/')[2]}`)
      expect(body.data.map((run: { id: string }) => run.id)).toEqual([answer.body.execution_id])
    },
    'POST /approvals/{id}/approve': voted('approve', 'approved'),
    'POST /approvals/{id}/reject': voted('reject', 'rejected'),
    'POST /organizations/{id}/rules': foundBelow,
    'POST /organizations/{id}/label-rules': foundBelow,
    async 'POST /organizations'(answer) {
      const { organizations } = (await as('viewer', 'GET', '/me')).body
      const { id } = answer.body
      expect(organizations.filter((each: { id: string }) => each.id === id)).toEqual([
        {
          ...answer.body,
          frozen: null,
          groups: [],
          deputy_for: [],
          slack_account: null,
          slack_problem: null,
          slack_claim: null,
        },
      ])
    },
    async 'POST /api-keys'(answer) {
      expect((await server.call(answer.body.api_key, 'GET', '/me')).status).toBe(200)
      const listed = (await as('owner', 'GET', '/api-keys?limit=200')).body.data
      expect(listed.filter((each: { id: string }) => each.id === answer.body.id)).toHaveLength(1)
    },
  }

  /** Total length of all audit chains. Every change appends an entry to a chain. */
  async function changes(): Promise<number> {
    const { rows } = await server.context.pool.query<{ seq: number }>(
      'select sum(seq)::int as seq from chain_head',
    )
    return rows[0]?.seq as number
  }

  const rowOf = async (key: string) =>
    (await server.context.pool.query('select * from idempotency_keys where key = $1', [key])).rows[0]

  /**
   * Repeats the request once the lock of the earlier request has expired. The expiry is forced here. If the lock is
   * renewed in between, the loop only tries once more.
   */
  async function askAgain(send: (base: string) => Promise<Answer>, key: string): Promise<Answer> {
    for (;;) {
      await server.context.pool.query(
        `update idempotency_keys set locked_until = clock_timestamp() - interval '1 second' where key = $1`,
        [key],
      )
      const answer = await send(server.base)
      if (answer.body?.error?.code !== 'idempotency_in_progress') return answer
    }
  }

  /**
   * The route's valid request, sent by the lowest role that may send it. No other test uses the object of the request.
   */
  async function prepare(key: GuardedKey): Promise<Request> {
    const world = new World(server, place, personOf(accessTo(key).role))
    return requestOf(key, organizationId, await validRequests[key].prepare(world))
  }

  async function start(route: GuardedKey, prepared?: Request) {
    const request = prepared ?? (await prepare(route))
    const by = keyOf(accessTo(route).role)
    const headers = fresh()
    const send = (base: string): Promise<Answer> =>
      base === server.base
        ? server.call(by, 'POST', request.path, request.body, headers)
        : postTo(`${base}${request.path}`, by, request.body, headers)
    return { request, key: headers['idempotency-key'], send, before: await changes() }
  }

  // API keys cannot call routes that need a session with a second factor.
  const routes = guardedKeys.filter(
    (key) => isActing(key) && accessTo(key).factor !== true && !withoutObjects.has(key),
  )

  describe('a process that dies between the commit and the answer', () => {
    test.each(routes)('%s: asked again, it returns the answer and does nothing again', async (route) => {
      const { request, key, send, before } = await start(route)
      await sendAndDie(server.context, send)
      const done = await changes()
      expect(done).toBeGreaterThan(before)
      expect((await rowOf(key)).response_status).toBeNull()

      const again = await askAgain(send, key)
      expect([again.status, again.headers.get('idempotent-replayed')]).toEqual([
        validRequests[route].status,
        null,
      ])
      expect(await changes()).toBe(done)
      const replayed = await send(server.base)
      expect([replayed.status, replayed.text]).toEqual([again.status, again.text])
      expect(replayed.headers.get('idempotent-replayed')).toBe('true')
      expect((await rowOf(key)).made).toBeNull()
      await checks[route]?.(again, request)
    })

    test('stores a new API key’s secret unreadable', async () => {
      const { key, send } = await start('POST /api-keys')
      await sendAndDie(server.context, send)
      const { made } = await rowOf(key)
      const { body } = await askAgain(send, key)
      expect(made).not.toBeNull()
      expect(Buffer.from(made as string, 'base64').toString('latin1')).not.toContain(body.api_key)
    })

    test('returns its answer even if the cancelled run has ended by then', async () => {
      const first = await start('POST /runs/{id}/cancel')
      // The second request finds that the run is cancelled already, and its answer says so.
      const second = start('POST /runs/{id}/cancel', first.request)
      const both = [first, await second]
      for (const { send } of both) await sendAndDie(server.context, send)
      const runId = first.request.path.split('/')[2] as string
      await finishRun(server.context, { runId, status: 'cancelled' })
      for (const { send, key } of both)
        expect((await askAgain(send, key)).body).toMatchObject({ id: runId, status: 'cancelled' })
    })

    test('returns its answer even if the object it made is gone by then', async () => {
      const { request, key, send } = await start('POST /organizations/{id}/rules')
      await sendAndDie(server.context, send)
      const { body } = await as('admin', 'GET', request.path)
      const [newest] = body.data
      await as('admin', 'DELETE', `${request.path}/${newest.id}`)
      const again = await askAgain(send, key)
      expect([again.status, again.body]).toEqual([201, newest])
      expect((await as('admin', 'GET', `${request.path}/${newest.id}`)).status).toBe(404)
    })

    test('returns the accepted run, although a rule saved meanwhile would refuse it', async () => {
      const { key, send } = await start('POST /workflows/{id}/execute')
      await sendAndDie(server.context, send)
      const path = `/organizations/${organizationId}/rules`
      const rule = { name: 'nothing any more', verdict: 'deny', match_all: true }
      const saved = await as('admin', 'POST', path, rule)
      const again = await askAgain(send, key)
      await as('admin', 'DELETE', `${path}/${saved.body.id}`)
      expect(again).toMatchObject({ status: 202, body: { execution_id: expect.any(String) } })
    })
  })

  describe('a process that was slow and lost its lock', () => {
    test.each(routes)('%s: changes nothing any more', async (route) => {
      const { request, key, send } = await start(route)
      let heir!: Answer
      let done = 0
      const slow = await sendAndStall(server.context, send, async () => {
        heir = await askAgain(send, key)
        done = await changes()
      })
      expect(heir.status).toBe(validRequests[route].status)
      expect(await changes()).toBe(done)
      // The run stores the `Idempotency-Key`, so the slow process finds the run. All other routes refuse the request.
      expect([409, 422, 202]).toContain(slow.status)
      if (slow.status === 202) expect(slow.body.execution_id).toBe(heir.body.execution_id)
      expect((await send(server.base)).text).toBe(heir.text)
      await checks[route]?.(heir, request)
    })
  })
})

import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { access, acts, type ActingKey, type RouteKey } from '../../src/api/access.ts'
import type { BootstrapName } from '../../src/governance/people/bootstrap.ts'
import { finishRun } from '../../src/governance/runs/end/finish.ts'
import { accessTo, requestOf, validRequests, type Request } from './access-matrix/valid-requests.ts'
import { addPlace, type Person, type Place } from './access-matrix/place.ts'
import { World } from './access-matrix/world.ts'
import { postTo, sendAndDie, sendAndStall } from './failing-server.ts'
import { startTestServer, type Answer, type TestServer } from './server.ts'

/*
 * A repeated request with the same key and body gets the first answer again. This holds even if the process died
 * between the commit and the answer, or was so slow that its lock expired. Every changing route is tested with its
 * valid request.
 */

/** Additional checks of the answer to the repeated request. */
type Check = (answer: Answer, sent: Request) => Promise<void>

let server: TestServer
let organizationId: string
let place: Place
let counter = 0
const fresh = (word: string) => `${word}-${(counter += 1)}`
const personOf = (name: BootstrapName): Person => {
  const { user_id: userId, api_key: key } = server.identities.users[name]
  return { userId, key }
}
const keyOf = (name: BootstrapName) => personOf(name).key

beforeAll(async () => {
  server = await startTestServer()
  organizationId = server.identities.organization_id
  place = await addPlace(server, organizationId, personOf('owner'))
})
afterAll(() => server.close())

const found = (by: BootstrapName, path: string, body: unknown) =>
  server.call(keyOf(by), 'GET', path).then((answer) => expect(answer.body).toEqual(body))
const foundBelow: Check = (answer, { path }) => found('admin', `${path}/${answer.body.id}`, answer.body)
const voted =
  (decision: 'approve' | 'reject', status: string): Check =>
  async (answer, { path, body }) => {
    expect(answer.body).toMatchObject({ status, votes: [{ decision, comment: 'c' }] })
    // A request with another key counts as another vote.
    const second = await server.call(keyOf('admin'), 'POST', path, body, { 'idempotency-key': fresh('key') })
    expect(second.body.error.code).toBe('approval_already_decided')
  }

const checks: Partial<Record<ActingKey, Check>> = {
  'POST /workflows': (answer) => found('member', `/workflows/${answer.body.id}`, answer.body),
  async 'POST /workflows/{id}/versions/{version}/rollback'(answer) {
    expect(answer.body).toMatchObject({ new_version: 2, rolled_back_from: 1 })
  },
  async 'POST /workflow-registry/{id}/use'(answer) {
    const { body } = await server.call(keyOf('member'), 'GET', '/workflows?limit=2')
    const made = body.data.map((each: { id: string }) => each.id)
    // The workflow was created only once: it is the newest, and the one before it is the template.
    expect(made).toEqual([answer.body.id, answer.body.template_id])
  },
  async 'POST /workflows/{id}/execute'(answer, { path }) {
    const { body } = await server.call(keyOf('member'), 'GET', `/runs?workflow_id=${path.split('/')[2]}`)
    expect(body.data.map((run: { id: string }) => run.id)).toEqual([answer.body.execution_id])
  },
  'POST /approvals/{id}/approve': voted('approve', 'approved'),
  'POST /approvals/{id}/reject': voted('reject', 'rejected'),
  'POST /organizations/{id}/rules': foundBelow,
  'POST /organizations/{id}/label-rules': foundBelow,
  async 'POST /organizations'(answer) {
    const { organizations } = (await server.call(keyOf('viewer'), 'GET', '/me')).body
    const { id } = answer.body
    expect(organizations.filter((each: { id: string }) => each.id === id)).toEqual([
      { ...answer.body, slack_account: null, slack_claim: null },
    ])
  },
  async 'POST /api-keys'(answer) {
    expect((await server.call(answer.body.api_key, 'GET', '/me')).status).toBe(200)
    const listed = (await server.call(keyOf('owner'), 'GET', '/api-keys?limit=200')).body.data
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
async function prepare(key: ActingKey): Promise<Request> {
  const world = new World(server, place, personOf(accessTo(key).role))
  return requestOf(key, organizationId, await validRequests[key].prepare(world))
}

async function start(route: ActingKey, prepared?: Request) {
  const request = prepared ?? (await prepare(route))
  const by = keyOf(accessTo(route).role)
  const key = fresh('crash')
  const headers = { 'idempotency-key': key }
  const send = (base: string): Promise<Answer> =>
    base === server.base
      ? server.call(by, 'POST', request.path, request.body, headers)
      : postTo(`${base}${request.path}`, by, request.body, headers)
  return { request, key, send, before: await changes() }
}

// API keys cannot call routes that need a session with a second factor.
const routes = (Object.keys(access) as RouteKey[]).filter(acts).filter((key) => !('factor' in access[key]))

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
    const { body } = await server.call(keyOf('admin'), 'GET', request.path)
    const [newest] = body.data
    await server.call(keyOf('admin'), 'DELETE', `${request.path}/${newest.id}`)
    const again = await askAgain(send, key)
    expect([again.status, again.body]).toEqual([201, newest])
    expect((await server.call(keyOf('admin'), 'GET', `${request.path}/${newest.id}`)).status).toBe(404)
  })
})

describe('a run that was accepted', () => {
  test('is the answer, although a rule saved meanwhile would refuse it', async () => {
    const { key, send } = await start('POST /workflows/{id}/execute')
    await sendAndDie(server.context, send)
    const path = `/organizations/${server.identities.organization_id}/rules`
    const rule = { name: 'nothing any more', verdict: 'deny', match_all: true }
    const saved = await server.call(keyOf('admin'), 'POST', path, rule)
    const again = await askAgain(send, key)
    await server.call(keyOf('admin'), 'DELETE', `${path}/${saved.body.id}`)
    expect([again.status, again.body]).toEqual([
      202,
      expect.objectContaining({ execution_id: expect.any(String) }),
    ])
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

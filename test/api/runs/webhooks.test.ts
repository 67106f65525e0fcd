import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { chosenEvents } from '../../../src/contract/webhook-events.ts'
import { expireDue } from '../../../src/governance/approvals/expire.ts'
import { finishRun } from '../../../src/governance/runs/end/finish.ts'
import { webhookMessage } from '../../../src/api/routes/webhooks.ts'
import { mostWebhooks } from '../../../src/governance/webhooks/webhooks.ts'
import { sendAll, verified } from '../../governance/webhooks/fixture.ts'
import { startScriptedServer, type ScriptedServer } from '../../support/scripted-server.ts'
import { addPlace, type Place } from '../access-matrix/place.ts'
import { World } from '../access-matrix/world.ts'
import { Agent } from '../agents/agent.ts'
import { addOrganization } from '../fixtures.ts'
import { useServer } from '../use-server.ts'
import type { Answer, TestServer } from '../server.ts'

let server: TestServer
let receiver: ScriptedServer
let place: Place
let world: World
const { personOf } = useServer(async (started) => {
  server = started
  receiver = await startScriptedServer()
  receiver.answer = () => ({ status: 204 })
  place = await addPlace(server, server.identities.organization_id, personOf('owner'))
  world = new World(server, place, place.owner)
})
afterAll(() => receiver?.close())

const path = (...rest: string[]) => ['/organizations', place.organizationId, 'webhooks', ...rest].join('/')
type Headers = Record<string, string>
const send = (method: string, to: string, body?: unknown, headers?: Headers): Promise<Answer> =>
  server.call(place.owner.key, method, to, body, headers)
const create = (body: object = {}, headers?: Headers): Promise<Answer> =>
  send('POST', path(), { url: `${receiver.url}/hook`, events: ['run.completed'], ...body }, headers)
/** Does `work` under this rule. */
async function ruled(rule: object, work: () => Promise<void>): Promise<void> {
  const rules = `/organizations/${place.organizationId}/rules`
  const { id } = (await send('POST', rules, rule)).body
  await work()
  await send('DELETE', `${rules}/${id}`)
}

describe('the routes', () => {
  afterEach(() => world.withoutWebhooks())

  test('show the secret once, and the webhook afterwards', async () => {
    const { status, body } = await create({ events: ['run.failed', 'approval.created', 'run.failed'] })
    expect(status).toBe(201)
    const { secret, ...made } = body
    const rest = { ...made, last_delivery: null }
    expect(secret).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/)
    expect(rest).toMatchObject({
      url: `${receiver.url}/hook`,
      host: new URL(receiver.url).host,
      events: ['approval.created', 'run.failed'],
      active: true,
      disabled_reason: null,
    })
    expect((await send('GET', path())).body).toEqual({ data: [rest], next_cursor: null })
    expect((await send('GET', path(rest.id))).body).toEqual(rest)
    const changed = await send('PATCH', path(rest.id), { events: ['run.denied'], active: false })
    expect(changed.body).toEqual({ ...rest, events: ['run.denied'], active: false })
    const rotated = (await send('POST', path(rest.id, 'rotate-secret'), {})).body
    expect(rotated.secret).not.toBe(secret)
    expect(Date.parse(rotated.former_secret_until) - Date.now()).toBeGreaterThan(23 * 3_600_000)
    expect((await send('DELETE', path(rest.id))).status).toBe(204)
    for (const [method, to, sent] of [
      ['GET', path(rest.id)],
      ['PATCH', path(rest.id), {}],
      ['DELETE', path(rest.id)],
      ['POST', path(rest.id, 'rotate-secret'), {}],
      ['POST', path(rest.id, 'test'), {}],
      ['GET', path(rest.id, 'deliveries')],
      ['POST', path(rest.id, 'deliveries', 'dlv_1', 'redeliver'), {}],
    ] as const)
      expect([to, (await send(method, to, sent)).status]).toEqual([to, 404])
  })

  test('show an admin the host and what failed, and not the address; a member is refused', async () => {
    const { id } = (await create()).body
    receiver.answer = () => ({ status: 500 })
    await send('POST', path(id, 'test'), {})
    await sendAll(server.context)
    receiver.answer = () => ({ status: 204 })
    const { users } = server.identities
    const read = (who: 'admin' | 'member') => server.call(users[who].api_key, 'GET', path())
    expect((await read('admin')).body.data).toEqual([
      expect.objectContaining({
        url: null,
        host: new URL(receiver.url).host,
        last_delivery: expect.objectContaining({
          event_type: 'webhook.test',
          state: 'waiting',
          last_error: 'the answer was 500',
        }),
      }),
    ])
    expect((await read('member')).status).toBe(403)
    const shown = (await send('GET', path(id))).body
    expect(shown).toMatchObject({ url: `${receiver.url}/hook`, last_delivery: { attempts: 1 } })
  })

  test('repeat the first answer, with its secret, for the same key', async () => {
    const headers = { 'idempotency-key': 'one' }
    const [first, second] = [await create({}, headers), await create({}, headers)]
    expect(second.body).toEqual(first.body)
    expect((await send('GET', path())).body.data).toHaveLength(1)
  })

  test('keep address and secrets sealed', async () => {
    const { body } = await create({ url: `${receiver.url}/token-in-path` })
    const { rows } = await server.context.pool.query('select webhooks::text as row from webhooks')
    expect(rows).toHaveLength(1)
    expect(rows[0].row).not.toContain('token-in-path')
    expect(rows[0].row).not.toContain(body.secret)
    const { rows: entries } = await server.context.pool.query(
      `select canonical from audit_events where event_type like 'webhook.%'`,
    )
    expect(entries.length).toBeGreaterThan(3)
    expect(JSON.stringify(entries)).not.toMatch(/token-in-path|whsec_/)
  })

  test('refuse what cannot be sent to', async () => {
    const wrong = [
      ...['nothing', 'ftp://example.com/', 'http://example.com/', 'javascript:alert(1)'],
      ...['https://user:pass@example.com/', 'https://example.com/#part'],
      ...['https://10.0.0.1/', 'https://192.168.1.1/', 'https://0/', 'https://2130706433/'],
      ...['https://0x7f.1:8443/', 'https://[::ffff:10.0.0.1]/', 'https://[::ffff:a9fe:a9fe]/'],
      ...['https://169.254.169.254/latest/meta-data', 'https://100.100.100.200/', 'https://168.63.129.16/'],
      ...['https://[fd00:ec2::254]/', 'https://[fe80::1]/', 'https://[::7f00:1]/', 'https://[fec0::1]/'],
      'https://[64:ff9b::7f00:1]/',
    ]
    // These two addresses are loopback, which is allowed in development.
    const allowed = new Set(['https://0x7f.1:8443/', 'https://2130706433/'])
    for (const url of wrong) {
      const { status, body } = await create({ url })
      expect([url, status]).toEqual([url, allowed.has(url) ? 201 : 422])
      if (status === 422) expect(body.error.details).toMatchObject([{ path: 'url' }])
    }
    expect((await create({ events: [] })).status).toBe(422)
    expect((await create({ events: ['webhook.test'] })).status).toBe(422)
  })

  test('send no test while the organization is frozen', async () => {
    const { id } = (await create()).body
    const organization = `/organizations/${place.organizationId}`
    await send('POST', path(id, 'test'), {})
    await sendAll(server.context)
    const [earlier] = (await send('GET', path(id, 'deliveries'))).body.data
    await send('POST', `${organization}/freeze`, { reason: 'an incident' })
    try {
      for (const way of ['test', `deliveries/${earlier.id}/redeliver`]) {
        const refused = await send('POST', path(id, way), {})
        expect([refused.status, refused.body.error.message]).toEqual([
          409,
          'the organization is frozen (an incident): try again when an owner has ended the freeze',
        ])
      }
    } finally {
      await send('POST', `${organization}/unfreeze`, { reason: 'over' })
    }
    expect((await send('POST', path(id, 'test'), {})).status).toBe(202)
  })

  test('allow only so many', async () => {
    for (let n = 0; n < mostWebhooks; n += 1) expect((await create()).status).toBe(201)
    const { status, body } = await create()
    expect(status).toBe(422)
    expect(body.error.message).toContain(`at most ${mostWebhooks} webhooks`)
    const first = (await send('GET', `${path()}?limit=15`)).body
    const second = (await send('GET', `${path()}?limit=15&cursor=${first.next_cursor}`)).body
    expect([...first.data, ...second.data]).toHaveLength(mostWebhooks)
  })

  test('show another organization nothing', async () => {
    const { body } = await create()
    const { id, owner } = await addOrganization(server.context)
    const theirs = `/organizations/${id}/webhooks`
    const own = `${theirs}/${body.id}`
    for (const [method, to] of [
      ...[path(body.id), own, `${own}/deliveries`].map((to) => ['GET', to] as const),
      ...['test', 'rotate-secret'].map((verb) => ['POST', `${own}/${verb}`] as const),
      ['DELETE', own] as const,
    ])
      expect([method, to, (await server.call(owner.key, method, to)).status]).toEqual([method, to, 404])
    expect((await server.call(owner.key, 'GET', theirs)).body.data).toEqual([])
    expect((await send('GET', path(body.id))).status).toBe(200)
  })
})

describe('events', () => {
  let secret: string
  beforeAll(async () => {
    secret = (await create({ events: chosenEvents })).body.secret
  })
  beforeEach(async () => {
    await sendAll(server.context)
    receiver.arrived.length = 0
  })
  afterAll(() => world.withoutWebhooks())

  /** The messages since the test began. Each has the published form, and no message contains a parameter. */
  const arrived = async () => {
    await sendAll(server.context)
    return receiver.arrived
      .map((each) => webhookMessage.parse(verified(secret, each)))
      .sort((a, b) => (a.type < b.type ? -1 : 1))
  }
  const links = /\/console\/(approvals\/apr|runs\/run|sessions\/ses)_/

  test('a run waits, is approved and completes', async () => {
    const runId = await world.run()
    const approvalId = await world.approvalOf(runId)
    await send('POST', `/approvals/${approvalId}/approve`, { comment: 'private words' })
    await finishRun(server.context, { runId, status: 'failed', stepId: 's' })
    const about = { organization_id: place.organizationId, run_id: runId, workflow_name: 'W', requested_by: place.requester.userId } // prettier-ignore
    const messages = await arrived()
    expect(messages).toMatchObject([
      { type: 'approval.created', data: { ...about, approval_id: approvalId, kind: 'run', risk: 'medium', approver: 'admin' } }, // prettier-ignore
      { type: 'approval.decided', data: { ...about, approval_id: approvalId, status: 'approved', decided_by: place.owner.userId } }, // prettier-ignore
      { type: 'run.failed', data: about },
    ])
    for (const { data } of messages) expect(data.link).toMatch(links)
    expect(JSON.stringify(messages)).not.toContain('private words')
  })

  test('a rejection that asks for changes says so', async () => {
    const approvalId = await world.approval()
    await send('POST', `/approvals/${approvalId}/reject`, { request_changes: true, comment: 'c' })
    expect((await arrived())[1]).toMatchObject({
      type: 'approval.decided',
      data: { status: 'rejected', changes_requested: true },
    })
  })

  test('an approval expires, and others are withdrawn with their run', async () => {
    const expired = await world.approval()
    await server.context.pool.query('update approvals set expires_at = now() where id = $1', [expired])
    await expireDue(server.context)
    const runId = await world.endedRun()
    const types = (await arrived()).map(({ type, data }) => [type, data.approval_id === expired, data.run_id === runId]) // prettier-ignore
    expect(types).toEqual([
      ['approval.created', true, false],
      ['approval.created', false, true],
      ['approval.expired', true, false],
      ['approval.withdrawn', false, true],
      ['run.cancelled', false, true],
    ])
  })

  test('an outcome is unknown', async () => {
    const runId = await world.runWithStep('unknown_outcome')
    expect((await arrived()).at(-1)).toMatchObject({
      type: 'effect.unknown',
      data: { run_id: runId, step_id: 's', link: expect.stringMatching(links) },
    })
  })

  test('a run is refused before it starts', async () => {
    const workflow = await world.workflow()
    await ruled({ name: 'no reading', verdict: 'deny', tools: ['memory_get'] }, async () => {
      expect((await send('POST', `/workflows/${workflow}/execute?wait=0`, {})).status).toBe(403)
    })
    const [message] = await arrived()
    expect(message).toMatchObject({
      type: 'run.denied',
      data: { workflow_id: workflow, step_id: 's', rule_name: 'no reading' },
    })
    expect(message?.data).not.toHaveProperty('run_id')
  })

  test('an agent acts without permission, with a hostile name of a tool', async () => {
    const agent = new Agent(server, place.requester.key)
    const tool = `mcp__x__"}<b>${'long'.repeat(40)}`
    await agent.finish(agent.question(tool, { secret: 'the parameter' }))
    const [message] = await arrived()
    expect(message).toMatchObject({
      type: 'agent.unapproved_call',
      data: { session_id: expect.stringMatching(/^ses_/), link: expect.stringMatching(links) },
    })
    expect(message?.data.tool).toBe(tool)
    expect(JSON.stringify(message)).not.toContain('the parameter')
  })

  test('an agent’s call is held, and withdrawn', async () => {
    const agent = new Agent(server, place.requester.key)
    let held: Record<string, string> = {}
    await ruled({ name: 'ask', verdict: 'require_approval', tools: ['Bash'] }, async () => {
      held = await agent.ask('Bash', { command: 'echo secret-word' })
      await server.call(agent.key, 'POST', `/authorize/approvals/${held['approval_id']}/cancel`, {})
    })
    const messages = await arrived()
    expect(messages).toMatchObject([
      { type: 'approval.created', data: { kind: 'agent_call', tool: 'Bash', rule_name: 'ask' } },
      { type: 'approval.withdrawn', data: { approval_id: held['approval_id'], status: 'cancelled' } },
    ])
    expect(JSON.stringify(messages)).not.toContain('secret-word')
  })
})

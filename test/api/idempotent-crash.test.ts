import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { access, acts, type ActingKey, type RouteKey } from '../../src/api/access.ts'
import type { BootstrapName } from '../../src/governance/bootstrap.ts'
import { decideSteps } from '../../src/governance/runs/effect.ts'
import { enterRun } from '../../src/governance/runs/enter.ts'
import { finishRun } from '../../src/governance/runs/finish.ts'
import { markSent, recordOutcomes } from '../../src/governance/runs/outcome.ts'
import { oneStep, opOf, outcomeOf } from '../governance/runs/engine-fixture.ts'
import { postTo, sendAndDie, sendAndStall } from './failing-server.ts'
import { aLabelRule, aRule } from './fixtures.ts'
import { startTestServer, type Answer, type TestServer } from './server.ts'

/*
 * "Same key and body → the first answer again" (contract section 1), also when the process ended between the commit and
 * the answer, or was so slow that it was taken for dead. For every route that acts: one that is added must be added here.
 */

interface Prepared {
  readonly path: string
  readonly body?: unknown
}
interface Case {
  readonly by: BootstrapName
  readonly status: number
  /** Makes what the request is about; nothing of it may be shared with another test. */
  readonly prepare: () => Promise<Prepared>
  /** Beyond status and form: what else must hold of the answer that comes late. */
  readonly check?: (answer: Answer, prepared: Prepared) => Promise<void>
}

let server: TestServer
let organizationId: string
let counter = 0
const fresh = (word: string) => `${word}-${(counter += 1)}`
const keyOf = (name: BootstrapName) => server.identities.users[name].api_key

beforeAll(async () => {
  server = await startTestServer()
  organizationId = server.identities.organization_id
  const path = `/organizations/${organizationId}/governance`
  const settings = { approvals_enabled: true, approval_required_from: 'low' }
  expect((await server.call(keyOf('owner'), 'PATCH', path, settings)).status).toBe(200)
})
afterAll(() => server.close())

async function post(by: BootstrapName, path: string, body: unknown): Promise<Answer> {
  const answer = await server.call(keyOf(by), 'POST', path, body)
  if (answer.status >= 300) throw new Error(answer.text)
  return answer
}
const newWorkflow = async (): Promise<string> =>
  (await post('member', '/workflows', { name: 'W', definition: oneStep })).body.id
const newTemplate = async (): Promise<string> => {
  const id = await newWorkflow()
  await post('owner', `/workflow-registry/${id}/approve-template`, { template_name: 'T' })
  return id
}
const newRun = async (): Promise<string> =>
  (await post('member', `/workflows/${await newWorkflow()}/execute?wait=0`, {})).body.execution_id

async function approvalOf(runId: string): Promise<string> {
  const { body } = await server.call(keyOf('admin'), 'GET', `/approvals?run_id=${runId}`)
  return body.data[0].id
}

async function runWithUnknownOutcome(): Promise<string> {
  const runId = await newRun()
  await post('admin', `/approvals/${await approvalOf(runId)}/approve`, {})
  await enterRun(server.context, runId)
  const op = opOf(runId)
  await server.context.combiner.join(organizationId, decideSteps, op)
  await markSent(server.context, op.key, 1)
  await server.context.combiner.join(organizationId, recordOutcomes, outcomeOf(op, 1, 'unknown_outcome'))
  return runId
}

const found = (by: BootstrapName, path: string, body: unknown) =>
  server.call(keyOf(by), 'GET', path).then((answer) => expect(answer.body).toEqual(body))
const rulesCase = (path: string, rule: { name: string }): Case => ({
  by: 'admin',
  status: 201,
  prepare: async () => ({
    path: `/organizations/${organizationId}/${path}`,
    body: { ...rule, name: fresh('rule'), status: 'inactive' },
  }),
  check: (answer, prepared) => found('admin', `${prepared.path}/${answer.body.id}`, answer.body),
})
const cancelCase = (root: string): Case => ({
  by: 'member',
  status: 200,
  prepare: async () => ({ path: `/${root}/${await newRun()}/cancel`, body: {} }),
})
const voteCase = (decision: 'approve' | 'reject', status: string): Case => ({
  by: 'admin',
  status: 200,
  prepare: async () => ({
    path: `/approvals/${await approvalOf(await newRun())}/${decision}`,
    body: { comment: 'c' },
  }),
  async check(answer, { path, body }) {
    expect(answer.body).toMatchObject({ status, votes: [{ decision, comment: 'c' }] })
    // Another key is another vote.
    const second = await server.call(keyOf('admin'), 'POST', path, body, { 'idempotency-key': fresh('key') })
    expect(second.body.error.code).toBe('approval_already_decided')
  },
})

const cases: Readonly<Record<ActingKey, Case>> = {
  'POST /workflows': {
    by: 'member',
    status: 201,
    prepare: async () => ({ path: '/workflows', body: { name: fresh('wf'), definition: oneStep } }),
    check: (answer) => found('member', `/workflows/${answer.body.id}`, answer.body),
  },
  'POST /workflows/{id}/versions/{version}/rollback': {
    by: 'admin',
    status: 200,
    prepare: async () => ({
      path: `/workflows/${await newWorkflow()}/versions/1/rollback`,
      body: { message: 'm' },
    }),
    async check(answer) {
      expect(answer.body).toMatchObject({ new_version: 2, rolled_back_from: 1 })
    },
  },
  'POST /workflow-registry/{id}/approve-template': {
    by: 'owner',
    status: 200,
    prepare: async () => ({
      path: `/workflow-registry/${await newWorkflow()}/approve-template`,
      body: { template_name: 'T' },
    }),
  },
  'POST /workflow-registry/{id}/deprecate': {
    by: 'owner',
    status: 200,
    prepare: async () => ({
      path: `/workflow-registry/${await newTemplate()}/deprecate`,
      body: { reason: 'r' },
    }),
  },
  'POST /workflow-registry/{id}/archive': {
    by: 'owner',
    status: 200,
    async prepare() {
      const id = await newTemplate()
      await post('owner', `/workflow-registry/${id}/deprecate`, { reason: 'r' })
      return { path: `/workflow-registry/${id}/archive` }
    },
  },
  'POST /workflow-registry/{id}/use': {
    by: 'member',
    status: 201,
    prepare: async () => ({ path: `/workflow-registry/${await newTemplate()}/use`, body: {} }),
    async check(answer) {
      const { body } = await server.call(keyOf('member'), 'GET', '/workflows?limit=2')
      const made = body.data.map((each: { id: string }) => each.id)
      // The newest, and made once: the one before it is the template.
      expect(made).toEqual([answer.body.id, answer.body.template_id])
    },
  },
  'POST /workflows/{id}/execute': {
    by: 'member',
    status: 202,
    prepare: async () => ({ path: `/workflows/${await newWorkflow()}/execute?wait=0`, body: {} }),
    async check(answer, { path }) {
      const { body } = await server.call(keyOf('member'), 'GET', `/runs?workflow_id=${path.split('/')[2]}`)
      expect(body.data.map((run: { id: string }) => run.id)).toEqual([answer.body.execution_id])
    },
  },
  'POST /runs/{id}/cancel': cancelCase('runs'),
  'POST /executions/{id}/cancel': cancelCase('executions'),
  'POST /runs/{id}/steps/{step}/resolve': {
    by: 'admin',
    status: 200,
    prepare: async () => ({
      path: `/runs/${await runWithUnknownOutcome()}/steps/s/resolve`,
      body: { outcome: 'retry' },
    }),
  },
  'POST /approvals/{id}/approve': voteCase('approve', 'approved'),
  'POST /approvals/{id}/reject': voteCase('reject', 'rejected'),
  'POST /organizations/{id}/rules': rulesCase('rules', aRule),
  'POST /organizations/{id}/label-rules': rulesCase('label-rules', aLabelRule),
  'POST /api-keys': {
    by: 'member',
    status: 201,
    prepare: async () => ({ path: '/api-keys', body: { name: fresh('key'), scopes: ['runs:read'] } }),
    async check(answer, { body }) {
      expect((await server.call(answer.body.api_key, 'GET', '/runs')).status).toBe(200)
      const listed = (await server.call(keyOf('owner'), 'GET', '/api-keys?limit=200')).body.data
      const { name } = body as { name: string }
      expect(listed.filter((each: { name: string }) => each.name === name)).toHaveLength(1)
    },
  },
}

/** Length of the organization's audit chain: every change appends to it. */
async function changes(): Promise<number> {
  const { rows } = await server.context.pool.query<{ seq: number }>(
    'select seq::int from chain_head where organization_id = $1',
    [organizationId],
  )
  return rows[0]?.seq as number
}

const rowOf = async (key: string) =>
  (await server.context.pool.query('select * from idempotency_keys where key = $1', [key])).rows[0]

/** Asks again when the lock of the one before has run out, here at once; a renewal in between only costs another turn. */
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

async function start({ by, prepare }: Case) {
  const prepared = await prepare()
  const key = fresh('crash')
  const headers = { 'idempotency-key': key }
  const send = (base: string): Promise<Answer> =>
    base === server.base
      ? server.call(keyOf(by), 'POST', prepared.path, prepared.body, headers)
      : postTo(`${base}${prepared.path}`, keyOf(by), prepared.body, headers)
  return { prepared, key, send, before: await changes() }
}

test('every route that acts is here', () => {
  const acting = Object.keys(access).filter((key) => acts(key as RouteKey))
  expect(Object.keys(cases).sort()).toEqual(acting.sort())
})

describe('a process that dies between the commit and the answer', () => {
  test.each(Object.entries(cases))('%s: asked again, it is answered and not done again', async (_, one) => {
    const { prepared, key, send, before } = await start(one)
    await sendAndDie(server.context, send)
    const done = await changes()
    expect(done).toBeGreaterThan(before)
    expect((await rowOf(key)).response_status).toBeNull()

    const again = await askAgain(send, key)
    expect([again.status, again.headers.get('idempotent-replayed')]).toEqual([one.status, null])
    expect(await changes()).toBe(done)
    const replayed = await send(server.base)
    expect([replayed.status, replayed.text]).toEqual([again.status, again.text])
    expect(replayed.headers.get('idempotent-replayed')).toBe('true')
    expect((await rowOf(key)).made).toBeNull()
    await one.check?.(again, prepared)
  })

  test('leaves a new API key’s secret readable to nobody', async () => {
    const { key, send } = await start(cases['POST /api-keys'])
    await sendAndDie(server.context, send)
    const { made } = await rowOf(key)
    const { body } = await askAgain(send, key)
    expect(made).not.toBeNull()
    expect(Buffer.from(made as string, 'base64').toString('latin1')).not.toContain(body.api_key)
  })

  test('has its answer also when the run that it cancelled has ended by then', async () => {
    const first = await start(cases['POST /runs/{id}/cancel'])
    // The second finds nothing left to do, and that is an answer too.
    const second = start({ ...cases['POST /runs/{id}/cancel'], prepare: async () => first.prepared })
    const both = [first, await second]
    for (const { send } of both) await sendAndDie(server.context, send)
    const runId = first.prepared.path.split('/')[2] as string
    await finishRun(server.context, { runId, status: 'cancelled' })
    for (const { send, key } of both)
      expect((await askAgain(send, key)).body).toMatchObject({ id: runId, status: 'cancelled' })
  })

  test('has its answer also when what it made is gone by then', async () => {
    const { prepared, key, send } = await start(cases['POST /organizations/{id}/rules'])
    await sendAndDie(server.context, send)
    const { body } = await server.call(keyOf('admin'), 'GET', prepared.path)
    const [newest] = body.data
    await server.call(keyOf('admin'), 'DELETE', `${prepared.path}/${newest.id}`)
    const again = await askAgain(send, key)
    expect([again.status, again.body]).toEqual([201, newest])
    expect((await server.call(keyOf('admin'), 'GET', `${prepared.path}/${newest.id}`)).status).toBe(404)
  })
})

describe('a run that was accepted', () => {
  test('is the answer although a rule saved meanwhile would refuse it', async () => {
    const { key, send } = await start(cases['POST /workflows/{id}/execute'])
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

describe('a process that was only slow, and taken for dead', () => {
  test.each(Object.entries(cases))('%s: does not act any more', async (_, one) => {
    const { prepared, key, send } = await start(one)
    let heir!: Answer
    let done = 0
    const slow = await sendAndStall(server.context, send, async () => {
      heir = await askAgain(send, key)
      done = await changes()
    })
    expect(heir.status).toBe(one.status)
    expect(await changes()).toBe(done)
    // A run carries the key: who is slow finds it. Every other is refused.
    expect([409, 202]).toContain(slow.status)
    if (slow.status === 202) expect(slow.body.execution_id).toBe(heir.body.execution_id)
    expect((await send(server.base)).text).toBe(heir.text)
    await one.check?.(heir, prepared)
  })
})

import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { expandStep } from '../../src/governance/runs/effects/items.ts'
import { decideSteps } from '../../src/governance/runs/effects/effect.ts'
import { recordOutcomes } from '../../src/governance/runs/effects/outcome.ts'
import { mark, opOf, outcomeOf } from '../governance/runs/engine-fixture.ts'
import { auditOf } from '../governance/support.ts'
import { startTestServer, type TestServer } from './server.ts'

/* How people find and resolve unknown outcomes, and the reasons that they give. */

let server: TestServer
beforeAll(async () => {
  server = await startTestServer()
})
afterAll(() => server.close())

type Name = keyof TestServer['identities']['users']
const call = (who: Name, method: string, path: string, body?: unknown, headers?: Record<string, string>) =>
  server.call(server.identities.users[who].api_key, method, path, body, headers)
const userId = (who: Name): string => server.identities.users[who].user_id

/** Stores a run whose step `s` has `count` items, all of unknown outcome. Without `count`, the step is one call. */
async function lost(count?: number): Promise<string> {
  const { context, identities } = server
  const step = { id: 's', tool: 'memory_get', params: { key: 'k' }, summary: 'Look it up' }
  const each = count === undefined ? {} : { for_each: Array.from({ length: count }, (_, item) => item) }
  const workflow = await call('member', 'POST', '/workflows', {
    name: 'W',
    definition: { steps: [{ ...step, ...each }] },
  })
  const path = `/workflows/${workflow.body.id}/execute?wait=0`
  const runId = (await call('member', 'POST', path, {})).body.execution_id as string
  if (count !== undefined) await expandStep(context, runId, 's')
  for (let item = 0; item < (count ?? 1); item += 1) {
    const op = opOf(runId, count === undefined ? {} : { item })
    await context.combiner.join(identities.organization_id, decideSteps, op)
    await mark(context, op, 1)
    await context.combiner.join(
      identities.organization_id,
      recordOutcomes,
      outcomeOf(op, 1, 'unknown_outcome'),
    )
  }
  return runId
}
const resolve = (runId: string, body: object, headers?: Record<string, string>) =>
  call('admin', 'POST', `/runs/${runId}/steps/s/resolve`, body, headers)
const listed = async (query: string, who: Name = 'admin') =>
  (await call(who, 'GET', `/approvals?kind=resolution${query}`)).body.data as Record<string, unknown>[]

describe('an unknown outcome', () => {
  test('is in the run and in the list of approvals, with the route that resolves it', async () => {
    const runId = await lost()
    const route = `POST /api/v1/runs/${runId}/steps/s/resolve`
    const run = (await call('viewer', 'GET', `/runs/${runId}`)).body
    expect(run.steps[0]).toMatchObject({ summary: 'Look it up' })
    expect(run.waiting_for).toEqual([
      {
        kind: 'resolution',
        approval_id: null,
        step_id: 's',
        item_index: null,
        tool: 'mail_send',
        rule_name: null,
        since: expect.any(String),
        expires_at: null,
        approver: 'admin',
        resolve_with: route,
        attempt: 1,
      },
    ])
    const [entry] = await listed(`&run_id=${runId}`)
    expect(entry).toMatchObject({
      kind: 'resolution',
      status: 'pending',
      run_id: runId,
      item_index: null,
      summary: 'Look it up',
      params: { to: 'a@b.test' },
      preview: { fields: [{ name: 'to', value: 'a@b.test' }] },
      reversible: 'no',
      approver: 'admin',
      resolve_with: route,
      attempt: 1,
    })
    const [asMember] = await listed(`&run_id=${runId}`, 'member')
    expect(asMember).not.toHaveProperty('params')
    expect(asMember).not.toHaveProperty('preview')
    const path = `/approvals/${encodeURIComponent(String(entry?.['id']))}`
    expect((await call('admin', 'GET', path)).body).toEqual(entry)
    const refused = await call('admin', 'POST', `${path}/approve`, {})
    expect(refused).toMatchObject({ status: 409, body: { error: { code: 'bad_transition' } } })
    expect(refused.body.error.message).toContain(route)

    const [method = '', address = ''] = String(run.waiting_for[0].resolve_with).split(' ')
    for (const attempt of [0, 1.5, 101, '1', null])
      expect((await call('admin', method, address, { outcome: 'done', attempt })).status).toBe(422)
    expect(await call('admin', method, address, { outcome: 'done', attempt: 2 })).toMatchObject({
      status: 409,
      body: { error: { code: 'conflict', details: [{ path: 'attempt' }] } },
    })
    expect((await call('admin', method, address, { outcome: 'done', attempt: 1 })).status).toBe(200)
    expect((await call('viewer', 'GET', `/runs/${runId}`)).body.waiting_for).toEqual([])
    expect(await listed(`&run_id=${runId}`)).toEqual([])
    expect((await call('admin', 'GET', path)).status).toBe(404)
  })

  test('is listed in pages and by the usual filters, and not once its run has ended', async () => {
    const runId = await lost(5)
    const other = await lost()
    const seen: unknown[] = []
    for (let query = '&limit=2'; query !== '';) {
      const { body } = await call('admin', 'GET', `/approvals?kind=resolution${query}`)
      seen.push(
        ...body.data.map((each: { run_id: string; item_index: number }) => [each.run_id, each.item_index]),
      )
      query = body.next_cursor === null ? '' : `&limit=2&cursor=${body.next_cursor}`
    }
    expect(seen).toEqual([[other, null], ...[0, 1, 2, 3, 4].map((item) => [runId, item])])
    expect(await listed('&status=approved')).toEqual([])
    expect(await listed('&status=pending&mine=true')).toHaveLength(6)
    expect(await listed('&mine=true', 'member')).toEqual([])
    expect((await call('admin', 'GET', '/approvals')).body.data).toEqual([])
    await call('admin', 'POST', `/runs/${other}/cancel`, {})
    await call('admin', 'POST', `/runs/${runId}/cancel`, {})
    expect(await listed('')).toEqual([])
  })

  test.each([
    [{ all: true }, [], 5],
    [{ item_indexes: [3, 1, 3] }, [0, 2, 4], 2],
    [{ item_index: 2 }, [0, 1, 3, 4], 1],
  ])('of items is resolved by %j, with an audit entry each', async (chosen, left, count) => {
    const runId = await lost(5)
    const answer = await resolve(
      runId,
      { ...chosen, outcome: 'done', output: { ok: true } },
      { 'Idempotency-Key': runId },
    )
    expect(answer.status).toBe(200)
    expect(answer.body.steps[0].unresolved_items).toEqual(left)
    expect(answer.body.nodes_executed).toBe(count)
    expect(
      (
        await resolve(
          runId,
          { ...chosen, outcome: 'done', output: { ok: true } },
          { 'Idempotency-Key': runId },
        )
      ).body,
    ).toEqual(answer.body)
    const entries = await auditOf(server.context, server.identities.organization_id, 2 * count + 1)
    for (const type of ['tool_call.resolved', 'tool_call.completed']) {
      const resolved = entries.filter(({ event_type }) => event_type === type)
      expect(resolved).toHaveLength(count)
      for (const each of resolved) expect(each).toMatchObject({ run_id: runId, user_id: userId('admin') })
    }
    const output = (await call('admin', 'GET', `/runs/${runId}/steps/s/output`)).body as unknown[]
    expect(output.filter((each) => each !== null)).toEqual(
      Array.from({ length: count }, () => ({ ok: true })),
    )
    const wakes = await server.context.db
      .selectFrom('outbox')
      .select('payload')
      .where('run_id', '=', runId)
      .where('kind', '=', 'run.wake')
      .execute()
    expect(wakes).toHaveLength(1)
  })

  test.each([
    [{ item_index: 1, all: true }, 422],
    [{ item_indexes: [1], item_index: 1 }, 422],
    [{ item_indexes: [] }, 422],
    [{ all: false }, 422],
    [{ item_indexes: [1, 7] }, 409],
    [{}, 409],
  ])('is left alone by a request that is wrong in part: %j is %d', async (chosen, status) => {
    const runId = await lost(2)
    const answer = await resolve(runId, { ...chosen, outcome: 'fail' })
    expect(answer.status).toBe(status)
    expect((await call('admin', 'GET', `/runs/${runId}`)).body.steps[0].unresolved_items).toEqual([0, 1])
  })

  test.each(['fail', 'retry'])(
    'an output is refused with the outcome `%s`, which has none',
    async (outcome) => {
      const runId = await lost()
      const answer = await resolve(runId, { outcome, output: 1 })
      expect([answer.status, answer.body.error.details[0].path]).toEqual([422, 'output'])
    },
  )

  test('of a step without items is resolved by `all`, too', async () => {
    const runId = await lost()
    expect((await resolve(runId, { all: true, outcome: 'retry' })).status).toBe(200)
    expect((await resolve(runId, { all: true, outcome: 'retry' })).status).toBe(409)
  })
})

describe('people give a reason', () => {
  test('for a cancellation, which the run and the audit log tell', async () => {
    const runId = await lost()
    const answer = await call('admin', 'POST', `/runs/${runId}/cancel`, { reason: 'wrong customer' })
    expect(answer.body.status_reason).toBe(
      `the run was cancelled by \`${server.identities.users.admin.email}\` with the reason \`wrong customer\``,
    )
    const entries = await auditOf(server.context, server.identities.organization_id, 3)
    expect(entries.find(({ event_type }) => event_type === 'workflow.cancel')?.metadata).toMatchObject({
      reason: 'wrong customer',
    })
  })

  test.each([
    [{ reason: 'too early' }, 'too early'],
    [{ comment: 'too early' }, 'too early'],
    [{ comment: 'same', reason: 'same' }, 'same'],
    [{}, ''],
  ])('for a rejection: %j', async (body, comment) => {
    const id = await held()
    const answer = await call('admin', 'POST', `/approvals/${id}/reject`, body)
    expect(answer.body.votes).toMatchObject([{ decision: 'reject', comment }])
  })

  test('and not two different ones', async () => {
    const id = await held()
    const answer = await call('admin', 'POST', `/approvals/${id}/reject`, { comment: 'a', reason: 'b' })
    expect(answer).toMatchObject({
      status: 422,
      body: { error: { message: expect.stringContaining('`reason`') } },
    })
    expect((await call('admin', 'POST', `/approvals/${id}/approve`, { reason: 'a' })).status).toBe(422)
  })
})

/** Starts a run that waits for its approval, and returns the approval. */
async function held(): Promise<string> {
  const path = `/organizations/${server.identities.organization_id}/governance`
  await call('owner', 'PATCH', path, { approvals_enabled: true, approval_required_from: 'low' })
  const definition = { steps: [{ id: 's', tool: 'memory_get', params: { key: 'k' } }] }
  const workflow = await call('member', 'POST', '/workflows', { name: 'W', definition })
  const run = await call('member', 'POST', `/workflows/${workflow.body.id}/execute?wait=0`, {})
  await call('owner', 'PATCH', path, { approvals_enabled: false, approval_required_from: null })
  return run.body.waiting_for[0].approval_id as string
}

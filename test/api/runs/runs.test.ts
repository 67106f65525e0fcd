import { beforeAll, describe, expect, jest, test } from '@jest/globals'
import { outputBinding } from '../../../src/governance/sealing/bindings.ts'
import type { ChainTx } from '../../../src/governance/audit/chain-tx.ts'
import type { BootstrapName } from '../../../src/governance/people/bootstrap.ts'
import { expandStep } from '../../../src/calls/runs/items.ts'
import { decideSteps } from '../../../src/calls/runs/effect.ts'
import { recordOutcomes } from '../../../src/calls/runs/outcome.ts'
import { mark, oneStep, opOf, outcomeOf } from '../../governance/runs/engine-fixture.ts'
import { auditOf, messagesOf } from '../../governance/support.ts'
import { addKey, addOrganization, aDefinition } from '../fixtures.ts'
import { useServer } from '../use-server.ts'
import { resourcesOf } from '../resources.ts'
import type { Answer, TestServer } from '../server.ts'

let server: TestServer
let organizationId: string
let workflow: string
const { as: call, personOf } = useServer(async (started) => {
  server = started
  organizationId = server.identities.organization_id
  workflow = (await call('member', 'POST', '/workflows', { name: 'Report', definition: aDefinition })).body.id
})

const toMe = { inputs: { to: 'me' } }
const executePath = (wait: number) => `/workflows/${workflow}/execute?wait=${wait}`
const execute = (wait = 0, headers?: Record<string, string>, body: object = toMe) =>
  call('member', 'POST', executePath(wait), body, headers)
/** Starts a run, and returns its id. */
const started = async (): Promise<string> => (await execute()).body.execution_id
/** The status of an answer, with the first wrong path. */
const wrongPath = ({ status, body }: Answer) => [status, body.error.details[0].path]
/** Ends a run as a worker would. */
const finish = (runId: string) =>
  server.context.combiner.run(organizationId, 'run.finish', async (tx: ChainTx) => {
    await tx.trx
      .updateTable('runs')
      .set({ status: 'completed', status_reason: 'all steps completed', finished_at: tx.now, slot: null })
      .where('id', '=', runId)
      .execute()
    tx.event(runId, 'run.completed', {})
    const actor = { type: 'system', id: 'test' } as const
    tx.append({ eventType: 'workflow.updated', action: 'x', status: 'success', actor })
  })

describe('executing', () => {
  test('answers 202 with the present status if it has not ended in time', async () => {
    const answer = await execute()
    expect(answer.status).toBe(202)
    expect(answer.body).toMatchObject({ status: 'queued', outputs: {}, nodes_executed: 0, nodes_failed: 0 })
    const run = await call('admin', 'GET', `/runs/${answer.body.execution_id}`)
    expect(run.body).toMatchObject({
      execution_id: answer.body.execution_id,
      inputs: { to: 'me' },
      status: 'queued',
    })
    expect((await call('admin', 'GET', `/executions/${answer.body.execution_id}`)).body).toEqual(run.body)
  })

  test('a cursor without a limit leads to all steps behind it', async () => {
    const id = await started()
    const page = async (query: string) => {
      const { steps, next_cursor: next } = (await call('viewer', 'GET', `/runs/${id}?${query}`)).body
      return { ids: steps.map((step: { id: string }) => step.id), next }
    }
    const first = await page('limit=1')
    expect(first).toEqual({ ids: ['read'], next: expect.any(String) })
    expect(await page(`cursor=${first.next}`)).toEqual({ ids: ['send'], next: null })
  })

  test('answers 200 as soon as it has ended', async () => {
    const newest = async (): Promise<string> => (await call('viewer', 'GET', '/runs?limit=1')).body.data[0].id
    const before = await started()
    const waiting = execute(60)
    let id = before
    while (id === before) id = await newest()
    await finish(id)
    const answer = await waiting
    expect(answer.status).toBe(200)
    expect(answer.body).toMatchObject({ execution_id: id, status: 'completed' })
  })

  // Without this, the answer would come after a minute, and the test would end before.
  test('answers 202 as soon as it waits for a person', async () => {
    const settings = (body: object) =>
      call('owner', 'PATCH', `/organizations/${organizationId}/governance`, body)
    await settings({ approvals_enabled: true, approval_required_from: 'low' })
    const answer = await execute(60)
    expect([answer.status, answer.body.status]).toEqual([202, 'awaiting_approval'])
    await call('member', 'POST', `/runs/${answer.body.execution_id}/cancel`)
    await settings({ approvals_enabled: false, approval_required_from: null })
  })

  test('takes a place of its organization until the run is accepted, and none while it waits', async () => {
    const { db, shares } = server.context
    const runs = async () => (await db.selectFrom('runs').select('id').execute()).map(({ id }) => id)
    const enter = shares.small.enter.bind(shares.small)
    const before = new Set(await runs())
    const left = Promise.withResolvers<string[]>()
    const spy = jest.spyOn(shares.small, 'enter').mockImplementationOnce(async (organization) => {
      const permit = await enter(organization)
      const release = (): void => {
        runs().then(left.resolve, left.reject)
        permit.release()
      }
      return { ...permit, release }
    })
    try {
      const answer = execute(60)
      const made = (await left.promise).filter((id) => !before.has(id))
      expect(made).toHaveLength(1)
      await finish(made[0] ?? '')
      expect((await answer).status).toBe(200)
    } finally {
      spy.mockRestore()
    }
  })

  test('with one Idempotency-Key starts one run', async () => {
    const headers = { 'idempotency-key': 'run-1' }
    const first = await execute(0, headers)
    const again = await execute(0, headers)
    expect(again.text).toBe(first.text)
    // As if the first call's process died before its answer was stored: the run exists, and the key finds the run.
    await server.context.pool.query("delete from idempotency_keys where key = 'run-1'")
    const lost = await execute(0, headers)
    expect(lost.body.execution_id).toBe(first.body.execution_id)
  })

  test('with the same Idempotency-Key but another API key of the same person starts another run', async () => {
    const headers = { 'idempotency-key': 'run-2' }
    const first = await execute(0, headers)
    const other = await addKey(server.context, organizationId, personOf('member').userId, ['runs:write'])
    const answer = await server.call(other.secret, 'POST', executePath(0), toMe, headers)
    expect(answer.body.execution_id).toMatch(/^run_/)
    expect(answer.body.execution_id).not.toBe(first.body.execution_id)
  })

  test('refuses invalid inputs, by name', async () => {
    const answer = await execute(0, {}, { inputs: { too: 1 } })
    expect(answer.status).toBe(422)
    expect(answer.body.error.details.map((detail: { path: string }) => detail.path).sort()).toEqual([
      'inputs.to',
      'inputs.too',
    ])
  })

  test('accepts labels for inputs, and an output of an earlier run as an input', async () => {
    const earlier = await started()
    const place = outputBinding({ runId: earlier, stepId: 'read', itemIndex: -1 })
    const output = await server.context.sealer.seal(place, JSON.stringify({ text: 'secret' }))
    await server.context.pool.query(
      `insert into effects (run_id, step_id, organization_id, tool, state, output_sealed) values ($1, 'read', $2, 'file_read', 'completed', $3)`,
      [earlier, organizationId, output],
    )
    await server.context.pool.query(
      `update run_steps set status = 'completed', finished_at = now(), labels = '{internal}' where run_id = $1 and step_id = 'read'`,
      [earlier],
    )
    const to = { from_run: earlier, step: 'read', path: 'text' }
    const made = await execute(0, {}, { inputs: { to }, input_labels: { to: ['pii'] } })
    expect(made.status).toBe(202)
    const run = await call('admin', 'GET', `/runs/${made.body.execution_id}`)
    const labels = [
      { label: 'internal', from: ['input.to', `${earlier}/read`] },
      { label: 'pii', from: ['input.to'] },
    ]
    expect(run.body).toMatchObject({ inputs: { to: 'secret' }, input_labels: { to: labels } })
    const wrong = await execute(0, {}, { inputs: { to: { ...to, step: 'none' } } })
    expect(wrongPath(wrong)).toEqual([422, 'inputs.to'])
  })

  test.each<[string, unknown, string]>([
    ['a label that is not a slug', { to: ['Not A Slug'] }, 'input_labels.to.0'],
    ['labels that are not a list', { to: 'pii' }, 'input_labels.to'],
    ['an unknown input', { other: ['pii'] }, 'input_labels.other'],
    ['too many', Object.fromEntries([...Array(11).keys()].map((n) => [`i${n}`, Array(100).fill('pii')])), 'input_labels'], // prettier-ignore
  ])('refuses %s as `input_labels`', async (_, labels, path) => {
    expect(wrongPath(await execute(0, {}, { ...toMe, input_labels: labels }))).toEqual([422, path])
  })

  test('takes a body of 8 MiB, and no larger one', async () => {
    const send = (length: number) => execute(0, {}, { inputs: { to: 'x'.repeat(length) } })
    expect((await send(8 * 1024 * 1024 - 100)).status).toBe(202)
    expect((await send(8 * 1024 * 1024)).status).toBe(413)
  })

  test('a run that a rule would definitely deny is 403 up front', async () => {
    const rules = `/organizations/${organizationId}/rules`
    const rule = await call('admin', 'POST', rules, {
      name: 'No mail',
      verdict: 'deny',
      tools: ['mail_send'],
    })
    const answer = await execute()
    await call('admin', 'DELETE', `${rules}/${rule.body.id}`)
    expect([answer.status, answer.body.error.code]).toEqual([403, 'run_denied'])
    expect(answer.body.error.message).toContain('No mail')
  })
})

describe('runs', () => {
  test('are listed newest first and filtered', async () => {
    const id = await started()
    const runs = async (query: string, path = '/runs') =>
      (await call('viewer', 'GET', `${path}?${query}`)).body
    const listed = await runs('limit=1', '/executions')
    expect(listed.data[0].id).toBe(id)
    expect((await runs(`limit=1&cursor=${listed.next_cursor}`)).data[0].id < id).toBe(true)
    for (const query of ['status=failed', 'until=2000-01-01']) expect((await runs(query)).data).toEqual([])
    const since = new Date(Date.now() - 3_600_000).toISOString()
    expect((await runs(`since=${since}&workflow_id=${workflow}`)).data[0].id).toBe(id)
  })

  test('are cancelled by their requester or an admin, once', async () => {
    const { execution_id: id } = (await call('admin', 'POST', executePath(0), toMe)).body
    const member = await call('member', 'POST', `/executions/${id}/cancel`)
    expect([member.status, member.body.error.code]).toEqual([403, 'insufficient_role'])
    expect((await call('approver', 'POST', `/executions/${id}/cancel`)).status).toBe(200)
    await finish(id)
    expect((await call('admin', 'POST', `/runs/${id}/cancel`)).body.error.code).toBe('bad_transition')
  })

  test('have a receipt and outputs by step', async () => {
    const path = `/runs/${await started()}`
    const receipt = await call('viewer', 'GET', `${path}/authorization`)
    expect(receipt.body).toMatchObject({ run_id: path.slice(6), workflow_version: 1, decisions: [] })
    expect((await call('admin', 'GET', `${path}/steps/read/output`)).body).toBeNull()
    expect((await call('viewer', 'GET', `${path}/steps/nope/output`)).status).toBe(404)
    const resolved = await call('admin', 'POST', `${path}/steps/read/resolve`, { outcome: 'done' })
    expect([resolved.status, resolved.body.error.code]).toEqual([409, 'bad_transition'])
  })
})

describe('approvals', () => {
  test('are listed, read and decided once; a requester sees no parameters', async () => {
    const { ids } = await resourcesOf(server, organizationId, personOf('owner').userId)
    await server.context.pool.query(
      "update approvals set status = 'pending', decided_at = null, requested_by = $2 where id = $1",
      [ids.approval, personOf('member').userId],
    )
    await server.context.pool.query(
      "update runs set status = 'awaiting_approval', finished_at = null where id = $1",
      [ids.run],
    )
    const path = `/approvals/${ids.approval}`
    const mine = await call('approver', 'GET', '/approvals?mine=true&status=pending&kind=run')
    expect(mine.body.data.map((approval: { id: string }) => approval.id)).toContain(ids.approval)
    expect((await call('member', 'GET', path)).body).not.toHaveProperty('params')
    expect((await call('approver', 'GET', path)).body.status).toBe('pending')
    const decided = await call('approver', 'POST', `${path}/approve`, { comment: 'fine' })
    const vote = { user_id: personOf('approver').userId, decision: 'approve', comment: 'fine' }
    expect(decided.body).toMatchObject({ status: 'approved', votes: [vote] })
    const late = await call('admin', 'POST', `${path}/reject`)
    expect([late.status, late.body.error.code]).toEqual([409, 'approval_already_decided'])
    const rule = `/organizations/${organizationId}/rules/${ids.rule}`
    expect((await call('admin', 'DELETE', rule)).status).toBe(204)
  })
})

describe('what waits', () => {
  /* How people find and resolve unknown outcomes, and the reasons that they give. */

  /** Starts a run with one step `s` that runs for each of `items`; without them, once. */
  async function stepRun(step: object, items?: readonly number[]): Promise<Answer> {
    const steps = [{ ...step, ...(items === undefined ? {} : { for_each: items }) }]
    const { body } = await call('member', 'POST', '/workflows', { name: 'W', definition: { steps } })
    return call('member', 'POST', `/workflows/${body.id}/execute?wait=0`, {})
  }

  /** Stores a run whose step `s` has `count` items, all of unknown outcome. Without `count`, the step is one call. */
  async function lost(count?: number): Promise<string> {
    const { context } = server
    const items = count === undefined ? undefined : [...Array(count).keys()]
    const { body } = await stepRun({ ...oneStep.steps[0], summary: 'Look it up' }, items)
    const runId = body.execution_id as string
    if (items !== undefined) await expandStep(context, runId, 's')
    for (const item of items ?? [null]) {
      const op = opOf(runId, item === null ? {} : { item })
      await context.combiner.join(organizationId, decideSteps, op)
      await mark(context, op, 1)
      await context.combiner.join(organizationId, recordOutcomes, outcomeOf(op, 1, 'unknown_outcome'))
    }
    return runId
  }
  const resolve = (runId: string, body: object, headers?: Record<string, string>) =>
    call('admin', 'POST', `/runs/${runId}/steps/s/resolve`, body, headers)
  const listed = async (query: string, who: BootstrapName = 'admin') =>
    (await call(who, 'GET', `/approvals?kind=resolution${query}`)).body.data as Record<string, unknown>[]

  describe('an unknown outcome', () => {
    test('is in the run and in the list of approvals, with the route that resolves it', async () => {
      const runId = await lost()
      const route = `POST /api/v1/runs/${runId}/steps/s/resolve`
      const run = (await call('viewer', 'GET', `/runs/${runId}`)).body
      expect(run.steps[0]).toMatchObject({ summary: 'Look it up' })
      const both = {
        kind: 'resolution',
        item_index: null,
        approver: 'admin',
        approvers: [{ role: 'admin', count: 1 }],
        resolve_with: route,
        attempt: 1,
        sought: {
          service: 'the mail server',
          sent_at: expect.any(String),
          where: null,
          mark: null,
          url: null,
        },
      }
      expect(run.waiting_for).toEqual([
        {
          ...both,
          changes_requested: null,
          cannot_be_given: null,
          approval_id: null,
          step_id: 's',
          tool: 'mail_send',
          rule_name: null,
          since: expect.any(String),
          expires_at: null,
        },
      ])
      const [entry] = await listed(`&run_id=${runId}`)
      expect(entry).toMatchObject({
        ...both,
        status: 'pending',
        run_id: runId,
        summary: 'Look it up',
        params: { to: 'a@b.test' },
        preview: { fields: [{ name: 'to', value: 'a@b.test' }] },
        reversible: 'no',
      })
      expect(await listed(`&run_id=${runId}`, 'member')).toEqual([entry])
      const path = `/approvals/${encodeURIComponent(String(entry?.['id']))}`
      expect((await call('admin', 'GET', path)).body).toEqual(entry)
      const refused = await call('admin', 'POST', `${path}/approve`, {})
      expect(refused).toMatchObject({ status: 409, body: { error: { code: 'bad_transition' } } })
      expect(refused.body.error.message).toContain(route)

      const [method = '', address = ''] = String(run.waiting_for[0].resolve_with).split(' ')
      const done = (attempt: unknown) => call('admin', method, address, { outcome: 'done', attempt })
      for (const attempt of [0, 1.5, 101, '1', null]) expect((await done(attempt)).status).toBe(422)
      const error = { code: 'conflict', details: [{ path: 'attempt' }] }
      expect(await done(2)).toMatchObject({ status: 409, body: { error } })
      expect((await done(1)).status).toBe(200)
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
      const { data } = (await call('admin', 'GET', '/approvals')).body
      expect(new Set(data.map(({ kind }: { kind: string }) => kind))).toEqual(new Set(['run']))
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
      const done = () =>
        resolve(
          runId,
          { ...chosen, outcome: 'done', output: { message_id: 'm', accepted: [] } },
          { 'Idempotency-Key': runId },
        )
      const answer = await done()
      expect(answer.status).toBe(200)
      expect(answer.body.steps[0].unresolved_items).toEqual(left)
      expect(answer.body.nodes_executed).toBe(count)
      expect((await done()).body).toEqual(answer.body)
      const entries = await auditOf(server.context, organizationId, 2 * count + 1)
      const by = { run_id: runId, user_id: personOf('admin').userId }
      for (const type of ['tool_call.resolved', 'tool_call.completed']) {
        const resolved = entries.filter(({ event_type }) => event_type === type)
        expect(resolved).toMatchObject(Array.from({ length: count }, () => by))
      }
      const output = (await call('admin', 'GET', `/runs/${runId}/steps/s/output`)).body as unknown[]
      expect(output.filter((each) => each !== null)).toEqual(
        Array.from({ length: count }, () => ({ message_id: 'm', accepted: [] })),
      )
      const messages = await messagesOf(server.context, runId)
      expect(messages.filter(({ kind }) => kind === 'run.wake')).toHaveLength(1)
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
        expect(wrongPath(await resolve(await lost(), { outcome, output: 1 }))).toEqual([422, 'output'])
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
      const entries = await auditOf(server.context, organizationId, 3)
      const entry = entries.find(({ event_type }) => event_type === 'workflow.cancel')
      expect(entry?.metadata).toMatchObject({ reason: 'wrong customer' })
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
    const path = `/organizations/${organizationId}/governance`
    await call('owner', 'PATCH', path, { approvals_enabled: true, approval_required_from: 'low' })
    const { body } = await stepRun({ ...oneStep.steps[0] })
    await call('owner', 'PATCH', path, { approvals_enabled: false, approval_required_from: null })
    return body.waiting_for[0].approval_id as string
  }
})

/* The reports over HTTP: their period. What they count is in test/governance/reports. */
describe('reports', () => {
  let ask: (path: string) => Promise<Answer>
  beforeAll(async () => {
    const { id, owner } = await addOrganization(server.context)
    ask = (path) => server.call(owner.key, 'GET', `/organizations/${id}/governance/${path}`)
    const send = (path: string, body: object) => server.call(owner.key, 'POST', path, body)
    const made = await send(`/workflows?organization_id=${id}`, { name: 'w', definition: oneStep })
    // Four runs, accepted today and 10, 40 and 100 days ago.
    for (const days of [0, 10, 40, 100]) {
      const run = await send(`/workflows/${made.body.id}/execute?wait=0`, {})
      await server.context.pool.query(
        "update runs set created_at = created_at - $1 * interval '1 day' where id = $2",
        [days, run.body.execution_id],
      )
    }
  })

  describe.each(['report', 'approvals'])('`GET /organizations/{id}/governance/%s`', (report) => {
    test.each([
      ['', '30d'],
      ['?period=7d', '7d'],
      ['?period=30d', '30d'],
      ['?period=90d', '90d'],
      ['?period=all', 'all'],
    ])('`%s` is the period `%s`', async (query, period) => {
      const { status, body } = await ask(`${report}${query}`)
      expect([status, body.period]).toEqual([200, period])
      expect(body.since === null).toBe(period === 'all')
    })

    test.each(['?period=1d', '?period=', '?period=30D', '?period=7d&period=30d'])(
      '`%s` is 422',
      async (query) => expect(wrongPath(await ask(`${report}${query}`))).toEqual([422, 'period']),
    )
  })

  test.each([
    ['?period=7d', 1],
    ['', 2],
    ['?period=90d', 3],
    ['?period=all', 4],
  ])('a longer period counts more runs: `%s` counts %d', async (query, count) =>
    expect((await ask(`report${query}`)).body.total_executions).toBe(count),
  )
})

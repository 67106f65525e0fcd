import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { createToolActivities } from '../../src/activities/tool-activities.ts'
import { connect } from '../../src/governance/connections/connections.ts'
import { changeQuota } from '../../src/governance/limits/quota.ts'
import { cancelRun } from '../../src/governance/runs/end/cancel.ts'
import { modelAnswer } from '../support/model.ts'
import { startScriptedServer, type ScriptedServer } from '../support/scripted-server.ts'
import { auditOf } from '../governance/support.ts'
import {
  effectOf,
  keptOutput,
  opOf,
  runOf,
  stepOf,
  useEngine,
  type Engine,
} from '../governance/runs/engine-fixture.ts'
import { execute, type Scheduled } from './execute.ts'

/* Calls that cost money, through everything: decision, real client, and a server that plays the language model. */

let engine: Engine
let model: ScriptedServer
useEngine((started) => (engine = started))
beforeAll(async () => {
  model = await startScriptedServer()
})
afterAll(() => model?.close())
beforeEach(async () => {
  model.answer = () => ({ status: 404, body: {} })
  const { context } = engine
  await context.db.deleteFrom('connections').execute()
  await context.db.updateTable('runs').set({ cost: 0 }).execute()
  await changeQuota(context, engine.caller('owner'), { monthly_spend: 50, workflow_runs_per_hour: 6_000 })
  const signal = new AbortController().signal
  const llm = { provider: 'openai', api_key: 'k1', model: 'm', base_url: model.url }
  const search = { provider: 'brave', api_key: 'k2', base_url: model.url }
  const scope = { scope: 'organization', name: undefined } as const
  await connect(context, engine.caller('admin'), { tool: 'llm_generate', credential: llm, ...scope }, signal)
  await connect(context, engine.caller('admin'), { tool: 'web_search', credential: search, ...scope }, signal)
  model.arrived.length = 0
})

const answer = { status: 200, body: modelAnswer('because') }
/** A cost in millionths: 3 input tokens at 5 units a million, and 2 output tokens at 25. */
const real = 65
/** The highest possible cost in millionths: input of 4 bytes and 2,000 tokens, and output of 5 tokens. */
const most = 10_145

const asking = (retry?: object) => ({
  steps: [{ id: 's', tool: 'llm_generate', params: { prompt: 'why?', max_tokens: 5 }, ...(retry === undefined ? {} : { retry }) }], // prettier-ignore
})
const bodies = createToolActivities()
const attempt = (runId: string, over: Partial<Scheduled> & { stepId?: string; tool?: string } = {}) => {
  const { stepId = 's', tool = 'llm_generate', ...rest } = over
  return execute(engine.context, {
    workflowId: runId,
    activityType: tool,
    args: [{ runId, stepId, itemIndex: null }],
    body: (decided) => bodies[tool]!(decided),
    ...rest,
  })
}
const millionths = async (runId: string): Promise<number> =>
  Math.round(Number((await runOf(engine.context, runId)).cost) * 1_000_000)
const errorOf = async (runId: string) => (await stepOf(engine.context, runId)).error?.code

function gate(): { opened: Promise<void>; open: () => void } {
  const { promise: opened, resolve: open } = Promise.withResolvers<void>()
  return { opened, open }
}

test('a call counts what its tokens cost, and its output has the labels of its inputs', async () => {
  const runId = await engine.run({
    steps: [
      { id: 'look', tool: 'web_search', params: { query: 'q' } },
      { id: 's', tool: 'llm_generate', params: { prompt: 'why? {{look.output.results}}' } },
    ],
  })
  const found = { title: 't', url: 'https://a.test/', description: 'words of strangers' }
  model.answer = ({ path }) =>
    path.startsWith('/res/') ? { status: 200, body: { type: 'search', web: { results: [found] } } } : answer
  expect((await attempt(runId, { stepId: 'look', tool: 'web_search' })).answer).toEqual({
    outcome: 'completed',
  })
  expect(await millionths(runId)).toBe(0)
  expect((await attempt(runId)).answer).toEqual({ outcome: 'completed' })
  expect(await millionths(runId)).toBe(real)
  const op = opOf(runId)
  expect(await keptOutput(engine.context, op)).toMatchObject({ text: 'because' })
  expect((await effectOf(engine.context, op))?.output_labels).toEqual(['untrusted'])
  expect(model.arrived[1]?.body).toContain('words of strangers')
})

describe('the month’s spend', () => {
  test('has no room for the highest cost: nothing is sent, and the audit log says so', async () => {
    const runId = await engine.run(asking())
    await changeQuota(engine.context, engine.caller('owner'), { monthly_spend: 1 })
    await engine.context.db.updateTable('runs').set({ cost: 0.99 }).where('id', '=', runId).execute()
    await attempt(runId)
    expect(await errorOf(runId)).toBe('quota_exceeded')
    expect(model.arrived).toEqual([])
    expect(await millionths(runId)).toBe(990_000)
    expect(await auditOf(engine.context, engine.organizationId, 2)).toContainEqual(
      expect.objectContaining({
        event_type: 'quota.exceeded',
        run_id: runId,
        metadata: expect.objectContaining({ limit: 'monthly_spend', value: 1 }),
      }),
    )
  })

  test('has room for one of two calls side by side: the other one is refused', async () => {
    const [first, second, other] = [
      await engine.run(asking()),
      await engine.run(asking()),
      await engine.run(),
    ]
    await changeQuota(engine.context, engine.caller('owner'), { monthly_spend: 1 })
    await engine.context.db
      .updateTable('runs')
      .set({ cost: 1 - (1.5 * most) / 1e6 })
      .where('id', '=', other)
      .execute()
    const answered = gate()
    model.answer = () => {
      if (model.arrived.length === 2) answered.open()
      const body = JSON.stringify(answer.body)
      return { status: 200, write: (response) => void answered.opened.then(() => response.end(body)) }
    }
    const calls = [first, second].map((runId) => attempt(runId))
    await Promise.race(calls)
    answered.open()
    await Promise.all(calls)
    const codes = [await errorOf(first), await errorOf(second)]
    expect(new Set(codes)).toEqual(new Set(['quota_exceeded', undefined]))
    expect(model.arrived).toHaveLength(1)
    expect((await millionths(first)) + (await millionths(second))).toBe(real)
  })

  test('counts for the month in which the run was accepted', async () => {
    const [old, full] = [await engine.run(asking()), await engine.run()]
    await engine.context.pool.query(
      `update runs set created_at = created_at - interval '40 days' where id = $1`,
      [old],
    )
    await engine.context.db.updateTable('runs').set({ cost: 50 }).where('id', '=', full).execute()
    model.answer = () => answer
    expect((await attempt(old)).answer).toEqual({ outcome: 'completed' })
  })
})

describe('a call that fails costs', () => {
  test('nothing, if the service refused it', async () => {
    const runId = await engine.run(asking())
    model.answer = () => ({ status: 400, body: {} })
    await attempt(runId)
    expect([await errorOf(runId), await millionths(runId)]).toEqual(['llm_refused', 0])
  })

  test('nothing for attempts that the service put off, after the pause that it asks for', async () => {
    const runId = await engine.run(asking())
    model.answer = () => ({ status: 429, headers: { 'retry-after': '7' }, body: {} })
    expect((await attempt(runId)).answer).toMatchObject({ nextRetryDelay: 7_000 })
    expect(await millionths(runId)).toBe(0)
    model.answer = () => ({ status: 429, body: {} })
    expect((await attempt(runId)).answer).toMatchObject({ nextRetryDelay: 2_000 })
    model.answer = () => answer
    expect((await attempt(runId)).answer).toEqual({ outcome: 'completed' })
    expect(await millionths(runId)).toBe(real)
  })

  test('the most for an attempt whose answer was lost', async () => {
    const runId = await engine.run(asking({ attempts: 1, backoff_seconds: 1 }))
    model.answer = () => ({ status: 200, write: (response) => void response.destroy() })
    await attempt(runId)
    expect([await errorOf(runId), await millionths(runId)]).toEqual(['llm_unavailable', most])
  })

  test('the most for a call that took too long', async () => {
    const { steps } = asking({ attempts: 1, backoff_seconds: 1 })
    const runId = await engine.run({ steps: steps.map((step) => ({ ...step, timeout_seconds: 1 })) })
    model.answer = () => ({ status: 200, write: () => {} })
    await attempt(runId)
    expect([await errorOf(runId), await millionths(runId)]).toEqual(['timeout', most])
  })
})

test('a key that was revoked at the service fails the call, and shows at the connection', async () => {
  const runId = await engine.run(asking())
  model.answer = () => ({ status: 401, body: {} })
  await attempt(runId)
  expect([await errorOf(runId), await millionths(runId)]).toEqual(['connection_expired', 0])
  const { db } = engine.context
  const shown = await db.selectFrom('connections').select('status').where('integration', '=', 'llm').execute()
  expect(shown).toEqual([{ status: 'expired' }])
})

describe('a worker that dies', () => {
  test('in the middle of a request: the call is made again, and both are counted', async () => {
    const runId = await engine.run(asking())
    const asked = gate()
    const dead = gate()
    model.answer = () => {
      asked.open()
      return answer
    }
    const body = async (decided: unknown) => {
      const result = await bodies['llm_generate']!(decided)
      await dead.opened
      return result
    }
    const stuck = attempt(runId, { body })
    await asked.opened
    expect((await attempt(runId)).answer).toEqual({ outcome: 'completed' })
    expect(await millionths(runId)).toBe(most + real)
    // The first attempt was only slow: the late result changes nothing.
    dead.open()
    await stuck
    expect(await millionths(runId)).toBe(most + real)
    expect(model.arrived).toHaveLength(2)
  })

  test('before the request: when it comes back, it may not spend', async () => {
    const runId = await engine.run(asking())
    const begun = gate()
    const dead = gate()
    model.answer = () => answer
    const body = async (decided: unknown) => {
      begun.open()
      await dead.opened
      return bodies['llm_generate']!(decided)
    }
    const stuck = attempt(runId, { body })
    await begun.opened
    await attempt(runId)
    dead.open()
    await stuck
    expect(model.arrived).toHaveLength(1)
    expect(await millionths(runId)).toBe(real)
  })
})

test('a cancelled run ends its request in flight, and its highest cost stays counted', async () => {
  const runId = await engine.run(asking())
  const cancelled = new AbortController()
  const asked = gate()
  const closed = gate()
  model.answer = () => ({
    status: 200,
    write: (response) => {
      response.on('close', closed.open)
      asked.open()
    },
  })
  const call = attempt(runId, { signal: cancelled.signal })
  await asked.opened
  await cancelRun(engine.context, { caller: engine.caller('member'), runId, reason: '' })
  cancelled.abort(new Error('CANCELLED'))
  await call
  await closed.opened
  expect((await effectOf(engine.context, opOf(runId)))?.state).toBe('cancelled')
  expect(await millionths(runId)).toBe(most)
})

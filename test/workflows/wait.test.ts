import { describe, expect, test } from '@jest/globals'
import { changeQuota } from '../../src/governance/limits/quota.ts'
import { until } from '../stack/until.ts'
import { closed, historiesOf, replay } from './histories.ts'
import { chain, mail, read, useTestStack, type FakeReads, type Stack } from './worker-fixture.ts'

let stack: Stack
let reads: FakeReads
// A history is long after a few steps, so a wait of some seconds outlives its history.
useTestStack((...both) => ([stack, reads] = both), { suggestAfterEvents: '40' })

const wait = (id: string, given: object, over: object = {}) => ({ id, wait: given, ...over })
const hour = { seconds: 3_600 }
const start = (...steps: object[]) => stack.run({ steps })
const stepOf = async (runId: string, id: string) => {
  const step = (await stack.readRun(runId))?.steps.find((each) => each.id === id)
  if (step === undefined) throw new Error(`no step ${id}`)
  return step
}
const waits = (runId: string, id = 'pause') =>
  until(`${id} waits`, async () => (await stepOf(runId, id)).waits_until !== null)
const tookAtLeast = async (runId: string, seconds: number, id = 'pause') =>
  expect(Number((await stepOf(runId, id)).duration_ms)).toBeGreaterThanOrEqual(seconds * 1_000)
const slotsTaken = async () =>
  (await stack.context.db.selectFrom('runs').select('id').where('slot', 'is not', null).execute()).length
const auditOf = async (runId: string, type: string) => {
  const { rows } = await stack.context.pool.query<{ entry: unknown }>(
    `select canonical::jsonb as entry from audit_events
     where canonical::jsonb->>'run_id' = $1 and canonical::jsonb->>'event_type' = $2`,
    [runId, type],
  )
  return rows.map(({ entry }) => entry)
}

test('the run goes on when the time has come, and the next step runs once', async () => {
  const runId = await start(
    read('before', 'a'),
    wait('pause', { seconds: 2 }, { depends_on: ['before'] }),
    read('after', 'b', { depends_on: ['pause'] }),
  )
  await waits(runId)
  const run = await stack.readRun(runId)
  const { waits_until: at } = await stepOf(runId, 'pause')
  expect(run).toMatchObject({
    status: 'paused',
    status_reason: `step \`pause\` waits until ${at?.slice(0, 19)}Z`,
  })
  expect(run?.steps[1]).toMatchObject({
    kind: 'wait',
    tool: null,
    status: 'held',
    verdict: null,
    attempts: 0,
  })
  expect(run?.waiting_for).toEqual([])
  expect(await stack.ended(runId)).toEqual({
    run: 'completed',
    before: 'completed',
    pause: 'completed',
    after: 'completed',
  })
  await tookAtLeast(runId, 2)
  expect(reads.calls.get('b')).toBe(1)
  expect(await stepOf(runId, 'pause')).toMatchObject({ waits_until: null, error: null })
  expect((await stack.readRun(runId))?.outputs).toMatchObject({ pause: null })
  const events = await stack.eventsOf(runId)
  const own = events.slice(events.indexOf('run.paused') - 2)
  expect(own.slice(0, 5)).toEqual([
    'step.started',
    'step.held',
    'run.paused',
    'run.resumed',
    'step.completed',
  ])
  expect(await auditOf(runId, 'step.waiting')).toEqual([
    expect.objectContaining({
      action: 'wait',
      status: 'held',
      metadata: expect.objectContaining({ step_id: 'pause', item_index: null, until: at }),
    }),
  ])
  expect(await auditOf(runId, 'step.completed')).toEqual([
    expect.objectContaining({ action: 'wait', metadata: expect.objectContaining({ step_id: 'pause' }) }),
  ])
  await closed(stack, runId)
  await replay(stack, runId)
})

test('a past time, and no time at all, go on at once', async () => {
  const runId = await start(
    wait('past', { until: '2020-01-01' }),
    wait('none', { seconds: 0 }, { depends_on: ['past'] }),
    read('after', 'a', { depends_on: ['none'] }),
  )
  expect(await stack.ended(runId)).toMatchObject({ run: 'completed', past: 'completed', none: 'completed' })
  expect(await stack.eventsOf(runId)).not.toContain('step.held')
})

test('the time is one of the run’s time zone, from its inputs', async () => {
  const [day = ''] = new Date(Date.now() + 5 * 86_400_000).toISOString().split('T')
  const definition = {
    inputs: { day: { type: 'string' } },
    steps: [wait('pause', { until: '{{input.day}}T09:00:00' })],
  }
  const runId = await stack.run(definition, { day })
  await waits(runId)
  expect((await stepOf(runId, 'pause')).waits_until).toBe(`${day}T09:00:00.000Z`)
  await stack.cancel(runId)
  expect(await stack.ended(runId)).toEqual({ run: 'cancelled', pause: 'cancelled' })
})

test('a wait holds no slot and no worker: others run, and the run takes a slot again', async () => {
  await changeQuota(stack.context, stack.caller('owner'), { concurrent_executions: 1 })
  const waiting = await start(wait('pause', { seconds: 3 }), read('after', 'x', { depends_on: ['pause'] }))
  await waits(waiting)
  expect(await slotsTaken()).toBe(0)
  const other = await start(read('long', 'long-wait'))
  await until('the other run works', () => reads.waiting() === 1)
  await until('the time has come', async () => (await stepOf(waiting, 'pause')).status === 'completed')
  await until('the run waits for a slot', async () =>
    (await stack.runOf(waiting)).status_reason.includes('concurrent runs'),
  )
  expect(reads.calls.has('x')).toBe(false)
  reads.release()
  expect(await stack.ended(other)).toMatchObject({ run: 'completed' })
  expect(await stack.ended(waiting)).toMatchObject({ run: 'completed', after: 'completed' })
  await changeQuota(stack.context, stack.caller('owner'), { concurrent_executions: null })
})

test('no run with a wait begins while as many runs wait as the organization may have', async () => {
  await changeQuota(stack.context, stack.caller('owner'), { queued_executions: 1 })
  const first = await start(wait('pause', hour))
  await waits(first)
  await expect(start(wait('pause', hour))).rejects.toThrow('at its limit of 1 runs that wait')
  expect(await stack.ended(await start(read('only', 'a')))).toMatchObject({ run: 'completed' })
  await stack.cancel(first)
  await stack.ended(first)
  const second = await start(wait('pause', { seconds: 0 }))
  expect(await stack.ended(second)).toMatchObject({ run: 'completed' })
  await changeQuota(stack.context, stack.caller('owner'), { queued_executions: null })
})

describe('without a worker', () => {
  test('the time passes: another worker goes on', async () => {
    const runId = await start(wait('pause', { seconds: 2 }), read('after', 'y', { depends_on: ['pause'] }))
    await waits(runId)
    const at = Date.parse((await stepOf(runId, 'pause')).waits_until ?? '')
    await stack.stopWorkers()
    await until('the time has come', () => Date.now() > at + 1_000)
    expect((await stack.runOf(runId)).status).toBe('paused')
    await stack.startWorker()
    expect(await stack.ended(runId)).toMatchObject({ run: 'completed', after: 'completed' })
    expect(reads.calls.get('y')).toBe(1)
  })

  test('a run is cancelled at once', async () => {
    const runId = await start(wait('pause', hour))
    await waits(runId)
    await stack.stopWorkers()
    await stack.cancel(runId)
    expect(await stack.ended(runId)).toEqual({ run: 'cancelled', pause: 'cancelled' })
    await stack.startWorker()
    await until('Temporal knows', async () => (await stack.motor.describe(runId)) !== 'running')
  })
})

test('a wait that outlives its history keeps its time, and begins once', async () => {
  const runId = await start(wait('pause', { seconds: 4 }), ...chain(20))
  await waits(runId)
  const { waits_until: at } = await stepOf(runId, 'pause')
  await until('the chain ends', () => reads.calls.has('s19'))
  expect((await stepOf(runId, 'pause')).waits_until ?? at).toBe(at)
  expect(await stack.ended(runId)).toMatchObject({ run: 'completed', pause: 'completed' })
  await tookAtLeast(runId, 4)
  await closed(stack, runId)
  const all = await historiesOf(stack, runId)
  expect(all.length).toBeGreaterThan(1)
  expect(await auditOf(runId, 'step.waiting')).toHaveLength(1)
  await replay(stack, runId)
})

test('wake-ups without a reason end no wait', async () => {
  const runId = await start(wait('pause', hour))
  await waits(runId)
  const { waits_until: at } = await stepOf(runId, 'pause')
  await stack.motor.wake(runId, {})
  await stack.noise(runId, 3)
  expect(await stepOf(runId, 'pause')).toMatchObject({ status: 'held', waits_until: at })
  expect(await auditOf(runId, 'step.waiting')).toHaveLength(1)
  await stack.cancel(runId)
  await stack.ended(runId)
})

test('each item of a `for_each` waits for its own time', async () => {
  const runId = await start(
    wait('each', { seconds: '{{item}}' }, { for_each: [2, 0, 1], when: { value: '{{item}}', operator: 'not_equals', compare: 0 } }),
    read('after', 'z', { depends_on: ['each'] }),
  ) // prettier-ignore
  expect(await stack.ended(runId)).toMatchObject({ run: 'completed', each: 'completed', after: 'completed' })
  expect((await stepOf(runId, 'each')).items).toEqual({ total: 3, states: { completed: 2, skipped: 1 } })
  await tookAtLeast(runId, 2, 'each')
})

describe('a wait that cannot begin', () => {
  const broken = wait('pause', { until: '{{input.day}}' }, { on_error: 'continue' })
  const inputs = { day: { type: 'string' } }

  test.each([
    ['soon', 'invalid_params', '`wait.until` must be a time such as'],
    ['2100-01-01', 'invalid_params', '`wait.until` is more than a year away'],
  ])('%s: the step fails, and the run goes on if it may', async (day, code, message) => {
    const runId = await stack.run({ inputs, steps: [broken, read('after', 'c', { depends_on: ['pause'] })] }, { day }) // prettier-ignore
    expect(await stack.ended(runId)).toEqual({ run: 'completed', pause: 'failed', after: 'completed' })
    const { error } = await stepOf(runId, 'pause')
    expect(error).toMatchObject({ code, fault: 'caller', message: expect.stringContaining(message) })
  })

  test('is skipped if its `when` does not hold', async () => {
    const when = { value: '{{input.day}}', operator: 'equals', compare: 'x' }
    const runId = await stack.run({ inputs, steps: [{ ...broken, when }] }, { day: 'y' })
    expect(await stack.ended(runId)).toEqual({ run: 'completed', pause: 'skipped' })
  })
})

test('a freeze denies the wait when its time comes, and not before', async () => {
  const runId = await start(wait('pause', { seconds: 2 }), mail('never', { depends_on: ['pause'] }))
  await waits(runId)
  await stack.frozen(async () => {
    expect(await stack.ended(runId)).toEqual({ run: 'denied', pause: 'denied', never: 'cancelled' })
  })
  expect(stack.sink.count('never')).toBe(0)
})

test('a failing step ends the run and its waits', async () => {
  const runId = await start(wait('pause', hour), read('gate', 'deaf'), read('bad', 'fail', { depends_on: ['gate'] })) // prettier-ignore
  await waits(runId)
  reads.release()
  expect(await stack.ended(runId)).toMatchObject({ run: 'failed', pause: 'cancelled' })
})

test('the labels of what a wait depends on pass on to the step after it, in the plan and in the run', async () => {
  const rule = { name: 'no', verdict: 'deny', labels: { any_of: ['internal'] }, side_effects: ['egress'] }
  const steps = [
    read('source', 'a'),
    wait('pause', { seconds: 2 }, { depends_on: ['source'] }),
    mail('out', { depends_on: ['pause'], on_error: 'continue' }),
  ]
  const runId = await start(...steps)
  await waits(runId)
  await stack.rules(rule)
  expect(await stack.ended(runId)).toMatchObject({ source: 'completed', pause: 'completed', out: 'denied' })
  expect(await stepOf(runId, 'pause')).toMatchObject({ labels: ['internal'] })
  await expect(start(...steps)).rejects.toThrow('step `out` would be denied by `no`')
})

test('operators see what the run waits for', async () => {
  const runId = await start(wait('pause', hour, { summary: 'Until the office opens' }))
  await waits(runId)
  const handle = stack.client.workflow.getHandle(runId)
  await until('Temporal shows it', async () => {
    const { typedSearchAttributes } = await handle.describe()
    return JSON.stringify(typedSearchAttributes).includes('time of pause')
  })
  const timers = ((await handle.fetchHistory()).events ?? []).filter(
    (each) => each.timerStartedEventAttributes,
  )
  const summary = timers.at(-1)?.userMetadata?.summary?.data
  expect(JSON.parse(String(summary))).toBe('time of pause: until it comes')
  await stack.cancel(runId)
  await stack.ended(runId)
})

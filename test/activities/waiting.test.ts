import { describe, expect, test } from '@jest/globals'
import { execute } from './execute.ts'
import { type Engine, runOf, stepOf, useEngine } from '../governance/runs/engine-fixture.ts'
import { createRunCaches } from '../../src/governance/runs/values/run-caches.ts'
import { mostStoredBytes } from '../../src/calls/runs/storage-limit.ts'

let engine: Engine
useEngine((started) => (engine = started))

const wait = (id: string, given: object, over: object = {}) => ({ id, wait: given, ...over })
const ask = async (
  runId: string,
  stepId: string,
  over: { type?: string; item?: number; of?: string; body?: () => Promise<unknown> } = {},
) =>
  (
    await execute(engine.context, {
      workflowId: over.of ?? runId,
      activityType: over.type ?? 'wait',
      args: [{ runId, stepId, itemIndex: over.item ?? null }],
      ...(over.body && { body: over.body }),
    })
  ).answer
const read = { id: 'read', tool: 'file_read', params: { path: 'a' } }
const held = { type: 'Waiting', details: [expect.objectContaining({ waitsFor: 'time' })] }
const ended = (outcome: string) => ({ type: 'StepEnded', details: [{ outcome }] })

test('a wait that is asked about during a freeze keeps waiting until its time', async () => {
  const runId = await engine.run({ steps: [wait('pause', { seconds: 3_600 })] })
  expect(await ask(runId, 'pause')).toMatchObject(held)
  await engine.frozen(async () => expect(await ask(runId, 'pause')).toMatchObject(held))
  expect(await ask(runId, 'pause')).toMatchObject(held)
  await engine.context.db
    .updateTable('effects')
    .set({ until: new Date(0) })
    .where('run_id', '=', runId)
    .execute()
  await engine.frozen(async () => expect(await ask(runId, 'pause')).toMatchObject(ended('denied')))
})

test('a wait whose values cannot be opened fails, and one that has begun goes on', async () => {
  const until = '{{read.output.text}}'
  const steps = [read, wait('begun', { until }), wait('later', { until })]
  const runId = await engine.run({ steps })
  const text = new Date(Date.now() + 3_600_000).toISOString()
  await ask(runId, 'read', { type: 'file_read', body: () => Promise.resolve({ output: { text } }) })
  expect(await ask(runId, 'begun')).toMatchObject(held)
  // Another process, which has no values in memory.
  Object.assign(engine.context, { runCaches: createRunCaches() })
  const effects = engine.context.db.updateTable('effects').where('run_id', '=', runId)
  await effects
    .set({ output_sealed: Buffer.from('broken') })
    .where('step_id', '=', 'read')
    .execute()
  expect(await ask(runId, 'later')).toMatchObject(ended('failed'))
  expect(await stepOf(engine.context, runId, 'later')).toMatchObject({ error: { code: 'not_prepared' } })
  expect(await ask(runId, 'begun')).toMatchObject(held)
})

test('no wait begins while the organization has no storage room', async () => {
  const runId = await engine.run({
    steps: [wait('begun', { seconds: 3_600 }), wait('pause', { seconds: 3_600 })],
  })
  expect(await ask(runId, 'begun')).toMatchObject(held)
  const more = (bytes: number) =>
    engine.context.pool.query('update chain_head set stored_bytes = stored_bytes + $1', [bytes])
  await more(1e15)
  expect(await ask(runId, 'pause')).toMatchObject({
    type: 'Unavailable',
    message: 'waits for storage room in the organization',
  })
  expect(await ask(runId, 'begun')).toMatchObject(held)
  await more(-1e15)
  expect(await ask(runId, 'pause')).toMatchObject(held)
})

test('the labels of waits count towards the bytes that a run may store', async () => {
  const runId = await engine.run({ steps: [wait('a', { seconds: 1 })] })
  await engine.context.db
    .updateTable('runs')
    .set({ stored_bytes: mostStoredBytes })
    .where('id', '=', runId)
    .execute()
  // Nothing is stored for a wait without labels.
  expect(await ask(runId, 'a')).toMatchObject(held)
  const labelled = await engine.run({ steps: [read, wait('a', { seconds: 1 }, { depends_on: ['read'] })] })
  await ask(labelled, 'read', { type: 'file_read' })
  expect((await stepOf(engine.context, labelled, 'read')).labels).toEqual(['internal'])
  await engine.context.db
    .updateTable('runs')
    .set({ stored_bytes: mostStoredBytes })
    .where('id', '=', labelled)
    .execute()
  expect(await ask(labelled, 'a')).toMatchObject(ended('failed'))
  expect(await stepOf(engine.context, labelled, 'a')).toMatchObject({
    error: { code: 'run_too_large' },
    labels: ['internal'],
  })
})

describe('the words of a wrong wait', () => {
  test.each([
    ['a time that is null', null, '`wait.until` must be a time such as'],
    ['a long text', `${' '.repeat(1_000_000)}2020-01-01`, '`wait.until` must be a time such as'],
  ])('%s', async (_name, day, message) => {
    const definition = {
      inputs: { day: { type: 'string' } },
      steps: [wait('pause', { until: '{{input.day}}' })],
    }
    const runId = await engine.run(definition, day === null ? {} : { day })
    expect(await ask(runId, 'pause')).toMatchObject(ended('failed'))
    expect((await stepOf(engine.context, runId, 'pause')).error).toMatchObject({
      message: expect.stringContaining(message),
    })
  })
})

test('no activity begins a step of another kind, another run or a step that is not ready', async () => {
  const steps = [
    read,
    wait('pause', { seconds: 0 }, { depends_on: ['read'] }),
    wait('each', { seconds: 0 }, { for_each: [1] }),
  ]
  const runId = await engine.run({ steps })
  const other = await engine.run({ steps })
  for (const answer of [
    await ask(runId, 'read'),
    await ask(runId, 'pause'),
    await ask(runId, 'pause', { type: 'file_read' }),
    await ask(runId, 'each', { item: 0 }),
    await ask(runId, 'each', { item: 1 }),
    await ask(runId, 'pause', { of: other }),
  ])
    expect(answer).toMatchObject({ type: 'Refused' })
  expect((await runOf(engine.context, runId)).started_at).toBeNull()
})

test('two workers ask at once: the wait begins once', async () => {
  const runId = await engine.run({ steps: [wait('pause', { seconds: 0.4 })] })
  const answers = await Promise.all([1, 2, 3].map(() => ask(runId, 'pause')))
  for (const each of answers) expect(each).toMatchObject(held)
  const events = await engine.eventsOf(runId)
  expect(events.filter((each) => each === 'step.held')).toHaveLength(1)
})

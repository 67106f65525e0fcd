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

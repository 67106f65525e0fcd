import { beforeEach, describe, expect, test } from '@jest/globals'
import type { RunningWorker } from '../../src/programs/worker.ts'
import { cancelRun } from '../../src/governance/runs/end/cancel.ts'
import { holdRule, runOf, stepOf } from '../governance/runs/engine-fixture.ts'
import { until } from '../stack/until.ts'
import { callsIn, closed, historiesOf } from './histories.ts'
import { read, useTestStack, type FakeReads, type Stack } from './worker-fixture.ts'

/* Quick calls run as local activities: their tools may be repeated, and their time limit is at most 10 s. */

let stack: Stack
let reads: FakeReads
let worker: RunningWorker
useTestStack(
  (...both) => ([stack, reads] = both),
  {},
  async (started) => (worker = await started.startWorker()),
)

const start = (...steps: object[]) => stack.run({ steps })
const quick = { timeout_seconds: 10 }

const callOf = (runId: string, stepId: string) =>
  stack.context.db
    .selectFrom('effects')
    .selectAll()
    .where('run_id', '=', runId)
    .where('step_id', '=', stepId)
    .executeTakeFirstOrThrow()

async function eventsOf(runId: string) {
  await closed(stack, runId)
  const [history] = await historiesOf(stack, runId)
  return history?.events ?? []
}

/** Temporal gives this request id to a workflow task that a worker asks for while its local activities go on. */
const heartbeat = 'request-from-RespondWorkflowTaskCompleted'

test('three steps take one workflow task and three markers, each with the summary of its step', async () => {
  const runId = await start(
    read('a', 'a', quick),
    read('b', '{{a.output.text}}', { ...quick, summary: 'reads it again' }),
    read('c', '{{b.output.text}}', quick),
  )
  expect(await stack.ended(runId)).toEqual({
    run: 'completed',
    a: 'completed',
    b: 'completed',
    c: 'completed',
  })
  const events = await eventsOf(runId)
  expect(callsIn({ events })).toEqual([])
  // If a task takes some seconds on a slow machine, the worker asks for another one to keep its local activities.
  const tasks = events.flatMap(({ workflowTaskStartedEventAttributes: task }) => task ?? [])
  expect(tasks.filter(({ requestId }) => requestId !== heartbeat)).toHaveLength(1)
  const markers = events.filter((event) => event.markerRecordedEventAttributes)
  const summaries = markers.flatMap(({ userMetadata }) => userMetadata?.summary?.data?.toString() ?? [])
  expect(summaries).toEqual(['"file_read for step a"', '"reads it again"', '"file_read for step c"'])
})

test('each step is decided with the outcome before it, and the run ends with its last one', async () => {
  const runId = await start(read('a', 'a', quick), read('b', '{{a.output.text}}', quick))
  expect(await stack.ended(runId)).toEqual({ run: 'completed', a: 'completed', b: 'completed' })
  await closed(stack, runId)
  const [a, b, run] = [await callOf(runId, 'a'), await callOf(runId, 'b'), await runOf(stack.context, runId)]
  expect([a.attempt, b.attempt]).toEqual([1, 1])
  expect([b.intent_at, run.finished_at]).toEqual([a.finished_at, b.finished_at])
  expect(run.nodes_executed).toBe(2)
})

test('a rule that holds the next step holds it, although it is decided ahead', async () => {
  await stack.rules(holdRule({ tools: ['file_read'], params: [{ param: 'path', operator: 'equals', value: 'held a' }] })) // prettier-ignore
  const runId = await start(read('a', 'a', quick), read('b', 'held {{a.output.text}}', quick))
  await stack.vote(await stack.held(runId), 'admin')
  expect(await stack.ended(runId)).toEqual({ run: 'completed', a: 'completed', b: 'completed' })
})

test('a call with a longer time limit, and a repeated one, are ordinary activities', async () => {
  const retry = { attempts: 2, backoff_seconds: 0 }
  const runId = await start(read('a', 'a'), read('b', 'flaky', { ...quick, retry, depends_on: ['a'] }))
  expect(await stack.ended(runId)).toEqual({ run: 'completed', a: 'completed', b: 'completed' })
  expect(reads.calls.get('flaky')).toBe(2)
  expect(callsIn({ events: await eventsOf(runId) })).toEqual(['a', 'b'])
})

test('a held call asks again, and its approval lets it run', async () => {
  await stack.rules(holdRule({ tools: ['file_read'] }))
  const runId = await start(read('a', 'held', quick))
  const approvalId = await stack.held(runId)
  expect(reads.calls.get('held') ?? 0).toBe(0)
  await stack.vote(approvalId, 'admin')
  expect(await stack.ended(runId)).toEqual({ run: 'completed', a: 'completed' })
  expect(reads.calls.get('held')).toBe(1)
  expect(callsIn({ events: await eventsOf(runId) })).toEqual([])
})

test('ten items with quick calls run at a time', async () => {
  const items = Array.from({ length: 25 }, (_, index) => `wait-${index}`)
  const runId = await start(read('each', '{{item}}', { ...quick, for_each: items }))
  await until('ten wait', () => reads.waiting() === 10)
  expect([...reads.calls.keys()].sort()).toEqual(items.slice(0, 10).sort())
  reads.release('wait-9')
  await until('the next one waits', () => reads.calls.has('wait-10') && reads.waiting() === 10)
  expect(reads.calls.size).toBe(11)
  reads.release()
  expect(await stack.ended(runId)).toEqual({ run: 'completed', each: 'completed' })
  expect(reads.calls.size).toBe(25)
})

describe('while a quick call runs', () => {
  let runId: string
  beforeEach(async () => {
    await stack.rules(holdRule({ tools: ['file_read'], params: [{ param: 'path', operator: 'equals', value: 'held' }] })) // prettier-ignore
    runId = await start(read('slow', 'wait', quick), read('held', 'held', quick))
    await until('it reads', () => reads.waiting() === 1)
  })

  test('an approval of another step takes effect', async () => {
    await stack.vote(await stack.held(runId), 'admin')
    await until(
      'the held step',
      async () => (await stepOf(stack.context, runId, 'held')).status === 'completed',
    )
    expect((await stepOf(stack.context, runId, 'slow')).status).not.toBe('completed')
    reads.release()
    expect(await stack.ended(runId)).toMatchObject({ run: 'completed' })
  })

  test('cancelling ends the run', async () => {
    await stack.held(runId)
    await cancelRun(stack.context, { caller: stack.caller('member'), runId })
    expect(await stack.ended(runId)).toMatchObject({ run: 'cancelled', slow: 'cancelled' })
    expect(reads.calls.get('wait')).toBe(1)
  })

  test('a worker that stops hands it over', async () => {
    const stopped = worker.stop()
    worker = await stack.startWorker()
    await stopped
    await until('it reads again', () => (reads.calls.get('wait') ?? 0) >= 2 && reads.waiting() === 1)
    await stack.vote(await stack.held(runId), 'admin')
    reads.release()
    expect(await stack.ended(runId)).toEqual({ run: 'completed', slow: 'completed', held: 'completed' })
  })
})

/**
 * Number of failed workflow tasks in the histories of these runs. A failed task makes its run stand still for seconds
 * or minutes, until Temporal tries the task again.
 */
async function failedTasks(runIds: readonly string[]): Promise<number> {
  const events = await Promise.all(runIds.map(eventsOf))
  return events.flat().filter((event) => event.workflowTaskFailedEventAttributes).length
}

describe('no workflow task fails', () => {
  const several = { for_each: ['a', 'b', 'c', 'd'], ...quick }
  const steps = [
    read('bad', 'fail {{index}}', { for_each: ['x', 'y'], ...quick }),
    read('good', '{{item}}', several),
    read('more', '{{item}}', several),
  ]
  const runs = 12

  test('when a run fails beside other quick calls', async () => {
    const runIds = await Promise.all(Array.from({ length: runs }, () => start(...steps)))
    for (const runId of runIds)
      expect(await stack.ended(runId)).toMatchObject({ run: 'failed', bad: 'failed' })
    expect(await failedTasks(runIds)).toBe(0)
  })

  test('when a run is cancelled beside quick calls', async () => {
    const items = Array.from({ length: 60 }, (_, index) => `${index}`)
    const runIds = await Promise.all(
      Array.from({ length: runs }, () => start(read('each', '{{item}}', { for_each: items, ...quick }))),
    )
    await until('items are read', () => reads.calls.size > 0)
    for (const runId of runIds) await cancelRun(stack.context, { caller: stack.caller('member'), runId })
    for (const runId of runIds) expect(await stack.ended(runId)).toMatchObject({ run: 'cancelled' })
    expect(await failedTasks(runIds)).toBe(0)
  })
})

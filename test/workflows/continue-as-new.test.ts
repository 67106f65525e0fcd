import { randomUUID } from 'node:crypto'
import { describe, expect, test } from '@jest/globals'
import proto from '@temporalio/proto'
import { reconcile } from '../../src/governance/delivery/reconciler.ts'
import { holdRule } from '../governance/runs/engine-fixture.ts'
import { until } from '../stack/until.ts'
import { callsIn, closed, historiesOf, replay } from './histories.ts'
import {
  chain,
  mail,
  numbered,
  onPaths,
  quick,
  read,
  useTestStack,
  type FakeReads,
  type Stack,
} from './worker-fixture.ts'
import { createOrganization } from '../../src/governance/people/organizations.ts'

const { CommandType } = proto.temporal.api.enums.v1

/* A run that continues in a new history: the server suggests it after 40 events, about six steps of a chain. */
// The tests start reconciliation themselves. Otherwise it could do the work of a signal unnoticed.
let stack: Stack
let reads: FakeReads
useTestStack((...both) => ([stack, reads] = both), { suggestAfterEvents: '40', RECONCILE_SECONDS: '3600' })

const start = (...steps: object[]) => stack.run({ steps })
const histories = (runId: string) => historiesOf(stack, runId)
const once = (paths: Iterable<string>) => Object.fromEntries([...paths].map((path) => [path, 1]))

describe('a run longer than a history', () => {
  test('quick calls beside ordinary ones: every step runs once, under one id', async () => {
    const chainOfQuick = numbered(40, 'q').map((id, n) =>
      read(id, id, { ...quick, depends_on: n > 0 ? [`q${n - 1}`] : [] }),
    )
    const all = [...chain(20), ...chainOfQuick]
    const runId = await start(...all)
    expect(await stack.ended(runId)).toMatchObject({ run: 'completed', s19: 'completed', q39: 'completed' })
    expect(Object.fromEntries(reads.calls)).toEqual(once(all.map((step) => step.id)))
    const each = await histories(runId)
    expect(each.length).toBeGreaterThan(2)
    expect(each.flatMap(callsIn)).toHaveLength(20)
    const events = (await stack.eventsOf(runId)).filter((type) => type.startsWith('run.'))
    expect(events).toEqual(['run.queued', 'run.started', 'run.completed'])
  })

  test('the run keeps its search attributes and its priority', async () => {
    const runId = await start(...chain(12), read('last', 'last-wait', { depends_on: ['s11'] }))
    await until('the last step reads', () => reads.waiting() === 1)
    const all = await histories(runId)
    expect(all.length).toBeGreaterThan(1)
    // Temporal shares its workers by the organization.
    for (const { events } of all)
      expect(events?.[0]?.workflowExecutionStartedEventAttributes?.priority).toMatchObject({
        fairnessKey: stack.organizationId,
      })
    const { typedSearchAttributes } = await stack.client.workflow.getHandle(runId).describe()
    const attributes = Object.fromEntries(
      typedSearchAttributes.getAll().map(({ key, value }) => [key.name, value]),
    )
    expect(attributes).toMatchObject({
      CountersignOrganization: stack.organizationId,
      CountersignState: 'running',
      CountersignVersion: 1,
    })
    reads.release()
    await stack.ended(runId)
  })

  test('a `for_each`: the count is asked for once, and no item runs twice', async () => {
    const items = numbered(120, 'i')
    const runId = await start(
      read('each', '{{item}}', { for_each: items }),
      read('after', '{{each.output[119].text}}!'),
    )
    expect(await stack.ended(runId)).toEqual({ run: 'completed', each: 'completed', after: 'completed' })
    expect(Object.fromEntries(reads.calls)).toEqual(once([...items, 'i119!']))
    const all = await histories(runId)
    expect(all.length).toBeGreaterThan(1)
    expect((await stack.eventsOf(runId)).filter((type) => type === 'step.started')).toHaveLength(2)
  })

  test('is distinguished from one that has ended: the reconciler leaves it alone', async () => {
    const runId = await start(...chain(12), read('last', 'last-wait', { depends_on: ['s11'] }))
    await until('the last step reads', () => reads.waiting() === 1)
    const [, second] = await histories(runId)
    const first = second?.events?.[0]?.workflowExecutionStartedEventAttributes?.continuedExecutionRunId ?? ''
    expect((await stack.client.workflow.getHandle(runId, first).describe()).status.name).toBe(
      'CONTINUED_AS_NEW',
    )
    expect(await stack.motor.describe(runId)).toBe('running')
    expect(await reconcile(stack.context, stack.motor, stack.attributes, 0)).toEqual({
      started: 0,
      closed: 0,
      woken: 0,
    })
    await stack.client.workflow.getHandle(runId).terminate('test')
    await until('terminated', async () => (await stack.motor.describe(runId)) === 'terminated')
    expect(await reconcile(stack.context, stack.motor, stack.attributes, 0)).toMatchObject({ closed: 1 })
    expect(await stack.ended(runId)).toMatchObject({ run: 'cancelled' })
  })
})

/*
 * While a quick call takes long, the worker answers Temporal every four seconds. Such an answer adds events, but
 * records nothing. A replay leaves the answer out, and gives what came before it with the length after it.
 */
describe('quick calls during which the history becomes long enough', () => {
  test('the history replays', async () => {
    const both = ['a', 'b'].map((id) => read(id, `wait-${id}`, { depends_on: ['s3'] }))
    const after = { ...quick, depends_on: ['a', 'b'] }
    const runId = await start(...chain(4), ...both, read('q', 'wait-q', after), read('r', 'wait-r', after))
    const events = async () => (await histories(runId))[0]?.events ?? []
    const completed = async () => (await events()).filter((each) => each.activityTaskCompletedEventAttributes)
    const isSuggested = async () =>
      (await events()).some((each) => each.workflowTaskStartedEventAttributes?.suggestContinueAsNew)
    await until('both wait', () => reads.waiting() === 2)
    reads.release('wait-a')
    // Only the second result starts something.
    await until('the run has read the first result', async () => {
      const [first] = (await completed()).slice(4)
      return (await events()).some((each) => Number(each.eventId) > Number(first?.eventId) && each.workflowTaskCompletedEventAttributes) // prettier-ignore
    })
    reads.release('wait-b')
    await until('both quick calls wait', () => reads.calls.has('wait-q') && reads.calls.has('wait-r'))
    expect(await isSuggested()).toBe(false)
    await until('the history is long enough', isSuggested)
    reads.release()
    expect(await stack.ended(runId)).toMatchObject({ run: 'completed', q: 'completed', r: 'completed' })
    await closed(stack, runId)
    await replay(stack, runId)
  })
})

describe('calls that are held meanwhile', () => {
  test('stay held without another question, and are approved afterwards', async () => {
    await stack.rules(holdRule())
    const runId = await start(mail('carried'), ...chain(20))
    const approvalId = await stack.held(runId)
    await until('the chain ends', () => reads.calls.has('s19'))
    const all = await histories(runId)
    expect(all.length).toBeGreaterThan(2)
    expect(callsIn(all.at(-1) ?? {})).not.toContain('carried')
    expect(await stack.approvalsOf(runId)).toMatchObject([{ id: approvalId, status: 'pending' }])
    await stack.vote(approvalId, 'admin')
    expect(await stack.ended(runId)).toMatchObject({ run: 'completed', carried: 'completed' })
    expect(stack.sink.count('carried')).toBe(1)
  })

  test('expire at their original time', async () => {
    await stack.rules(holdRule({ expires_after_seconds: 5 }))
    const runId = await start(mail('short', { on_error: 'continue' }), ...chain(14))
    expect(await stack.ended(runId)).toMatchObject({ run: 'completed', short: 'expired', s13: 'completed' })
    const [approval] = await stack.approvalsOf(runId)
    const seconds = (Number(approval?.expires_at) - Number(approval?.created_at)) / 1_000
    expect(seconds).toBe(5)
    expect(await stack.approvalsOf(runId)).toHaveLength(1)
  })

  test('more held items than a history has events: each is asked for once, and once more when approved', async () => {
    await stack.rules(onPaths('require_approval', 'hold'))
    const items = Array.from({ length: 200 }, (_, index) => `${index % 4 === 0 ? 'hold' : 'i'}${index}`)
    const runId = await start(read('each', '{{item}}', { for_each: items }), ...chain(20))
    const done = [...items.filter((item) => !item.startsWith('hold')), ...chain(20).map((step) => step.id)]
    await until('all others are done', () => reads.calls.size === done.length)
    expect((await histories(runId)).length).toBeGreaterThan(1)
    expect(Object.fromEntries(reads.calls)).toEqual(once(done))
    const held = await stack.approvalsOf(runId)
    expect(held).toHaveLength(50)
    // The order of the votes does not matter.
    for (const { id } of held.toReversed()) await stack.vote(id, 'admin')
    expect(await stack.ended(runId)).toMatchObject({ run: 'completed', each: 'completed' })
    expect(Object.fromEntries(reads.calls)).toEqual(once([...done, ...items]))
    const each = items.flatMap((item, index) =>
      Array<string>(item.startsWith('hold') ? 2 : 1).fill(`each#${index}`),
    )
    const calls = (await histories(runId)).flatMap(callsIn).filter((id) => id.startsWith('each#'))
    expect(calls.toSorted()).toEqual(each.toSorted())
  })

  test('a vote at any moment around the boundary is not lost', async () => {
    await stack.rules(holdRule())
    const runs = Array.from({ length: 6 }, async (_, n) => {
      const runId = await start(mail(`edge${n}`), ...chain(24, { params: { path: `edge${n}` } }))
      const approvalId = await stack.held(runId)
      const noise = stack.noise(runId, 40)
      await until('it reads', () => (reads.calls.get(`edge${n}`) ?? 0) >= 2 + n * 3)
      await stack.vote(approvalId, 'admin')
      expect(await stack.ended(runId)).toMatchObject({ run: 'completed', [`edge${n}`]: 'completed' })
      await noise
      expect(stack.sink.count(`edge${n}`)).toBe(1)
      expect(reads.calls.get(`edge${n}`)).toBe(24)
    })
    await Promise.all(runs)
  })

  test('a run that waits for its own approval outlives its history, and starts afterwards', async () => {
    await stack.settings({ approval_required_from: 'low' })
    const runId = await start(read('a', 'a'))
    await stack.settings({ approval_required_from: null })
    const approvalId = await stack.held(runId)
    // Wakes the run until it has another history, because a slow worker may take several wake-ups at once.
    await until('another history', async () => {
      // The wake-up fails until the workflow has been started.
      const isWoken = await stack.motor.wake(runId, {}).catch(() => false)
      return isWoken && (await histories(runId)).length > 1
    })
    expect(await stack.runOf(runId)).toMatchObject({ status: 'awaiting_approval' })
    await stack.vote(approvalId, 'admin')
    expect(await stack.ended(runId)).toEqual({ run: 'completed', a: 'completed' })
  })
})

describe('branches that overlap', () => {
  test('a long call is waited for, once the history is twice as long as suggested', async () => {
    const runId = await start(read('long', 'long-wait'), ...chain(40))
    await until('the chain stands still', async () => {
      if (reads.waiting() === 0 || reads.calls.size < 10) return false
      const { historyLength, raw } = await stack.client.workflow.getHandle(runId).describe()
      // Only the long call is left: a chain that goes on would always have a call or a task.
      return historyLength >= 80 && raw.pendingActivities?.length === 1 && !raw.pendingWorkflowTask
    })
    expect(reads.calls.has('s39')).toBe(false)
    expect((await histories(runId)).length).toBe(1)
    reads.release()
    expect(await stack.ended(runId)).toMatchObject({ run: 'completed', long: 'completed', s39: 'completed' })
    const all = await histories(runId)
    expect(all.length).toBeGreaterThan(1)
    expect(all[0]?.events?.length).toBeLessThan(110)
    expect(all.flatMap(callsIn).filter((id) => id === 'long')).toEqual(['long'])
    expect(reads.calls.get('long-wait')).toBe(1)
  })

  test('a failed one ends the run where it is', async () => {
    const runId = await start(read('bad', 'deaf-fail'), read('each', '{{item}}', { for_each: ['x', 'wait'] }), ...chain(9)) // prettier-ignore
    await until('the chain ends', () => reads.calls.has('s8') && reads.waiting() === 2)
    reads.release('deaf')
    expect(await stack.ended(runId)).toMatchObject({ run: 'failed', bad: 'failed', each: 'cancelled' })
  })
})

describe('cancelled', () => {
  test('at any moment around the boundary', async () => {
    const runs = Array.from({ length: 8 }, async (_, n) => {
      const runId = await start(...chain(40, { params: { path: `cut${n}` } }))
      await until('it reads', () => (reads.calls.get(`cut${n}`) ?? 0) >= 4 + n)
      await stack.cancel(runId)
      expect(await stack.ended(runId)).toMatchObject({ run: 'cancelled', s39: 'cancelled' })
      expect(reads.calls.get(`cut${n}`)).toBeLessThan(40)
    })
    await Promise.all(runs)
  })

  test('in Temporal itself, in exactly the task that would continue in a new history', async () => {
    await stack.rules(holdRule())
    const runId = await start(mail('never'))
    await stack.held(runId)
    await stack.stopWorkers()
    // The next worker gets two things at once: the server's suggestion, and after it the cancellation.
    await stack.noise(runId, 40)
    await stack.client.workflow.getHandle(runId).cancel()
    await stack.startWorker()
    expect(await stack.ended(runId)).toEqual({ run: 'cancelled', never: 'cancelled' })
    expect(await histories(runId)).toHaveLength(1)
  })

  test('in Temporal itself, while that task is being processed: the server refuses the answer and reports the cancellation', async () => {
    const { workflow, workflowService: service, connection, options } = stack.client
    const taskQueue = { name: randomUUID() }
    const { namespace } = options
    // The test polls in place of a worker.
    const poll = () =>
      connection.withDeadline(Date.now() + 60_000, () =>
        service.pollWorkflowTaskQueue({ namespace, taskQueue, identity: 'by hand' }),
      )
    const handle = await workflow.start('byHand', { taskQueue: taskQueue.name, workflowId: randomUUID() })
    const { taskToken } = await poll()
    await handle.cancel()
    const goOn = {
      commandType: CommandType.COMMAND_TYPE_CONTINUE_AS_NEW_WORKFLOW_EXECUTION,
      continueAsNewWorkflowExecutionCommandAttributes: { workflowType: { name: 'byHand' }, taskQueue },
    }
    await expect(
      service.respondWorkflowTaskCompleted({ namespace, taskToken, identity: 'by hand', commands: [goOn] }),
    ).rejects.toThrow('UnhandledCommand')
    const { history } = await poll()
    expect(history?.events?.some((each) => each.workflowExecutionCancelRequestedEventAttributes)).toBe(true)
    await handle.terminate('test')
  })
})

/** The number of calls of these runs that Temporal has never given to a worker. */
async function neverHandedOut(runIds: readonly string[]): Promise<number> {
  const views = await Promise.all(runIds.map((id) => stack.client.workflow.getHandle(id).describe()))
  const pending = views.flatMap(({ raw }) => raw.pendingActivities ?? [])
  return pending.filter(({ lastStartedTime }) => lastStartedTime == null).length
}

test('three hundred calls that wait for a server leave room for those of another organization', async () => {
  const items = numbered(10, 'wait ')
  const runIds = await Promise.all(
    Array.from({ length: 30 }, () => stack.run({ steps: [read('each', '{{item}}', { for_each: items })] })),
  )
  await until('as many calls wait as may be in progress', () => reads.waiting() === 100)
  await until('all others are scheduled', async () => (await neverHandedOut(runIds)) >= 150)
  const { id } = await createOrganization(stack.context, stack.caller('owner'), 'Neighbour')
  const owner = { ...stack.caller('owner'), organizationId: id }
  const steps = [read('a', 'a'), read('b', 'b', { depends_on: ['a'] })]
  const neighbours = await stack.runAs(owner, { steps })
  expect(await stack.ended(neighbours)).toMatchObject({ run: 'completed', a: 'completed', b: 'completed' })
  // The neighbour's calls did not wait for the earlier calls.
  expect(await neverHandedOut(runIds)).toBeGreaterThan(0)
  expect(reads.waiting()).toBe(100)
  reads.release()
  for (const id of runIds) expect(await stack.ended(id)).toMatchObject({ run: 'completed' })
  // Each call was made once, also the calls that had to ask for a place again.
  expect(Object.fromEntries(reads.calls)).toEqual({ ...Object.fromEntries(items.map((item) => [item, 30])), a: 1, b: 1 }) // prettier-ignore
})

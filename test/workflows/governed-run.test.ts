import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import { readRunEvents } from '../../src/governance/runs/read/events.ts'
import { readReceipt, type ReceiptView } from '../../src/governance/runs/read/receipt.ts'
import { denyRule, holdRule } from '../governance/runs/engine-fixture.ts'
import { until } from '../stack/until.ts'
import { stepCases } from './step-cases.ts'
import {
  mail,
  read,
  useTestStack,
  type FakeReads,
  type Stack,
  numbered,
  onPath,
  onPaths,
  quick,
} from './worker-fixture.ts'
import type { RunningWorker } from '../../src/programs/worker.ts'
import { readStepOutput } from '../../src/governance/runs/read/read.ts'
import { callsIn, closed, historiesOf } from './histories.ts'

let stack: Stack
let reads: FakeReads
let worker: RunningWorker
useTestStack(
  (...both) => ([stack, reads] = both),
  {},
  async (started) => (worker = await started.startWorker()),
)

const start = (...steps: object[]) => stack.run({ steps })

describe('a graph of steps', () => {
  test('runs in the order of its dependencies, whatever the order of its declaration', async () => {
    const runId = await start(
      read('c', '{{b.output.text}}c'),
      read('b', '{{a.output.text}}b', { depends_on: ['a'] }),
      read('a', 'a'),
    )
    expect(await stack.ended(runId)).toEqual({
      run: 'completed',
      a: 'completed',
      b: 'completed',
      c: 'completed',
    })
    expect([...reads.calls.keys()]).toEqual(['a', 'ab', 'abc'])
    const run = await stack.runOf(runId)
    expect(run).toMatchObject({ nodes_executed: 3, nodes_failed: 0 })
    // One audit entry tells how the run ended, and who had requested it.
    const { rows } = await stack.context.pool.query<{ entry: unknown }>(
      `select canonical::jsonb as entry from audit_events
       where canonical::jsonb->>'run_id' = $1 and canonical::jsonb->>'action' = 'finish'`,
      [runId],
    )
    expect(rows.map(({ entry }) => entry)).toEqual([
      expect.objectContaining({
        event_type: 'workflow.execute',
        status: 'completed',
        user_id: run.requested_by,
        duration_ms: expect.any(Number),
        metadata: expect.objectContaining({ nodes_executed: 3, api_key_id: run.api_key_id }),
      }),
    ])
  })

  test('a failing branch ends the run: a held call is withdrawn, a running read is cancelled', async () => {
    await stack.rules(holdRule())
    const runId = await start(mail('held'), read('long', 'wait'), read('bad', 'fail', { depends_on: ['gate'] }), read('gate', 'deaf')) // prettier-ignore
    const approval = await stack.held(runId)
    await until('2 reads wait', () => reads.waiting() === 2)
    reads.release('deaf')
    expect(await stack.ended(runId)).toEqual({
      run: 'failed',
      held: 'cancelled',
      long: 'cancelled',
      bad: 'failed',
      gate: 'completed',
    })
    expect((await stack.approvalsOf(runId))[0]).toMatchObject({ id: approval, status: 'cancelled' })
    expect(stack.sink.count('held')).toBe(0)
    expect((await stack.runOf(runId)).status_reason).toBe('step `bad` ended the run: it cannot be read')
    expect((await stack.eventsOf(runId)).at(-1)).toBe('run.failed')
  })

  test('`outputs` has every step that ended: null without an output, an empty list for a `for_each` over nothing', async () => {
    const runId = await start(
      read('done', 'a'),
      read('bad', 'fail', { on_error: 'continue' }),
      read('skipped', 'b', { when: { value: '{{done.output.text}}', operator: 'equals', compare: 'other' } }),
      read('none', '{{item}}', { for_each: [] }),
    )
    await stack.ended(runId)
    const run = await stack.readRun(runId)
    expect(run?.outputs).toEqual({ done: expect.anything(), bad: null, skipped: null, none: [] })
  })

  test('`timeout_seconds` ends a call, even one that ignores its signal', async () => {
    const retry = { attempts: 1, backoff_seconds: 0 }
    const runId = await start(
      read('a', 'wait', { timeout_seconds: 1, retry, on_error: 'continue' }),
      read('b', 'deaf', { timeout_seconds: 1, retry, on_error: 'continue' }),
    )
    expect(await stack.ended(runId)).toEqual({ run: 'completed', a: 'failed', b: 'failed' })
    const run = await stack.readRun(runId)
    expect(run?.steps.map((step) => step.error?.code)).toEqual(['timeout', 'timeout'])
  })

  test('`for_each` runs once per item, with its index, and returns the list of outputs', async () => {
    const runId = await start(
      read('list', 'list:x:y:z'),
      read('each', '{{index}}-{{item}}', { for_each: '{{list.output.list}}' }),
      read('after', '{{each.output[2].text}}!'),
    )
    expect(await stack.ended(runId)).toMatchObject({
      run: 'completed',
      each: 'completed',
      after: 'completed',
    })
    expect([...reads.calls.keys()].slice(1).sort()).toEqual(['0-x', '1-y', '2-z', '2-z!'])
    expect(await stack.runOf(runId)).toMatchObject({ nodes_executed: 5 })
    const events = await stack.eventsOf(runId)
    expect(events.filter((type) => type === 'step.completed')).toHaveLength(6)
  })

  test('a failing item ends the step and withdraws the held ones', async () => {
    await stack.rules({ name: 'h', verdict: 'require_approval', params: [{ param: 'path', operator: 'equals', value: 'hold' }] }) // prettier-ignore
    const runId = await start(read('each', '{{item}}', { for_each: ['ok', 'hold', 'wait-fail'] }))
    await stack.held(runId)
    await until('1 reads wait', () => reads.waiting() === 1)
    reads.release()
    expect(await stack.ended(runId)).toEqual({ run: 'failed', each: 'failed' })
    expect((await stack.approvalsOf(runId))[0]).toMatchObject({ status: 'cancelled' })
  })
})

describe('a run that waits for its own approval', () => {
  beforeEach(() => stack.settings({ approval_required_from: 'high' }))
  afterEach(() => stack.settings({ approval_required_from: null }))

  test.each([
    ['approve', { run: 'completed', gated: 'completed' }, 1],
    ['reject', { run: 'rejected', gated: 'cancelled' }, 0],
  ] as const)('%s', async (decision, expected, mails) => {
    const before = stack.sink.count('gated')
    const runId = await start(mail('gated'))
    expect((await stack.runOf(runId)).status).toBe('awaiting_approval')
    await stack.vote(await stack.held(runId), 'admin', decision)
    expect(await stack.ended(runId)).toEqual(expected)
    expect(stack.sink.count('gated') - before).toBe(mails)
  })
})

describe('the states, events and receipts of every kind of step', () => {
  test.each(Object.entries(stepCases))('%s', async (_name, expected) => {
    await stack.rules(...(expected.rules ?? []))
    const runId = await stack.run({ steps: expected.steps })
    for (const decision of expected.votes ?? []) await stack.vote(await stack.held(runId), 'admin', decision)
    const { states, receipts, calls, reason = reasonOf(expected.states), sideBySide } = expected
    const events = ['run.started', ...expected.events, `run.${states['run']}`].join(', ')
    const nodes = expected.nodes ?? nodesOf(events.split(', '))
    const wanted = { states, nodes, reason, events, receipts, calls }
    const left = { ...(await seen(runId)), calls: Object.fromEntries(reads.calls) }
    expect(sideBySide ? inOrder(left) : left).toEqual(sideBySide ? inOrder(wanted) : wanted)
  })

  /** The reason of a run that completed. */
  function reasonOf(states: Readonly<Record<string, string>>): string {
    const bad = Object.entries(states).filter(
      ([id, state]) => id !== 'run' && !['completed', 'skipped'].includes(state),
    )
    const named = bad.map(([id, state]) => `\`${id}\` (${state})`).sort()
    return `every step has ended${bad.length === 0 ? '' : `; the run went on after ${named.join(', ')}`}`
  }

  /** `executed/failed` of the run's counters. A step does not count beside its items. */
  function nodesOf(events: readonly string[]): string {
    const all = events.map((event) => event.split(' '))
    const hasItems = (place: string) => all.some(([, other]) => other?.startsWith(`${place}#`))
    const count = (...types: string[]) =>
      all.filter(([type = '', place = '']) => types.includes(type) && !hasItems(place)).length
    return `${count('step.completed')}/${count('step.failed', 'step.denied', 'step.rejected', 'step.expired')}`
  }

  /** Sorts the events and receipts of steps or items that run at the same time. */
  function inOrder<T extends { events: string; receipts: string }>(each: T): T {
    const sorted = (list: string) => list.split(', ').toSorted().join(', ')
    return { ...each, events: sorted(each.events), receipts: sorted(each.receipts) }
  }

  async function seen(runId: string) {
    const states = await stack.ended(runId)
    const run = await stack.runOf(runId)
    const { events } = await readRunEvents(stack.context.db, runId, 0)
    const parts = await readReceipt(stack.context.db, stack.organizationId, runId)
    const { decisions } = JSON.parse(await parts.text()) as ReceiptView
    const place = (step: unknown, item: unknown) =>
      step ? ` ${step as string}${typeof item === 'number' ? `#${item}` : ''}` : ''
    const receiptOf = (each: ReceiptView['decisions'][number]) =>
      `${place(each.step_id, each.item_index).trim()} ${each.verdict} ${each.rule_name ?? '-'} ${each.outcome ?? '-'}`
    return {
      states,
      nodes: `${run.nodes_executed}/${run.nodes_failed}`,
      reason: run.status_reason,
      events: events
        .slice(1)
        .map((event) => `${event.type}${place(event['step_id'], event['item_index'])}`)
        .join(', '),
      receipts: decisions.map(receiptOf).join(', '),
    }
  }
})

describe('a change that is saved while a mail is being sent, before its final dot leaves', () => {
  const underRules =
    (...rules: object[]) =>
    async (send: () => Promise<unknown>) => {
      await stack.rules(...rules)
      await send()
    }
  test.each<[string, string, (send: () => Promise<unknown>) => Promise<unknown>, string]>([
    ['a freeze stops it', 'frozen', (send) => stack.frozen(send), 'denied'],
    ['a rule that denies it stops it', 'denied', underRules(denyRule()), 'denied'],
    ['after a rule that holds it, it waits for a person', 'held', underRules(holdRule()), 'completed'],
    [
      'a rule for another tool lets it go',
      'unmoved',
      underRules(denyRule({ tools: ['file_read'] })),
      'completed',
    ],
  ])('%s, and it is sent once at most', async (_, id, underChange, status) => {
    stack.sink.behaviour = { kind: 'pause' }
    const runId = await start(mail(id))
    await until('the mail is under way', () => stack.sink.waiting === 1)
    stack.sink.behaviour = { kind: 'accept' }
    await underChange(async () => {
      stack.sink.release()
      if (id === 'held') {
        const approvalId = await stack.held(runId)
        expect(stack.sink.count(id)).toBe(0)
        await stack.vote(approvalId, 'admin')
      }
      expect(await stack.ended(runId)).toEqual({ run: status, [id]: status })
    })
    expect(stack.sink.count(id)).toBe(status === 'denied' ? 0 : 1)
  })
})

/*
 * How many items of a `for_each` step run at the same time, and how the step ends. Quick calls run as local activities:
 * their tools may be repeated, and their time limit is at most 10 s.
 */

const each = (items: readonly string[], over: object = {}) =>
  start(read('each', '{{item}}', { for_each: items, ...over }))
const pending = async (runId: string) =>
  (await stack.approvalsOf(runId)).filter(({ status }) => status === 'pending')
const calls = async (runId: string) => (await historiesOf(stack, runId)).flatMap(callsIn)
const textsOf = async (runId: string) => {
  const output = await readStepOutput(stack.context, stack.organizationId, runId, 'each')
  return (output as ({ text: string } | null)[]).map((item) => item?.text ?? null)
}

/**
 * Waits until neither Temporal nor a worker has anything to do except `activities` calls; returns the ids of all
 * scheduled calls.
 */
async function still(runId: string, activities: number): Promise<string[]> {
  await until('it stands still', async () => {
    const { raw } = await stack.client.workflow.getHandle(runId).describe()
    return (raw.pendingActivities ?? []).length === activities && !raw.pendingWorkflowTask
  })
  return calls(runId)
}

test('a held item delays no other, however many come after it', async () => {
  await stack.rules(onPaths('require_approval', 'hold'))
  const items = ['hold0', ...numbered(120, 'i'), 'hold1', ...numbered(20, 'j')]
  const runId = await each(items)
  await until('all others are done', () => reads.calls.size === 140)
  expect(await stack.stepOf(runId, 'each')).toMatchObject({ finished_at: null })
  for (const { id } of await pending(runId)) await stack.vote(id, 'admin')
  expect(await stack.ended(runId)).toEqual({ run: 'completed', each: 'completed' })
  expect(await textsOf(runId)).toEqual(items)
  expect([...reads.calls.values()]).toEqual(items.map(() => 1))
})

test.each([
  ['ordinary', {}],
  ['quick', quick],
])('at most 10 %s calls of a local tool run at a time, and each that ends makes room', async (kind, over) => {
  const items = numbered(60, 'wait-')
  const runId = await each(items, over)
  await until('10 wait', () => reads.waiting() === 10)
  expect([...reads.calls.keys()].sort()).toEqual(items.slice(0, 10).sort())
  if (kind === 'ordinary') expect(await still(runId, 10)).toHaveLength(10)
  reads.release('wait-9')
  await until('the next one waits', () => reads.calls.has('wait-10') && reads.waiting() === 10)
  expect(reads.calls.size).toBe(11)
  if (kind === 'ordinary') expect((await still(runId, 10)).at(-1)).toBe('each#10')
  reads.release()
  expect(await stack.ended(runId)).toEqual({ run: 'completed', each: 'completed' })
  expect(reads.calls.size).toBe(60)
})

test('approved items need room again: at most 10 of them run at a time', async () => {
  await stack.rules(onPaths('require_approval', 'wait'))
  const runId = await each(numbered(60, 'wait-'))
  await until('all are held', async () => (await pending(runId)).length === 60)
  for (const { id } of await pending(runId)) await stack.vote(id, 'admin')
  await until('10 wait', () => reads.waiting() === 10)
  expect(await still(runId, 10)).toHaveLength(60 + 10)
  reads.release()
  expect(await stack.ended(runId)).toEqual({ run: 'completed', each: 'completed' })
  expect(await stack.runOf(runId)).toMatchObject({ nodes_executed: 60, nodes_failed: 0 })
})

test('a run has at most 200 open calls, of whatever steps: further items begin when one has ended', async () => {
  await stack.rules(onPaths('require_approval', 'hold'))
  const ids = numbered(5, 'each')
  const runId = await start(...ids.map((id) => read(id, '{{item}}', { for_each: numbered(50, 'hold') })))
  await until('200 are held', async () => (await pending(runId)).length >= 200)
  expect(await still(runId, 0)).toHaveLength(200)
  const [first, second] = await pending(runId)
  await stack.vote(first?.id ?? '', 'admin')
  await stack.vote(second?.id ?? '', 'admin')
  await until('two more are held', async () => (await stack.approvalsOf(runId)).length === 202)
  expect(await still(runId, 0)).toHaveLength(204)
  await stack.cancel(runId)
  expect(await stack.ended(runId)).toMatchObject({ run: 'cancelled', each0: 'cancelled', each4: 'cancelled' })
})

test('its end is decided by its items in their order, not by which was faster', async () => {
  await stack.rules(onPath('deny', '=denied'))
  const each = { for_each: ['ok', 'deaf-fail', 'denied'], on_error: 'continue' }
  const runId = await start(read('is', '='), read('each', '{{is.output.text}}{{item}}', each))
  // The failing item that comes first in the list finishes last.
  await until('two have ended', async () => (await stack.runOf(runId)).nodes_failed === 1 && reads.calls.has('=ok')) // prettier-ignore
  reads.release()
  expect(await stack.ended(runId)).toEqual({ run: 'completed', is: 'completed', each: 'failed' })
  const error = { code: 'file_unreadable', message: 'it cannot be read' }
  expect(await stack.stepOf(runId, 'each')).toMatchObject({ error })
})

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
  expect(await stack.ended(runId)).toMatchObject({ run: 'completed', c: 'completed' })
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
  const call = (stepId: string) => stack.effectOf({ key: { runId, stepId, itemIndex: -1 } })
  const [a, b, run] = [await call('a'), await call('b'), await stack.runOf(runId)]
  expect([a?.attempt, b?.attempt]).toEqual([1, 1])
  expect([b?.intent_at, run.finished_at]).toEqual([a?.finished_at, b?.finished_at])
  expect(run.nodes_executed).toBe(2)
})

test('a rule that holds the next step holds it, although it is decided ahead', async () => {
  await stack.rules(onPath('require_approval', 'held a'))
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

describe('while a quick call runs', () => {
  let runId: string
  beforeEach(async () => {
    await stack.rules(onPath('require_approval', 'held'))
    runId = await start(read('slow', 'wait', quick), read('held', 'held', quick))
    await until('it reads', () => reads.waiting() === 1)
  })

  test('an approval of another step takes effect', async () => {
    await stack.vote(await stack.held(runId), 'admin')
    await until('the held step', async () => (await stack.stepOf(runId, 'held')).status === 'completed')
    expect((await stack.stepOf(runId, 'slow')).status).not.toBe('completed')
    reads.release()
    expect(await stack.ended(runId)).toMatchObject({ run: 'completed' })
  })

  test('cancelling ends the run', async () => {
    await stack.held(runId)
    await stack.cancel(runId)
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
    const runIds = await Promise.all(numbered(runs, '').map(() => start(...steps)))
    for (const runId of runIds)
      expect(await stack.ended(runId)).toMatchObject({ run: 'failed', bad: 'failed' })
    expect(await failedTasks(runIds)).toBe(0)
  })

  test('when a run is cancelled beside quick calls', async () => {
    const items = numbered(60, '')
    const runIds = await Promise.all(numbered(runs, '').map(() => each(items, quick)))
    await until('items are read', () => reads.calls.size > 0)
    for (const runId of runIds) await stack.cancel(runId)
    for (const runId of runIds) expect(await stack.ended(runId)).toMatchObject({ run: 'cancelled' })
    expect(await failedTasks(runIds)).toBe(0)
  })
})

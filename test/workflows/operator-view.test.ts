import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals'
import type { temporal } from '@temporalio/proto'
import { wakeKey, type WaitReason } from '../../src/contract/messages.ts'
import { changeQuota } from '../../src/governance/limits/quota.ts'
import { detailsOf, nameOf, searchedBy, Tries } from '../../src/workflows/governed-run/operator-view.ts'
import { holdRule } from '../governance/runs/engine-fixture.ts'
import { until } from '../stack/until.ts'
import {
  mail,
  read,
  useTestStack,
  type FakeReads,
  type Stack,
  deliverOutbox,
  withholdOutbox,
  chain,
  onPath,
} from './worker-fixture.ts'
import { reconcile } from '../../src/governance/delivery/reconciler.ts'
import { startRun } from '../../src/governance/delivery/relay.ts'
import { closed, historiesOf } from './histories.ts'

/* The information that Temporal shows operators about the calls that a run waits for. */

type Call = [string, WaitReason]
const approval = (stepId: string, item: number | null = null): Call => [
  wakeKey(stepId, item),
  { kind: 'approval', expiresAt: null },
]
const slot = (stepId: string): Call => [wakeKey(stepId, null), { kind: 'slot', expiresAt: null }]
const resolution = (stepId: string): Call => [wakeKey(stepId, null), { kind: 'resolution', expiresAt: null }]
const items = (length: number) => Array.from({ length }, (_, item) => approval('each', item))
const steps = (length: number) => Array.from({ length }, (_, n) => approval(`s${String(n).padStart(2, '0')}`))

type Event = temporal.api.history.v1.IHistoryEvent

describe('what a run waits for', () => {
  test.each<[string, Call[], string, string[]]>([
    ['nothing', [], '', []],
    ['the run', [['', { kind: 'approval', expiresAt: null }]], 'approval of the run', ['approval', 'approval of the run']], // prettier-ignore
    ['a step', [approval('send')], 'approval of send', ['approval', 'approval of send']],
    ['an item', [approval('each', 3)], 'approval of each (item 3)', ['approval', 'approval of each']],
    ['items', items(2).toReversed(), 'approval of each (items 0, 1)', ['approval', 'approval of each']],
    ['many items', items(12), 'approval of each (items 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 2 more)', ['approval', 'approval of each']], // prettier-ignore
    ['a slot, named once for all calls', [slot('a'), slot('b')], 'slot', ['slot']],
    [
      'each kind of wait',
      [slot('c'), resolution('b'), approval('a')],
      'approval of a, resolution of b, slot',
      ['approval', 'resolution', 'slot', 'approval of a', 'resolution of b'],
    ],
    [
      'many steps',
      steps(12),
      'approval of s00, approval of s01, approval of s02, approval of s03, approval of s04, approval of s05, approval of s06, approval of s07, approval of s08, approval of s09 and 2 more', // prettier-ignore
      ['approval', ...steps(12).map(([key]) => `approval of ${key.slice(0, 3)}`)],
    ],
  ])('%s', (_name, calls, details, values) => {
    expect(detailsOf(calls)).toBe(details)
    expect(searchedBy(calls)).toEqual(values)
  })

  test('operators search by about twenty values at most, however many there are', () => {
    expect(searchedBy(steps(999)).length).toBeLessThan(25)
  })

  test('a timer names the one call that expires first', () => {
    expect(nameOf(...approval('each', 3))).toBe('approval of each, item 3')
  })
})

describe('the calls of a run', () => {
  const step = { id: 'send', activity: 'mail_send', summary: '', dependsOn: [], forEach: false, continueOnError: false, timeoutSeconds: 10 } // prettier-ignore
  beforeAll(() => {
    jest.useFakeTimers({ now: Date.parse('2026-01-02T03:04:05Z'), doNotFake: ['setImmediate', 'nextTick'] })
  })
  afterAll(() => {
    jest.useRealTimers()
  })

  test('each names its step, tool, outcome and time', () => {
    const tries = new Tries()
    tries.add(step, null, { kind: 'approval', expiresAt: null }, Date.now())
    tries.add(step, null, { kind: 'done', outcome: 'completed' }, Date.now() - 12)
    tries.add(step, 3, { kind: 'ended', outcome: 'denied' }, Date.now() - 4)
    expect(String(tries)).toBe(
      '\n- send: mail_send waits for approval since 2026-01-02T03:04:05.000Z' +
        '\n- send: mail_send completed after 12 ms\n- send, item 3: mail_send denied after 4 ms',
    )
  })

  test('only the newest are named', () => {
    const tries = new Tries()
    for (let item = 0; item < 500; item += 1)
      tries.add(step, item, { kind: 'done', outcome: 'completed' }, Date.now())
    const lines = String(tries).trim().split('\n')
    expect(lines).toHaveLength(21)
    expect([lines[0], lines.at(-1)]).toEqual([
      '- 480 earlier',
      '- send, item 499: mail_send completed after 0 ms',
    ])
  })
})

describe('in Temporal', () => {
  let stack: Stack
  let reads: FakeReads
  // A history ends after few events, so that a run has several.
  useTestStack((...both) => ([stack, reads] = both), { RECONCILE_SECONDS: '3600', suggestAfterEvents: '40' })

  const handleOf = (runId: string) => stack.client.workflow.getHandle(runId)
  const says = (runId: string, details: string) =>
    until(`it says ${details}`, async () => {
      if ((await stack.motor.describe(runId)) === 'missing') return false
      const metadata = await handleOf(runId).query<{ currentDetails: string }>('__temporal_workflow_metadata')
      return metadata.currentDetails.split('\n')[0] === details
    })
  const attributesOf = async (runId: string) => {
    const all = (await handleOf(runId).describe()).typedSearchAttributes.getAll()
    return Object.fromEntries(all.map(({ key, value }) => [key.name, value]))
  }
  /** Searches as operators do, until Temporal's list contains the run. */
  const found = (runId: string, query: string) =>
    until(`found by ${query}`, async () => {
      const seen: string[] = []
      for await (const { workflowId } of stack.client.workflow.list({ query })) seen.push(workflowId)
      return seen.includes(runId)
    })

  test('a run that waits for several things names them, and is found by each', async () => {
    await stack.rules(holdRule({ params: [{ param: 'subject', operator: 'startswith', value: 'held' }] }))
    stack.sink.behaviour = { kind: 'drop', taken: true }
    const about = (subject: string) => ({ params: { to: 'a@b.test', subject, text: 'x' } })
    const runId = await stack.run({
      steps: [
        mail('one', about('held')),
        mail('lost', about('lost')),
        mail('each', { for_each: [0, 1], ...about('held{{item}}') }),
      ],
    })
    await says(runId, 'paused: waits for approval of each (items 0, 1), approval of one, resolution of lost')
    const each = ['approval', 'resolution', 'approval of each', 'approval of one', 'resolution of lost']
    expect(await attributesOf(runId)).toMatchObject({
      CountersignState: 'paused',
      CountersignWaitingOn: each,
    })
    for (const thing of each) await found(runId, `CountersignWaitingOn = '${thing}'`)
    const { events = [] } = await handleOf(runId).fetchHistory()
    const timers = events?.filter((event) => event.timerStartedEventAttributes)
    const summaries = timers?.map((event) => JSON.parse(String(event.userMetadata?.summary?.data)) as string)
    // One timer, at the first deadline; any of the three deadlines may be the first.
    expect(summaries?.at(-1)).toMatch(/^approval of (one|each, item [01]): until it expires$/)
    // The worker keeps no stack for the promises of a waiting run.
    expect(await handleOf(runId).query<string>('__stack_trace')).toBe('')
    await stack.cancel(runId)
    await stack.ended(runId)
  })

  test('an approved call and an approved run that wait for a slot are shown as such', async () => {
    await stack.rules(holdRule())
    const held = await stack.run({ steps: [mail('send')] })
    const approvalOfCall = await stack.held(held)
    await stack.settings({ approval_required_from: 'low' })
    const gated = await stack.run({ steps: [read('a', 'a')] })
    const approvalOfRun = await stack.held(gated)
    await stack.settings({ approval_required_from: null })
    await says(held, 'paused: waits for approval of send')
    await says(gated, 'awaiting_approval: waits for approval of the run')
    await changeQuota(stack.context, stack.caller('owner'), { concurrent_executions: 1 })
    const other = await stack.run({ steps: [read('long', 'long-wait')] })
    await until('the only slot is taken', () => reads.waiting() === 1)
    await stack.vote(approvalOfCall, 'admin')
    await stack.vote(approvalOfRun, 'admin')
    await says(held, 'paused: waits for slot')
    await says(gated, 'awaiting_approval: waits for slot')
    await found(held, `CountersignWaitingOn = 'slot' AND CountersignState = 'paused'`)
    await found(gated, `CountersignWaitingOn = 'slot' AND CountersignState = 'awaiting_approval'`)
    reads.release()
    for (const runId of [other, held, gated]) {
      expect(await stack.ended(runId)).toMatchObject({ run: 'completed' })
      await handleOf(runId).result()
      const { CountersignState, CountersignWaitingOn } = await attributesOf(runId)
      expect({ CountersignState, CountersignWaitingOn }).toEqual({ CountersignState: 'completed' })
    }
  })

  const eventsOf = async (runId: string): Promise<Event[]> =>
    (await historiesOf(stack, runId)).flatMap(({ events }) => events ?? [])
  const failureOf = async (runId: string) =>
    (await eventsOf(runId)).at(-1)?.workflowExecutionFailedEventAttributes?.failure
  const callsOf = async (runId: string) =>
    (await eventsOf(runId)).filter((event) => event.activityTaskScheduledEventAttributes)
  const json = (payload: temporal.api.common.v1.IPayload | null | undefined): unknown =>
    payload?.data ? JSON.parse(Buffer.from(payload.data).toString()) : undefined
  const signalsOf = async (runId: string) =>
    (await eventsOf(runId)).flatMap(({ workflowExecutionSignaledEventAttributes: signal }) =>
      signal ? [json(signal.input?.payloads?.[0])] : [],
    )
  const secret = 'planted-value'

  describe('a run closes in Temporal as it ended', () => {
    const held = async () => {
      await stack.rules(holdRule())
      const runId = await stack.run({ steps: [mail('m')] })
      return { runId, approvalId: await stack.held(runId) }
    }
    const ends: Record<string, [status: string, message: string | null, run: () => Promise<string>]> = {
      completed: ['COMPLETED', null, () => stack.run({ steps: [read('a', 'a')] })],
      failed: ['FAILED', 'failed: step a', () => stack.run({ steps: [read('a', `${secret}-fail`)] })],
      denied: [
        'FAILED',
        'denied: step b',
        async () => {
          await stack.rules({ ...onPath('deny', 'aa'), name: secret })
          return stack.run({ steps: [read('a', 'a'), read('b', '{{a.output.text}}a')] })
        },
      ],
      rejected: [
        'FAILED',
        'rejected: step m',
        async () => {
          const { runId, approvalId } = await held()
          await stack.vote(approvalId, 'admin', 'reject')
          return runId
        },
      ],
      expired: [
        'FAILED',
        'expired: step m',
        async () => {
          await stack.rules(holdRule({ expires_after_seconds: 1 }))
          return stack.run({ steps: [mail('m')] })
        },
      ],
      cancelled: [
        'CANCELLED',
        null,
        async () => {
          const { runId } = await held()
          await stack.cancel(runId)
          return runId
        },
      ],
    }

    test.each(Object.entries(ends))('%s', async (end, [status, message, run]) => {
      const runId = await run()
      expect((await stack.ended(runId))['run']).toBe(end)
      await closed(stack, runId)
      expect((await handleOf(runId).describe()).status.name).toBe(status)
      const failure = await failureOf(runId)
      expect(failure?.message ?? null).toBe(message)
      if (message !== null)
        expect(failure).toMatchObject({ applicationFailureInfo: { type: end, nonRetryable: true } })
      expect(JSON.stringify(failure ?? null)).not.toContain(secret)
    })

    test('rejected before it has started: by the word of its rows, not of the workflow', async () => {
      await stack.settings({ approval_required_from: 'low' })
      const runId = await stack.run({ steps: [read('a', 'a')] })
      await stack.settings({ approval_required_from: null })
      await stack.vote(await stack.held(runId), 'admin', 'reject')
      await closed(stack, runId)
      expect(await failureOf(runId)).toMatchObject({
        message: 'rejected',
        applicationFailureInfo: { type: 'rejected' },
      })
    })

    test('cancelled, although its calls ended before Temporal heard of it', async () => {
      const runId = await stack.run({ steps: [read('a', 'deaf')] })
      await until('it reads', () => reads.waiting() === 1)
      await withholdOutbox(stack)
      await stack.cancel(runId)
      await deliverOutbox(stack)
      expect((await stack.ended(runId))['run']).toBe('cancelled')
      reads.release()
      const waits = async () => (await eventsOf(runId)).some((event) => event.timerStartedEventAttributes)
      await until('it waits for the cancellation', waits)
      expect(await stack.motor.cancel(runId, null)).toBe(true)
      await closed(stack, runId)
      expect((await handleOf(runId).describe()).status.name).toBe('CANCELLED')
    })

    test('failed: nothing tries or starts it again', async () => {
      const runId = await stack.run({ steps: [read('a', 'once-fail')] })
      await stack.ended(runId)
      await closed(stack, runId)
      const before = await stack.runOf(runId)
      const setEnd = (finished_at: Date | null) =>
        stack.context.db.updateTable('runs').set({ finished_at }).where('id', '=', runId).execute()
      await setEnd(null)
      await startRun(stack.context, stack.motor, stack.attributes, runId)
      await setEnd(before.finished_at)
      expect(await reconcile(stack.context, stack.motor, stack.attributes, 0)).toMatchObject({
        started: 0,
        closed: 0,
      })
      expect(await stack.motor.describe(runId)).toBe('failed')
      const executions: unknown[] = []
      for await (const each of stack.client.workflow.list({ query: `WorkflowId = '${runId}'` }))
        executions.push(each)
      expect(executions).toHaveLength(1)
      expect(reads.calls.get('once-fail')).toBe(1)
      expect(await stack.runOf(runId)).toEqual(before)
    })
  })

  describe('Temporal shows', () => {
    test('the name of the workflow in its list and in each history, and finds runs by it', async () => {
      const runId = await stack.runAs(stack.caller('member'), { steps: chain(20) }, { name: 'Weekly report' })
      await stack.ended(runId)
      await closed(stack, runId)
      const query = `CountersignWorkflowName = 'Weekly report' AND ExecutionStatus = 'Completed'`
      await until('the list names it', async () => {
        for await (const { workflowId } of stack.client.workflow.list({ query }))
          if (workflowId === runId) return true
        return false
      })
      const histories = await historiesOf(stack, runId)
      expect(histories.length).toBeGreaterThan(1)
      // Temporal keeps the summary of a workflow for its first history only, and search attributes for all.
      expect(json(histories[0]?.events?.[0]?.userMetadata?.summary)).toBe('Weekly report, version 1')
      for (const { events } of histories) {
        const { searchAttributes } = events?.[0]?.workflowExecutionStartedEventAttributes ?? {}
        expect(json(searchAttributes?.indexedFields?.['CountersignWorkflowName'])).toBe('Weekly report')
      }
    })

    test('the summary of a step beside each of its calls, cut to what Temporal takes', async () => {
      const runId = await stack.run({
        steps: [
          read('a', 'a', { summary: 'Read the report' }),
          read('each', '{{item}}', { for_each: ['x', 'y'], summary: 'ü'.repeat(500) }),
          read('plain', 'p'),
        ],
      })
      expect((await stack.ended(runId))['run']).toBe('completed')
      const calls = await callsOf(runId)
      const shown = calls.map((event) => [
        event.activityTaskScheduledEventAttributes?.activityId ?? '',
        json(event.userMetadata?.summary),
      ])
      const cut = `${'ü'.repeat(126)}…`
      expect(Object.fromEntries(shown)).toEqual({
        a: 'Read the report',
        'each#0': `${cut}, item 0`,
        'each#1': `${cut}, item 1`,
        plain: 'file_read for step plain',
      })
    })

    test('who approved, resolved and cancelled: an id, and no comment', async () => {
      await stack.rules(holdRule())
      const { userId } = stack.caller('admin')
      const approved = await stack.run({ steps: [mail('m')] })
      await stack.vote(await stack.held(approved), 'admin')
      await stack.ended(approved)
      expect(await signalsOf(approved)).toEqual([{ key: 'm#-1', by: userId }])
      await stack.rules()
      stack.sink.behaviour = { kind: 'drop', taken: true }
      const lost = await stack.run({ steps: [mail('m')] })
      await until('unknown', async () => (await stack.stepOf(lost, 'm')).status === 'unknown_outcome')
      await stack.resolve(lost, 'done', { stepId: 'm' })
      await stack.ended(lost)
      expect(await signalsOf(lost)).toEqual([{ key: 'm#-1', by: userId }])
      const cancelled = await stack.run({ steps: [read('a', 'wait')] })
      await until('it reads', () => reads.waiting() === 1)
      await stack.cancel(cancelled, 'admin')
      await closed(stack, cancelled)
      const causes = (await eventsOf(cancelled)).flatMap(
        (event) => event.workflowExecutionCancelRequestedEventAttributes?.cause ?? [],
      )
      expect(causes).toEqual([`cancelled by ${userId}`])
    })
  })
})

import { describe, expect, test } from '@jest/globals'
import type { temporal } from '@temporalio/proto'
import { workflowDefinition } from '../../src/contract/definition.ts'
import { cancelRun } from '../../src/governance/runs/end/cancel.ts'
import { reconcile } from '../../src/governance/delivery/reconciler.ts'
import { startRun } from '../../src/governance/delivery/relay.ts'
import { acceptRun } from '../../src/governance/runs/start/accept.ts'
import { resolveStep } from '../../src/governance/runs/effects/resolve.ts'
import { createWorkflow } from '../../src/governance/workflows/workflows.ts'
import { holdRule, runOf, stepOf } from '../governance/runs/engine-fixture.ts'
import { until } from '../stack/until.ts'
import { closed, historiesOf } from './histories.ts'
import { deliverOutbox, mail, read, useTestStack, withholdOutbox, type FakeReads, type Stack } from './worker-fixture.ts' // prettier-ignore

/* The facts about a run that Temporal itself shows operators: how it closed, its name, its steps, and who decided. */

let stack: Stack
let reads: FakeReads
// A history ends after few events, so that a run has several.
useTestStack((...both) => ([stack, reads] = both), { RECONCILE_SECONDS: '3600', suggestAfterEvents: '40' })

type Event = temporal.api.history.v1.IHistoryEvent

const handleOf = (runId: string) => stack.client.workflow.getHandle(runId)
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
  const ends: Record<string, [status: string, message: string | null, run: () => Promise<string>]> = {
    completed: ['COMPLETED', null, () => stack.run({ steps: [read('a', 'a')] })],
    failed: ['FAILED', 'failed: step a', () => stack.run({ steps: [read('a', `${secret}-fail`)] })],
    denied: [
      'FAILED',
      'denied: step b',
      async () => {
        await stack.rules({
          name: secret,
          verdict: 'deny',
          params: [{ param: 'path', operator: 'equals', value: 'aa' }],
        })
        return stack.run({ steps: [read('a', 'a'), read('b', '{{a.output.text}}a')] })
      },
    ],
    rejected: [
      'FAILED',
      'rejected: step m',
      async () => {
        await stack.rules(holdRule())
        const runId = await stack.run({ steps: [mail('m')] })
        await stack.vote(await stack.held(runId), 'admin', 'reject')
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
        await stack.rules(holdRule())
        const runId = await stack.run({ steps: [mail('m')] })
        await stack.held(runId)
        await cancelRun(stack.context, { caller: stack.caller('member'), runId })
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
    let runId: string
    try {
      runId = await stack.run({ steps: [read('a', 'a')] })
    } finally {
      await stack.settings({ approval_required_from: null })
    }
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
    await cancelRun(stack.context, { caller: stack.caller('member'), runId })
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
    const before = await runOf(stack.context, runId)
    await stack.context.db.updateTable('runs').set({ finished_at: null }).where('id', '=', runId).execute()
    await startRun(stack.context, stack.motor, stack.attributes, runId)
    await stack.context.db
      .updateTable('runs')
      .set({ finished_at: before.finished_at })
      .where('id', '=', runId)
      .execute()
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
    expect(await runOf(stack.context, runId)).toEqual(before)
  })
})

describe('Temporal shows', () => {
  async function runNamed(name: string, definition: object): Promise<string> {
    const caller = stack.caller('member')
    const { id } = await createWorkflow(stack.context, caller, {
      name,
      description: '',
      definition: workflowDefinition.parse(definition),
    })
    return (await acceptRun(stack.context, { caller, workflowId: id, inputs: {} })).runId
  }

  test('the name of the workflow in its list and in each history, and finds runs by it', async () => {
    const long = Array.from({ length: 20 }, (_, n) =>
      read(`s${n}`, 'x', n === 0 ? {} : { depends_on: [`s${n - 1}`] }),
    )
    const runId = await runNamed('Weekly report', { steps: long })
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
    await until('unknown', async () => (await stepOf(stack.context, lost, 'm')).status === 'unknown_outcome')
    const caller = stack.caller('admin')
    await resolveStep(stack.context, { caller, runId: lost, stepId: 'm', items: null, outcome: 'done' })
    await stack.ended(lost)
    expect(await signalsOf(lost)).toEqual([{ key: 'm#-1', by: userId }])
    const cancelled = await stack.run({ steps: [read('a', 'wait')] })
    await until('it reads', () => reads.waiting() === 1)
    await cancelRun(stack.context, { caller, runId: cancelled })
    await closed(stack, cancelled)
    const causes = (await eventsOf(cancelled)).flatMap(
      (event) => event.workflowExecutionCancelRequestedEventAttributes?.cause ?? [],
    )
    expect(causes).toEqual([`cancelled by ${userId}`])
  })
})

import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals'
import { wakeKey, type WaitReason } from '../../src/contract/messages.ts'
import { changeQuota } from '../../src/governance/limits/quota.ts'
import { detailsOf, nameOf, searchedBy, Tries } from '../../src/workflows/governed-run/operator-view.ts'
import { holdRule } from '../governance/runs/engine-fixture.ts'
import { until } from '../stack/until.ts'
import { mail, read, useTestStack, type FakeReads, type Stack } from './worker-fixture.ts'

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
  const step = { id: 'send', tool: 'mail_send', dependsOn: [], forEach: false, continueOnError: false, timeoutSeconds: 10 } // prettier-ignore
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
  useTestStack((...both) => ([stack, reads] = both))

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
    await handleOf(runId).terminate('test')
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
})

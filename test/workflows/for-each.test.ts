import { expect, test } from '@jest/globals'
import { cancelRun } from '../../src/governance/runs/end/cancel.ts'
import { readStepOutput } from '../../src/governance/runs/read/read.ts'
import { approvalsOf, runOf, stepOf } from '../governance/runs/engine-fixture.ts'
import { until } from '../stack/until.ts'
import { callsIn, historiesOf } from './histories.ts'
import { read, useTestStack, type FakeReads, type Stack } from './worker-fixture.ts'

/* How many items of a `for_each` step run at the same time, and how the step ends. */

let stack: Stack
let reads: FakeReads
useTestStack((...both) => ([stack, reads] = both))

const numbered = (length: number, word = 'i') => Array.from({ length }, (_, index) => `${word}${index}`)
const start = (items: readonly string[], over: object = {}) =>
  stack.run({ steps: [read('each', '{{item}}', { for_each: items, ...over })] })
const on = (verdict: string, prefix: string, over: object = {}) => ({
  name: verdict,
  verdict,
  params: [{ param: 'path', operator: 'startswith', value: prefix }],
  ...over,
})
const pending = async (runId: string) =>
  (await approvalsOf(stack.context, runId)).filter(({ status }) => status === 'pending')
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
  await stack.rules(on('require_approval', 'hold'))
  const items = ['hold0', ...numbered(120), 'hold1', ...numbered(20, 'j')]
  const runId = await start(items)
  await until('all others are done', () => reads.calls.size === 140)
  expect(await stepOf(stack.context, runId, 'each')).toMatchObject({ finished_at: null })
  for (const { id } of await pending(runId)) await stack.vote(id, 'admin')
  expect(await stack.ended(runId)).toEqual({ run: 'completed', each: 'completed' })
  expect(await textsOf(runId)).toEqual(items)
  expect([...reads.calls.values()]).toEqual(items.map(() => 1))
})

test('at most 10 calls of a local tool run at a time, and each that ends makes room for the next', async () => {
  const runId = await start(numbered(120, 'wait-'))
  await until('10 wait', () => reads.waiting() === 10)
  expect(await still(runId, 10)).toHaveLength(10)
  reads.release('wait-7')
  await until('the next ones wait', () => reads.calls.has('wait-10'))
  await until('10 wait again', () => reads.waiting() === 10)
  // The release of `wait-7` also releases `wait-70` to `wait-79` as soon as they start.
  expect((await still(runId, 10)).at(-1)).toBe('each#10')
  reads.release()
  expect(await stack.ended(runId)).toEqual({ run: 'completed', each: 'completed' })
  expect(reads.calls.size).toBe(120)
})

test('approved items need room again: at most 10 of them run at a time', async () => {
  await stack.rules(on('require_approval', 'wait'))
  const runId = await start(numbered(60, 'wait-'))
  await until('all are held', async () => (await pending(runId)).length === 60)
  for (const { id } of await pending(runId)) await stack.vote(id, 'admin')
  await until('10 wait', () => reads.waiting() === 10)
  expect(await still(runId, 10)).toHaveLength(60 + 10)
  reads.release()
  expect(await stack.ended(runId)).toEqual({ run: 'completed', each: 'completed' })
  expect(await runOf(stack.context, runId)).toMatchObject({ nodes_executed: 60, nodes_failed: 0 })
})

test('a run has at most 200 open calls, of whatever steps: further items begin when one has ended', async () => {
  await stack.rules(on('require_approval', 'hold'))
  const ids = numbered(5, 'each')
  const runId = await stack.run({
    steps: ids.map((id) => read(id, '{{item}}', { for_each: numbered(50, 'hold') })),
  })
  await until('200 are held', async () => (await pending(runId)).length >= 200)
  expect(await still(runId, 0)).toHaveLength(200)
  const [first, second] = await pending(runId)
  await stack.vote(first?.id ?? '', 'admin')
  await stack.vote(second?.id ?? '', 'admin')
  await until('two more are held', async () => (await approvalsOf(stack.context, runId)).length === 202)
  expect(await still(runId, 0)).toHaveLength(204)
  await cancelRun(stack.context, { caller: stack.caller('member'), runId })
  expect(await stack.ended(runId)).toMatchObject({
    run: 'cancelled',
    each0: 'cancelled',
    each4: 'cancelled',
  })
})

test('its end is decided by its items in their order, not by which was faster', async () => {
  await stack.rules(on('deny', '=denied'))
  const each = { for_each: ['ok', 'deaf-fail', 'denied'], on_error: 'continue' }
  const runId = await stack.run({
    steps: [read('is', '='), read('each', '{{is.output.text}}{{item}}', each)],
  })
  // The failing item that comes first in the list finishes last.
  await until('two have ended', async () => (await runOf(stack.context, runId)).nodes_failed === 1 && reads.calls.has('=ok')) // prettier-ignore
  reads.release()
  expect(await stack.ended(runId)).toEqual({ run: 'completed', is: 'completed', each: 'failed' })
  expect(await stepOf(stack.context, runId, 'each')).toMatchObject({
    error: { code: 'file_unreadable', message: 'it cannot be read' },
  })
})

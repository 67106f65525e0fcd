import { expect, test } from '@jest/globals'
import { readStepOutput } from '../../src/governance/runs/read/read.ts'
import { approvalsOf, holdRule, runOf } from '../governance/runs/engine-fixture.ts'
import { until } from '../stack/until.ts'
import { callsIn, historiesOf } from './histories.ts'
import { read, useTestStack, type FakeReads, type Stack } from './worker-fixture.ts'

/* The largest runs that the product supports, with Temporal's own limits. */

let stack: Stack
let reads: FakeReads
useTestStack((...both) => ([stack, reads] = both))

const names = (length: number) => Array.from({ length }, (_, n) => `s${n}`)

test('500 steps in a chain, 500 at once, and 1,000 items, some held until the others have finished: each runs once', async () => {
  await stack.rules({ name: 'h', verdict: 'require_approval', params: [{ param: 'path', operator: 'startswith', value: 'hold' }] }) // prettier-ignore
  const chain = names(500).map((id, n) => read(id, 'chain', n === 0 ? {} : { depends_on: [`s${n - 1}`] }))
  const wide = [...names(499).map((id) => read(id, 'wide')), read('last', 'wide', { depends_on: names(499) })]
  const each = names(1_000).map((_, n) => (n % 100 === 0 ? `hold${n}` : 'item'))
  const items = [read('each', '{{item}}', { for_each: each })]
  for (const [path, steps, count] of [
    ['chain', chain, 500],
    ['wide', wide, 500],
    ['item', items, 1_000],
  ] as const) {
    // prettier-ignore
    const runId = await stack.run({ steps })
    if (path === 'item') {
      await until('all others are done', () => reads.calls.get('item') === 990)
      for (const { id } of await approvalsOf(stack.context, runId)) await stack.vote(id, 'admin')
    }
    const states = await stack.ended(runId)
    expect(new Set(Object.values(states))).toEqual(new Set(['completed']))
    expect(await runOf(stack.context, runId)).toMatchObject({ nodes_executed: count, nodes_failed: 0 })
    expect(reads.calls.get(path)).toBe(path === 'item' ? 990 : count)
  }
  expect(Object.fromEntries(reads.calls)).toMatchObject({ hold0: 1, hold900: 1 })
})

test('a run leaves its history long before Temporal suggests it, whatever made the history long', async () => {
  await stack.rules(holdRule({ tools: ['file_read'] }))
  const runId = await stack.run({ steps: [read('a', 'a')] })
  const approvalId = await stack.held(runId)
  const describe = async () => (await stack.client.workflow.getHandle(runId).describe()).raw
  const history = async () => (await describe()).workflowExecutionInfo?.execution?.runId
  const first = await history()
  await until('another history', async () => {
    await stack.noise(runId, 100)
    // Waits until the worker has taken all wake-ups before the test adds more, however slow the worker is.
    await until('it stands still', async () => !(await describe()).pendingWorkflowTask)
    return (await history()) !== first
  })
  await stack.vote(approvalId, 'admin')
  expect(await stack.ended(runId)).toEqual({ run: 'completed', a: 'completed' })
  const all = await historiesOf(stack, runId)
  expect(all.map(callsIn)).toEqual([['a'], ['a']])
  expect(all[0]?.events?.length).toBeGreaterThan(1_500)
  expect(all[0]?.events?.length).toBeLessThan(1_800)
})

test('25 MB of output stay out of Temporal, and the next step gets them', async () => {
  const runId = await stack.run({
    steps: [read('a', 'big'), read('b', 'b', { when: { value: '{{a.output.text}}', operator: 'exists', compare: true } })], // prettier-ignore
  })
  expect(await stack.ended(runId)).toEqual({ run: 'completed', a: 'completed', b: 'completed' })
  await stack.client.workflow.getHandle(runId).result()
  const { historySize } = await stack.client.workflow.getHandle(runId).describe()
  expect(historySize).toBeGreaterThan(0)
  expect(historySize).toBeLessThan(20_000)
  expect(JSON.stringify(await historiesOf(stack, runId))).not.toContain('xxxxxxxx')
  const output = await readStepOutput(stack.context, stack.organizationId, runId, 'a')
  expect(JSON.stringify(output).length).toBeGreaterThan(25_000_000)
})

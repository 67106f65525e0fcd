import { expect, test } from '@jest/globals'
import { readStepOutput } from '../../src/governance/runs/read.ts'
import { runOf } from '../governance/runs/engine-fixture.ts'
import { historiesOf } from './histories.ts'
import { read, useTestStack, type FakeReads, type Stack } from './worker-fixture.ts'

/* Runs as large as the product promises, with Temporal's own limits. */

let stack: Stack
let reads: FakeReads
useTestStack((...both) => ([stack, reads] = both))

const names = (length: number) => Array.from({ length }, (_, n) => `s${n}`)

test('500 steps one after the other, 500 at once, and 1,000 items: each once', async () => {
  const chain = names(500).map((id, n) => read(id, 'chain', n === 0 ? {} : { depends_on: [`s${n - 1}`] }))
  const wide = [...names(499).map((id) => read(id, 'wide')), read('last', 'wide', { depends_on: names(499) })]
  const items = [read('each', 'item', { for_each: names(1_000) })]
  for (const [path, steps, count] of [
    ['chain', chain, 500],
    ['wide', wide, 500],
    ['item', items, 1_000],
  ] as const) {
    // prettier-ignore
    const runId = await stack.run({ steps })
    const states = await stack.ended(runId)
    expect(new Set(Object.values(states))).toEqual(new Set(['completed']))
    expect(await runOf(stack.context, runId)).toMatchObject({ nodes_executed: count, nodes_failed: 0 })
    expect(reads.calls.get(path)).toBe(count)
  }
})

test('25 MB of output stay out of Temporal, and the next step has them', async () => {
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

import { expect, test } from '@jest/globals'
import { closed, replay } from './histories.ts'
import { read, useTestStack, type FakeReads, type Stack } from './worker-fixture.ts'

let stack: Stack
let reads: FakeReads
useTestStack((...both) => ([stack, reads] = both))

const handleOf = (runId: string) => stack.client.workflow.getHandle(runId)
const compute = (id: string, values: object, over: object = {}) => ({ id, compute: values, ...over })

test('values are computed once, kept, and used by later steps, without an activity task', async () => {
  const runId = await stack.run(
    {
      inputs: { list: { type: 'array' } },
      steps: [
        compute('sums', {
          total: '{{ sum(input.list) }}',
          half: '{{ sum(input.list) / 2 }}',
          text: 'x{{input.list[0]}}',
        }),
        compute('next', { more: '{{ sums.output.total + 1 }}' }),
        read('use', '{{sums.output.text}}', { when: '{{ next.output.more == 7 }}' }),
        compute('off', { a: 1 }, { when: '{{ sums.output.total > 100 }}' }),
        compute('each', { n: '{{ item * 10 }}', at: '{{index}}' }, { for_each: '{{input.list}}' }),
      ],
      result: {
        total: '{{sums.output.total}}',
        each: '{{ each.output.map(one, one.n) }}',
        off: '{{off.output}}',
      },
    },
    { list: [1, 2, 3] },
  )
  expect(await stack.ended(runId)).toEqual({ run: 'completed', sums: 'completed', next: 'completed', use: 'completed', off: 'skipped', each: 'completed' }) // prettier-ignore
  expect(reads.calls.get('x1')).toBe(1)
  const run = await stack.readRun(runId)
  expect(run?.outputs).toMatchObject({
    sums: { total: 6, half: 3, text: 'x1' },
    next: { more: 7 },
    off: null,
  })
  expect(run?.result).toEqual({ total: 6, each: [10, 20, 30], off: null })
  expect(run?.steps[0]).toMatchObject({ kind: 'compute', tool: null, verdict: null })
  const { events = [] } = await handleOf(runId).fetchHistory()
  const scheduled = (events ?? []).flatMap(
    (event) => event.activityTaskScheduledEventAttributes?.activityType?.name ?? [],
  )
  expect(scheduled).toEqual(['file_read'])
  await closed(stack, runId)
  await replay(stack, runId)
})

test('an error ends the run with the words of the expression, or leaves null behind', async () => {
  const bad = { n: '{{ number(input.text) }}' }
  const definition = (over: object) => ({
    inputs: { text: { type: 'string' } },
    steps: [compute('bad', bad, over), read('after', '{{ text(bad.output.n ?? "none") }}')],
  })
  const failed = await stack.run(definition({}), { text: 'x' })
  expect(await stack.ended(failed)).toMatchObject({ run: 'failed', bad: 'failed' })
  const run = await stack.readRun(failed)
  expect(run?.steps[0]?.error).toMatchObject({ code: 'template_unresolved' })
  expect(run?.steps[0]?.error?.message).toContain('`number` needs text that is a number')
  const went = await stack.run(definition({ on_error: 'continue' }), { text: 'x' })
  expect(await stack.ended(went)).toMatchObject({ run: 'completed', bad: 'failed', after: 'completed' })
  expect(reads.calls.get('none')).toBe(1)
})

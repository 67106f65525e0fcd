import { describe, expect, test } from '@jest/globals'
import { holdRule } from '../governance/runs/engine-fixture.ts'
import { closed, replay } from './histories.ts'
import { mail, onPath, read, useTestStack, type FakeReads, type Stack } from './worker-fixture.ts'

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

describe('later steps read of a step', () => {
  const comment = 'Too expensive: ask again in May'
  const held = mail('ask', { on_error: 'continue' })
  const after = compute('after', {
    status: '{{ask.status}}',
    verdict: '{{ask.approval.verdict}}',
    comment: '{{steps.ask.approval.comment}}',
    by: '{{ask.approval.by}}',
    none: '{{ before.approval.verdict ?? "nobody was asked" }}',
  })
  const decided = async (decide: 'approve' | 'reject') => {
    await stack.rules(holdRule())
    const runId = await stack.run({
      steps: [read('before', 'b'), held, after],
      result: { again: '{{ask.approval.comment}}' },
    })
    await stack.vote(await stack.held(runId), 'admin', decide, comment)
    await stack.ended(runId)
    return stack.readRun(runId)
  }

  test('who rejected it, and with which words', async () => {
    const run = await decided('reject')
    expect(run?.outputs).toMatchObject({
      after: {
        status: 'rejected',
        verdict: 'rejected',
        comment,
        by: stack.caller('admin').email,
        none: 'nobody was asked',
      },
    })
    expect(run?.result).toEqual({ again: comment })
  })

  test('who approved it', async () => {
    const run = await decided('approve')
    expect(run?.outputs).toMatchObject({ after: { status: 'completed', verdict: 'approved', comment } })
  })
})

test('the run, its requester and its workflow have names in templates', async () => {
  const facts = {
    id: '{{run.id}}',
    who: '{{run.requester.email}}',
    what: 'of {{workflow.name}}',
    when: '{{ text(run.id) }}',
  }
  const runId = await stack.run({
    steps: [compute('run', facts), compute('after', { own: '{{run.output.id}}' })],
  })
  await stack.ended(runId)
  const values = { id: runId, who: stack.caller('member').email, what: 'of w', when: runId }
  expect((await stack.readRun(runId))?.outputs).toEqual({ run: values, after: { own: runId } })
})

test('a step whose steps before it were all skipped is skipped too, if its definition says so', async () => {
  const off = { when: '{{ 1 > 2 }}' }
  const steps = [
    read('off', 'a', off),
    compute('behind', { a: '{{off.output}}' }),
    compute('each', { a: '{{item}}' }, { for_each: [1, 2], depends_on: ['behind'] }),
    compute('far', { a: '{{each.output}}' }),
    compute('both', { a: '{{off.output}}', b: '{{on.output.a}}' }),
    compute('on', { a: 1 }),
    compute('own', { a: '{{off.output}}' }, { if_skipped: 'run' }),
  ]
  const skipped = { off: 'skipped', on: 'completed', both: 'completed', own: 'completed' }
  const passed = await stack.run({ if_skipped: 'skip', steps })
  expect(await stack.ended(passed)).toEqual({ run: 'completed', ...skipped, behind: 'skipped', each: 'skipped', far: 'skipped' }) // prettier-ignore
  const ran = await stack.run({ steps })
  expect(await stack.ended(ran)).toEqual({ run: 'completed', ...skipped, behind: 'completed', each: 'completed', far: 'completed' }) // prettier-ignore
})

test('`otherwise` stands in for what a step that failed would give, and the run says which steps failed', async () => {
  const goesOn = { on_error: 'continue', otherwise: { text: 'nothing' } }
  const runId = await stack.run({
    steps: [
      read('one', 'fail', goesOn),
      read('each', '{{item}}', { ...goesOn, for_each: ['a', 'fail', 'b'] }),
      read('off', 'c', { ...goesOn, when: '{{ 1 > 2 }}' }),
      compute('after', {
        one: '{{one.output.text}}',
        each: '{{ each.output.map(e, e.text) }}',
        off: '{{off.output}}',
      }),
    ],
    result: { one: '{{one.output.text}}' },
  })
  expect(await stack.ended(runId)).toMatchObject({ run: 'completed', one: 'failed', each: 'failed' })
  const run = await stack.readRun(runId)
  expect(run?.outputs).toMatchObject({
    one: null,
    after: { one: 'nothing', each: ['a', 'nothing', 'b'], off: null },
  })
  expect(run?.result).toEqual({ one: 'nothing' })
  expect(run?.status_reason).toBe(
    'every step has ended; the run went on after `each` (failed), `one` (failed)',
  )
})

test('with `parallel: 1`, items run one after the other, also while one waits for a person', async () => {
  await stack.rules({ ...holdRule(), tools: undefined, ...onPath('require_approval', 'b') })
  const runId = await stack.run({
    steps: [read('each', '{{item}}', { for_each: ['a', 'b', 'c', 'd'], parallel: 1 })],
  })
  const approval = await stack.held(runId)
  expect([...reads.calls.keys()]).toEqual(['a'])
  await stack.vote(approval, 'admin')
  expect(await stack.ended(runId)).toMatchObject({ run: 'completed' })
  expect([...reads.calls.keys()]).toEqual(['a', 'b', 'c', 'd'])
})

test('an input gets its declared labels at every start', async () => {
  const inputs = {
    letter: { type: 'string', labels: ['untrusted'] },
    other: { type: 'string', labels: ['pii'] },
  }
  const steps = [compute('copy', { letter: '{{input.letter}}', other: '{{ input.other ?? "" }}' })]
  const runId = await stack.run({ inputs, steps }, { letter: 'Dear all' })
  await stack.ended(runId)
  expect((await stack.readRun(runId))?.steps[0]?.labels).toEqual(['untrusted'])
})

test('of three runs that set a key if it is absent, one sets it', async () => {
  const set = {
    id: 'set',
    tool: 'memory_set',
    params: { key: 'winner', value: '{{run.id}}', if_absent: true },
  }
  const look = { id: 'look', tool: 'memory_get', depends_on: ['set'], params: { key: 'winner' } }
  const runs = await Promise.all([1, 2, 3].map(() => stack.run({ steps: [set, look] })))
  await Promise.all(runs.map((run) => stack.ended(run)))
  type Outputs = { readonly set: { readonly set: boolean }; readonly look: { readonly value: string } }
  const outputsOf = async (run: string) => (await stack.readRun(run))?.outputs as unknown as Outputs
  const outputs = await Promise.all(runs.map(outputsOf))
  const winners = runs.filter((_, at) => outputs[at]?.set.set === true)
  expect(winners).toHaveLength(1)
  expect(outputs.map((each) => each.look.value)).toEqual(runs.map(() => winners[0]))
})

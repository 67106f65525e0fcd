import { expect, test } from '@jest/globals'
import { changeWorkflow } from '../../src/governance/workflows/workflows.ts'
import { workflowDefinition } from '../../src/contract/definition.ts'
import { readReceipt } from '../../src/governance/runs/read/receipt.ts'
import { rerun, type RerunRequest } from '../../src/governance/runs/start/rerun.ts'
import type { BootstrapName } from '../../src/governance/people/bootstrap.ts'
import { answerQuestion } from '../../src/calls/runs/answer.ts'
import { readDetail } from '../../src/governance/approvals/detail.ts'
import { until } from '../stack/until.ts'
import { mail, read, useTestStack, type FakeReads, type Stack } from './worker-fixture.ts'

let stack: Stack
let reads: FakeReads
useTestStack((...both) => ([stack, reads] = both))

const again = async (runId: string, over: Partial<RerunRequest> = {}): Promise<string> => {
  const request: RerunRequest = {
    caller: stack.caller('member'),
    runId,
    from: 'failed',
    version: 'same',
    inputs: {},
    onRepeat: 'hold',
    unknownHappened: null,
    ...over,
  }
  return (await rerun(stack.context, request)).runId
}
/** Mails of this test and not of others, by the address. */
const sentTo = (to: string) =>
  stack.sink.deliveries.filter(({ recipients }) => recipients.includes(to)).length
const versioned = async (runId: string, definition: object): Promise<void> => {
  const { workflow_id: workflowId } = await stack.runOf(runId)
  await changeWorkflow(stack.context, stack.caller('member'), workflowId, {
    definition: workflowDefinition.parse(definition),
  })
}
/** The third step fails until its input is corrected. */
const report = {
  inputs: { last: { type: 'string', required: true }, to: { type: 'string', required: true } },
  steps: [
    read('first', 'a'),
    mail('tell', {
      depends_on: ['first'],
      params: { to: '{{input.to}}', subject: 'of {{run.id}}', text: '{{now}}' },
    }),
    read('last', '{{input.last}}', { depends_on: ['tell'] }),
  ],
}

const failedRun = async (to: string, definition: object = report): Promise<string> => {
  const runId = await stack.run(definition, { last: 'fail', to })
  expect(await stack.ended(runId)).toMatchObject({ run: 'failed', tell: 'completed', last: 'failed' })
  return runId
}
const answered = async (runId: string, answer: string): Promise<void> =>
  answerQuestion(stack.context, {
    caller: stack.caller('member'),
    approvalId: await stack.held(runId),
    answer,
  })
const corrected = { inputs: { last: 'b' } }

test('what was completed is taken over with its output, and only the failed step runs', async () => {
  const first = await failedRun('one@b.test')
  const second = await again(first, corrected)
  expect(await stack.ended(second)).toEqual({
    run: 'completed',
    first: 'completed',
    tell: 'completed',
    last: 'completed',
  })
  expect(Object.fromEntries(reads.calls)).toEqual({ a: 1, fail: 1, b: 1 })
  expect(sentTo('one@b.test')).toBe(1)
  const run = await stack.readRun(second)
  expect(run).toMatchObject({ rerun_of: first, nodes_executed: 1 })
  expect(run?.outputs).toMatchObject({ first: { text: 'a' }, last: { text: 'b' } })
  expect(run?.steps.map(({ reused_from }) => reused_from)).toEqual([first, first, null])
  const events = await stack.context.db
    .selectFrom('run_events')
    .select('data')
    .where('run_id', '=', second)
    .where('type', '=', 'step.completed')
    .orderBy('seq')
    .execute()
  expect(events.map(({ data }) => (data as { reused_from?: string }).reused_from)).toEqual([
    first,
    first,
    undefined,
  ])
  const receipt = JSON.parse(
    await (await readReceipt(stack.context.db, stack.organizationId, second)).text(),
  ) as object
  expect(receipt).toMatchObject({
    reused: [
      { step_id: 'first', item_index: null, run_id: first },
      { step_id: 'tell', item_index: null, run_id: first },
    ],
  })
  // A run that is made again from this one finds the call of the first one.
  const third = await again(second)
  await stack.ended(third)
  expect((await stack.readRun(third))?.steps.map(({ reused_from }) => reused_from)).toEqual([
    first,
    first,
    second,
  ])
  expect(sentTo('one@b.test')).toBe(1)
})

test.each([
  ['skip', 'skipped', 1],
  ['allow', 'completed', 2],
] as const)('from the start, a mail that was sent: %s', async (onRepeat, status, count) => {
  const to = `${onRepeat}@b.test`
  const first = await failedRun(to)
  const second = await again(first, { ...corrected, from: 'start', onRepeat })
  expect(await stack.ended(second)).toMatchObject({ run: 'completed', first: 'completed', tell: status })
  expect(reads.calls.get('a')).toBe(2)
  expect(sentTo(to)).toBe(count)
  expect((await stack.readRun(second))?.steps[1]).toMatchObject({
    reused_from: null,
    repeats: `${first}/tell/-1`,
  })
})

test('from the start, a mail that was sent is held for whoever made the run again, and asked about once', async () => {
  const first = await failedRun('held@b.test')
  const second = await again(first, { ...corrected, from: 'start' })
  const approvalId = await stack.held(second)
  const [approval] = await stack.approvalsOf(second)
  expect(approval).toMatchObject({
    kind: 'repeat',
    step_id: 'tell',
    requested_by: stack.caller('member').userId,
  })
  expect(await readDetail(stack.context, stack.caller('member'), approvalId)).toMatchObject({
    explanation: expect.stringContaining(`step \`tell\` of run \`${first}\``),
    vote_refused: null,
  })
  await expect(stack.vote(approvalId, 'viewer')).rejects.toMatchObject({ code: 'not_an_approver' })
  await stack.vote(approvalId, 'member')
  expect(await stack.ended(second)).toMatchObject({ run: 'completed', tell: 'completed' })
  expect(sentTo('held@b.test')).toBe(2)
  expect(await stack.approvalsOf(second)).toHaveLength(1)
})

test('a rule that holds the call asks its approvers, and the requester’s word is not enough', async () => {
  const first = await failedRun('ruled@b.test')
  const second = await again(first, { ...corrected, from: 'start' })
  await stack.vote(await stack.held(second), 'member')
  await stack.ended(second)
  const third = await again(second, { ...corrected, from: 'start' })
  await stack.held(third)
  await stack.rules({ name: 'mail', verdict: 'require_approval', tools: ['mail_send'] })
  await stack.vote(await stack.held(third), 'member')
  const held = async () =>
    (await stack.approvalsOf(third)).find(({ status, kind }) => status === 'pending' && kind === 'step')
  await until('the rule holds it', async () => (await held()) !== undefined)
  await expect(stack.vote((await held())?.id ?? '', 'member')).rejects.toMatchObject({
    code: 'not_an_approver',
  })
  await stack.vote((await held())?.id ?? '', 'admin')
  expect(await stack.ended(third)).toMatchObject({ tell: 'completed' })
  expect(sentTo('ruled@b.test')).toBe(3)
})

test('a step under another name or with another meaning finds the mail too', async () => {
  const first = await failedRun('renamed@b.test')
  const [reading, telling, last] = report.steps
  await versioned(first, {
    ...report,
    steps: [reading, { ...telling, id: 'announce' }, { ...last, depends_on: ['announce'] }],
  })
  const second = await again(first, { ...corrected, version: 'latest', onRepeat: 'skip' })
  expect(await stack.ended(second)).toMatchObject({
    first: 'completed',
    announce: 'skipped',
    last: 'completed',
  })
  expect(sentTo('renamed@b.test')).toBe(1)
})

test('named steps and those that depend on them are made again, what reads something else runs', async () => {
  const first = await failedRun('named@b.test')
  const second = await again(first, { ...corrected, from: ['tell'], onRepeat: 'allow' })
  await stack.ended(second)
  expect((await stack.readRun(second))?.steps.map(({ reused_from }) => reused_from)).toEqual([
    first,
    null,
    null,
  ])
  const third = await again(second, { inputs: { to: 'other@b.test' } })
  await stack.ended(third)
  expect((await stack.readRun(third))?.steps.map(({ reused_from }) => reused_from)).toEqual([
    first,
    null,
    second,
  ])
  expect([sentTo('named@b.test'), sentTo('other@b.test')]).toEqual([2, 1])
})

test('the runs that were made from one run share what they have done', async () => {
  const first = await failedRun('siblings@b.test')
  const second = await again(first, { from: 'start', onRepeat: 'allow' })
  expect(await stack.ended(second)).toMatchObject({ run: 'failed', tell: 'completed' })
  const third = await again(first, { ...corrected, from: 'start', onRepeat: 'skip' })
  expect(await stack.ended(third)).toMatchObject({ run: 'completed', tell: 'skipped' })
  expect((await stack.readRun(third))?.steps[1]?.repeats).toBe(`${second}/tell/-1`)
})

test('labels stay: of inputs, also of those that are typed again, and of outputs', async () => {
  const steps = [
    read('first', '{{input.path}}'),
    mail('tell', { params: { to: 'label@b.test', subject: 'x', text: '{{first.output.text}}' } }),
  ]
  const first = await stack.run(
    { inputs: { path: { type: 'string', labels: ['untrusted'] } }, steps },
    { path: 'p' },
  )
  await stack.ended(first)
  await versioned(first, { inputs: { path: { type: 'string' } }, steps })
  const labelsOf = async (runId: string) => (await stack.readRun(runId))?.steps.map(({ labels }) => labels)
  for (const over of [{ inputs: { path: 'p' } }, { from: 'start', onRepeat: 'allow' }] as const) {
    const second = await again(first, { version: 'latest', ...over })
    await stack.ended(second)
    expect(await labelsOf(second)).toEqual(await labelsOf(first))
  }
  expect((await labelsOf(first))?.[0]).toContain('untrusted')
})

test('a wait that is over and an answer that was given count for the new run', async () => {
  const definition = {
    inputs: { last: { type: 'string' } },
    steps: [
      { id: 'pause', wait: { until: '{{now}}' } },
      {
        id: 'choose',
        ask: { to: 'requester', title: 'Which?', choices: ['left', 'right'], show: { run: '{{run.id}}' } },
        depends_on: ['pause'],
      },
      read('told', '{{choose.output.answer}}'),
      read('last', '{{input.last}}', { depends_on: ['told'] }),
    ],
  }
  const first = await stack.run(definition, { last: 'fail' })
  await answered(first, 'left')
  expect(await stack.ended(first)).toMatchObject({ run: 'failed', told: 'completed' })
  const second = await again(first, { inputs: { last: 'b' } })
  expect(await stack.ended(second)).toMatchObject({ run: 'completed', choose: 'completed' })
  expect(await stack.approvalsOf(second)).toEqual([])
  const run = await stack.readRun(second)
  expect(run?.steps.map(({ reused_from }) => reused_from)).toEqual([first, first, first, null])
  expect(run?.outputs?.['choose']).toEqual((await stack.readRun(first))?.outputs?.['choose'])
  expect(run?.steps[1]?.labels).toEqual(['untrusted'])
  // Anew, the person is asked again.
  const third = await again(second, { from: ['choose'] })
  await answered(third, 'right')
  await stack.ended(third)
  expect(reads.calls.get('right')).toBe(1)
})

test('items of a list: those that were completed are taken over', async () => {
  const definition = {
    inputs: { last: { type: 'string' } },
    steps: [read('each', '{{item}}', { for_each: ['i1', '{{input.last}}', 'i3'], on_error: 'continue' })],
  }
  const first = await stack.run(definition, { last: 'fail' })
  await stack.ended(first)
  const second = await again(first, { inputs: { last: 'i2' } })
  expect(await stack.ended(second)).toEqual({ run: 'completed', each: 'completed' })
  expect(Object.fromEntries(reads.calls)).toEqual({ i1: 1, fail: 1, i3: 1, i2: 1 })
  expect((await stack.readRun(second))?.outputs?.['each']).toMatchObject([
    { text: 'i1' },
    { text: 'i2' },
    { text: 'i3' },
  ])
})

test('a run that goes on, an unknown outcome, another person and a full chain', async () => {
  const definition = {
    inputs: { path: { type: 'string', default: 'wait1' } },
    steps: [read('long', '{{input.path}}')],
  }
  const open = await stack.run(definition)
  await expect(again(open)).rejects.toMatchObject({ code: 'bad_transition' })
  reads.release('wait1')
  await stack.ended(open)
  await expect(again(open, { caller: stack.caller('viewer') })).rejects.toMatchObject({
    code: 'insufficient_role',
  })
  await stack.context.pool.query(`update runs set poll_of = 'trg_1' where id = $1`, [open])
  await expect(again(open)).rejects.toThrow(/made again by its trigger/)
  await stack.context.pool.query(`update runs set poll_of = null where id = $1`, [open])
  await expect(again(open, { from: ['nowhere'] })).rejects.toMatchObject({ code: 'validation_error' })
  const byAdmin = await again(open, { caller: stack.caller('admin'), inputs: { path: 'wait2' } })
  await expect(again(open)).rejects.toThrow(/was made from the same run and has not ended/)
  reads.release()
  await stack.ended(byAdmin)
  await stack.context.pool.query(`update effects set state = 'unknown_outcome' where run_id = $1`, [open])
  await expect(again(open)).rejects.toThrow(/nobody knows whether the call `.*\/long\/-1` took effect/)
  await expect(again(open, { unknownHappened: false })).rejects.toMatchObject({ code: 'insufficient_role' })
  const asAdmin = { caller: stack.caller('admin'), unknownHappened: false }
  expect(await stack.ended(await again(open, asAdmin))).toEqual({
    run: 'completed',
    long: 'completed',
  })
})

const held = async (verdict: 'approve' | 'reject', runId: string, by: BootstrapName) =>
  stack.vote(await stack.held(runId), by, verdict)

test('nothing is taken over from a run of another person, unless it is the one that is made again', async () => {
  await stack.settings({ run_values: 'participants' })
  await stack.rules({
    name: 'salaries',
    verdict: 'require_approval',
    tools: ['file_read'],
    approver: 'owner',
  })
  const definition = { steps: [read('secret', 'salaries')] }
  const first = await stack.run(definition)
  await held('reject', first, 'owner')
  await stack.ended(first)
  const byOwner = await again(first, { caller: stack.caller('owner') })
  await stack.settings({ allow_self_approval: true })
  await held('approve', byOwner, 'owner')
  expect(await stack.ended(byOwner)).toMatchObject({ secret: 'completed' })
  await stack.settings({ allow_self_approval: false })
  await expect(again(byOwner)).rejects.toMatchObject({ code: 'insufficient_role' })
  const second = await again(first)
  await held('reject', second, 'owner')
  expect(await stack.ended(second)).toMatchObject({ run: 'rejected', secret: 'rejected' })
  await stack.settings({ run_values: 'members' })
})

test('inputs of the earlier run are values: they refer to no run', async () => {
  const other = await stack.run({ steps: [read('s', 'secret')] }, {}, 'owner')
  await stack.ended(other)
  const definition = {
    inputs: { x: { type: 'object', default: { from_run: other, step: 's' } }, last: { type: 'string' } },
    steps: [read('told', '{{ json(input.x) }}'), read('last', '{{input.last}}', { depends_on: ['told'] })],
  }
  const first = await stack.run(definition, { last: 'fail' })
  await stack.ended(first)
  const second = await again(first, { caller: stack.caller('owner'), inputs: { last: 'b' } })
  await stack.ended(second)
  expect((await stack.readRun(second))?.inputs?.['x']).toEqual({ from_run: other, step: 's' })
})

test.each<[string, object[], (first: string) => Promise<unknown>]>([
  [
    'computed values with the id of the run',
    [
      { id: 'words', compute: { text: 'of {{run.id}}' } },
      mail('tell', { params: { to: '{{input.to}}', subject: 'a', text: '{{words.output.text}}' } }),
    ],
    async () => {},
  ],
  [
    'items with the id of the run',
    [
      mail('tell', {
        for_each: ['{{run.id}}'],
        params: { to: '{{input.to}}', subject: 'b', text: '{{item}}' },
      }),
    ],
    async () => {},
  ],
  [
    'the comment of an approval',
    [
      { id: 'set', tool: 'memory_set', params: { key: 'k', value: 1 } },
      mail('tell', { params: { to: '{{input.to}}', subject: 'c', text: '{{set.approval.comment}}' } }),
    ],
    async (first) => {
      await stack.vote(await stack.held(first), 'admin', 'approve', 'go on')
    },
  ],
])('a mail whose text comes from %s is sent once', async (_, steps, decide) => {
  await stack.rules({ name: 'set', verdict: 'require_approval', tools: ['memory_set'] })
  const to = `once${steps.length}${String(Math.random()).slice(2)}@b.test`
  const definition = {
    inputs: report.inputs,
    steps: [...steps, read('last', '{{input.last}}', { depends_on: ['tell'] })],
  }
  const first = await stack.run(definition, { last: 'fail', to })
  await decide(first)
  await stack.ended(first)
  expect(await stack.ended(await again(first, corrected))).toMatchObject({
    run: 'completed',
    tell: 'completed',
  })
  expect(sentTo(to)).toBe(1)
})

test('an answer that is taken over is untrusted, once the settings do not trust answers', async () => {
  await stack.settings({ trust_answers: true })
  const definition = {
    inputs: { last: { type: 'string' } },
    steps: [
      { id: 'choose', ask: { to: 'requester', title: 'Which?', choices: ['left', 'right'] } },
      read('last', '{{input.last}}', { depends_on: ['choose'] }),
    ],
  }
  const first = await stack.run(definition, { last: 'fail' })
  await answered(first, 'left')
  await stack.ended(first)
  await stack.settings({ trust_answers: false })
  const second = await again(first, { inputs: { last: 'b' } })
  await stack.ended(second)
  expect((await stack.readRun(second))?.steps[0]?.labels).toEqual(['untrusted'])
})

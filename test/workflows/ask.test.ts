import { expect, test } from '@jest/globals'
import { answerQuestion } from '../../src/calls/runs/answer.ts'
import type { BootstrapName } from '../../src/governance/people/bootstrap.ts'
import type { Json } from '../../src/policy/types.ts'
import { until } from '../stack/until.ts'
import { closed, replay } from './histories.ts'
import { mail, read, useTestStack, type FakeReads, type Stack } from './worker-fixture.ts'

let stack: Stack
let reads: FakeReads
useTestStack((...both) => ([stack, reads] = both))

const ask = (over: object = {}, step: object = {}) => ({
  id: 'decide',
  ask: { to: 'requester', title: 'Refund this order?', choices: ['refund', 'refuse'], ...over },
  ...step,
})
const branches = [
  read('pay', 'pay', { when: "{{ decide.output.answer == 'refund' }}" }),
  read('tell', 'tell', { when: "{{ decide.output.answer == 'refuse' }}" }),
]
const start = (...steps: object[]) => stack.run({ steps })
const answer = (approvalId: string, given: Json, by: BootstrapName = 'member') =>
  answerQuestion(stack.context, { caller: stack.caller(by), approvalId, answer: given })

test('the run goes on when the person has answered, and takes one branch', async () => {
  const runId = await start(ask({ show: { order: 'the-shown-value' } }), ...branches)
  const id = await stack.held(runId)
  expect((await stack.readRun(runId))?.status).toBe('paused')
  const handle = stack.client.workflow.getHandle(runId)
  await until('Temporal shows it', async () => {
    const { typedSearchAttributes } = await handle.describe()
    return JSON.stringify(typedSearchAttributes).includes('answer of decide')
  })
  await answer(id, 'refuse')
  expect(await stack.ended(runId)).toEqual({
    run: 'completed',
    decide: 'completed',
    pay: 'skipped',
    tell: 'completed',
  })
  expect(reads.calls.get('tell')).toBe(1)
  expect((await stack.readRun(runId))?.outputs).toMatchObject({
    decide: { answer: 'refuse', by: stack.caller('member').email },
  })
  await closed(stack, runId)
  const history = JSON.stringify(await handle.fetchHistory()).replaceAll(
    /"data":"([^"]+)"/g,
    (_, data: string) => Buffer.from(data, 'base64').toString(),
  )
  expect(history).toContain('answer of decide')
  expect(history).not.toMatch(/the-shown-value|"refuse"/)
  await replay(stack, runId)
})

test('a question that nobody answers expires by its timer, and `otherwise` stands in', async () => {
  const runId = await start(ask({ expires_after_seconds: 2, otherwise: 'refuse' }), ...branches)
  expect(await stack.ended(runId)).toMatchObject({ run: 'completed', pay: 'skipped', tell: 'completed' })
  const other = await start(ask({ expires_after_seconds: 2 }), ...branches)
  expect(await stack.ended(other)).toMatchObject({ run: 'expired', decide: 'expired', pay: 'cancelled' })
  const goesOn = await start(
    ask({ expires_after_seconds: 2 }, { on_error: 'continue', otherwise: { answer: 'refund' } }),
    ...branches,
  )
  expect(await stack.ended(goesOn)).toMatchObject({ run: 'completed', decide: 'expired', pay: 'completed' })
})

test('an answer that comes while no worker runs is taken up later', async () => {
  const runId = await start(ask(), ...branches)
  const id = await stack.held(runId)
  await stack.stopWorkers()
  await answer(id, 'refund')
  expect((await stack.runOf(runId)).status).toBe('running')
  await stack.startWorker()
  expect(await stack.ended(runId)).toMatchObject({ run: 'completed', pay: 'completed', tell: 'skipped' })
})

test('a wake-up without a reason asks nobody again, and a cancelled run asks nobody any more', async () => {
  const runId = await start(ask())
  const id = await stack.held(runId)
  await stack.motor.wake(runId, {})
  await stack.noise(runId, 3)
  expect((await stack.approvalsOf(runId)).map((each) => [each.id, each.status])).toEqual([[id, 'pending']])
  await stack.cancel(runId)
  expect(await stack.ended(runId)).toEqual({ run: 'cancelled', decide: 'cancelled' })
  expect((await stack.approvalsOf(runId))[0]?.status).toBe('cancelled')
})

test('rules decide what follows: the answer is untrusted, in the plan and in the run', async () => {
  const steps = [ask(), mail('out', { depends_on: ['decide'], on_error: 'continue' })]
  const runId = await start(...steps)
  const id = await stack.held(runId)
  await stack.rules({
    name: 'no',
    verdict: 'deny',
    labels: { any_of: ['untrusted'] },
    side_effects: ['egress'],
  })
  await answer(id, 'refund')
  expect(await stack.ended(runId)).toMatchObject({ decide: 'completed', out: 'denied' })
  await expect(start(...steps)).rejects.toThrow('step `out` would be denied by `no`')
  await stack.settings({ trust_answers: true })
  const trusted = await start(...steps)
  await answer(await stack.held(trusted), 'refund')
  expect(await stack.ended(trusted)).toMatchObject({ decide: 'completed', out: 'completed' })
  await stack.settings({ trust_answers: false })
})

test('each item of a `for_each` is asked about', async () => {
  const each = { for_each: ['a', 'b'], on_error: 'continue' }
  const runId = await start(
    ask({ show: { item: '{{item}}' } }, each),
    read('after', 'done', { depends_on: ['decide'] }),
  )
  const pending = async () =>
    (await stack.approvalsOf(runId)).filter(({ status }) => status === 'pending').map(({ id }) => id)
  await until('both wait', async () => (await pending()).length === 2)
  for (const id of await pending()) await answer(id, 'refund')
  expect(await stack.ended(runId)).toMatchObject({
    run: 'completed',
    decide: 'completed',
    after: 'completed',
  })
  expect((await stack.readRun(runId))?.outputs).toMatchObject({
    decide: [{ answer: 'refund' }, { answer: 'refund' }],
  })
})

test('a failing step ends the run and withdraws its questions', async () => {
  const runId = await start(ask(), read('gate', 'deaf'), read('bad', 'fail', { depends_on: ['gate'] }))
  await stack.held(runId)
  reads.release()
  expect(await stack.ended(runId)).toMatchObject({ run: 'failed', decide: 'cancelled' })
  expect((await stack.approvalsOf(runId))[0]?.status).toBe('cancelled')
})

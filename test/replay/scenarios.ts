import type { FakeReads, Stack } from '../workflows/worker-fixture.ts'
import { chain, mail, numbered, onPath, quick, read } from '../workflows/worker-fixture.ts'
import { changeQuota } from '../../src/governance/limits/quota.ts'
import { cancelRun } from '../../src/governance/runs/end/cancel.ts'
import { resolveStep } from '../../src/calls/runs/resolve.ts'
import { approvalsOf, holdRule, runOf, stepOf } from '../governance/runs/engine-fixture.ts'
import { until } from '../stack/until.ts'

export type Scenario = (stack: Stack, reads: FakeReads) => Promise<{ runId: string; ends: string }>

/**
 * Why each recorded history (`*.json` beside this file) is kept: the changes of the workflow code that no other history
 * would catch. The histories must replay for ever: old runs need the interpreter with which they began, so that
 * interpreter never changes.
 */
export const reasons: Readonly<Record<string, string>> = {
  ordinary:
    'The graph of a run that its own approval lets start: branches, and what follows a step that is skipped, tried again, approved, or that fails, is denied or is rejected without ending the run.',
  'for-each':
    'How many items without a number of their own are in progress, and how steps of items end: over nothing, over no list, with a failed item, and with approved ones.',
  quick:
    'Quick calls: as local activities, side by side, held, and the ordinary activity after a failure, a pause or a timeout.',
  waits:
    'The other reasons to wait: a person who resolves an unknown outcome, a slot that becomes free, a time that a step waits for, and a timer that fires and ends the run as expired.',
  fails: 'An item that fails: it withdraws held calls and stops the calls of all branches, and its step still ends.',
  cancelled: 'A cancellation during a held call, the items of a step and a quick call, which is waited for.',
  refused: 'A run that waits for its own approval and is rejected: it asks again, and finishes without any step.',
  'continued-1': 'When a run leaves its history: not before its calls in flight have ended, although items are left.',
  'continued-2': 'What a history carries into the next one: ended steps, items that have not begun, and held calls.',
  'continued-3': 'How a run ends in a later history: carried calls are approved, and steps that have ended do not run again.',
  'continued-gate-1': 'A run that its own approval let start leaves its history with a held call and without items.',
  'continued-gate-2': 'The cancellation of a run that only waits for a call which an earlier history held.',
}

/** One run of every kind. Each function returns the run's id, and the end that the run then reaches. */
export const scenarios: Readonly<Record<string, Scenario>> = {
  ordinary: async (stack) => {
    await stack.settings({ approval_required_from: 'low' })
    await stack.rules(holdRule(), onPath('deny', 'a-denied'))
    const goOn = { on_error: 'continue' }
    const runId = await stack.run({
      steps: [
        ...['a', 'b', 'c'].map((id) => read(id, id)),
        read('d', '{{a.output.text}}d', { depends_on: ['a', 'b', 'c'] }),
        read('no', 'no', { when: { value: '{{a.output.text}}', operator: 'equals', compare: 'b' } }),
        read('after', 'x{{no.output.text}}'),
        read('bad', 'fail', goOn),
        read('denied', '{{a.output.text}}-denied', goOn),
        read('flaky', 'flaky', { retry: { attempts: 3, backoff_seconds: 0 }, depends_on: ['bad', 'denied'] }),
        mail('rejected', { ...goOn, depends_on: ['d'] }),
        mail('approved', { depends_on: ['rejected'] }),
      ],
    })
    await stack.vote(await stack.held(runId), 'admin')
    await decide(stack, runId, 'rejected', 'reject')
    await decide(stack, runId, 'approved')
    return { runId, ends: 'completed' }
  },
  'for-each': async (stack) => {
    await stack.rules(holdItem)
    const subject = { to: 'a@b.test', subject: '{{item}}', text: 'x' }
    const runId = await stack.run({
      steps: oneAfterAnother(
        read('list', `list:${numbered(60, '').join(':')}`),
        mail('mails', { for_each: '{{list.output.list}}', params: subject }),
        read('none', '{{item}}', { for_each: [] }),
        read('wrong', '{{item}}', { for_each: '{{list.output.text}}', on_error: 'continue' }),
        read('held', '{{item}}', { for_each: ['hold', 'ok', 'hold'] }),
        read('some', '{{item}}', { for_each: ['ok', 'fail', 'fine'], on_error: 'continue' }),
        read('last', '{{some.output[0].text}}'),
      ),
    })
    for (const _ of [1, 2]) await stack.vote(await stack.held(runId), 'admin')
    return { runId, ends: 'completed' }
  },
  quick: async (stack) => {
    await stack.rules(holdItem)
    const retry = { attempts: 3, backoff_seconds: 0 }
    const items = numbered(25, '').map((item) => (Number(item) % 20 === 0 ? `flaky-${item}` : item))
    const runId = await stack.run({
      steps: [
        read('a', 'a', quick),
        read('b', 'b', quick),
        ...oneAfterAnother(
          read('c', '{{a.output.text}}', quick),
          mail('m'),
          read('slow', 'wait', { timeout_seconds: 1, retry: { ...retry, attempts: 2 }, on_error: 'continue' }),
          read('flaky', 'flaky', { ...quick, retry }),
          read('each', '{{item}}', { ...quick, retry, for_each: items }),
          read('held', '{{item}}', { ...quick, for_each: ['hold', 'ok', 'hold'] }),
        ),
      ],
    })
    for (const _ of [1, 2]) await stack.vote(await stack.held(runId), 'admin')
    return { runId, ends: 'completed' }
  },
  waits: async (stack, reads) => {
    const about = (value: string) => ({ name: value, params: [{ param: 'subject', operator: 'equals', value }] })
    await stack.rules(holdRule(about('held')), holdRule({ ...about('late'), expires_after_seconds: 1 }))
    stack.sink.behaviour = { kind: 'drop', taken: true }
    const pause = { id: 'pause', wait: { seconds: 1 } }
    const steps = [pause, mail('lost', { depends_on: ['pause'] }), mail('held', { depends_on: ['lost'] }), mail('late', { depends_on: ['held'] })]
    const runId = await stack.run({ steps: [...steps, read('never', 'x', { depends_on: ['late'] })] })
    await until('unknown', async () => (await stepOf(stack.context, runId, 'lost')).status === 'unknown_outcome')
    stack.sink.behaviour = { kind: 'accept' }
    const caller = stack.caller('admin')
    await resolveStep(stack.context, { caller, runId, stepId: 'lost', items: null, outcome: 'done' })
    const approvalId = await stack.held(runId)
    const limit = (concurrent_executions: number) =>
      changeQuota(stack.context, stack.caller('owner'), { concurrent_executions })
    await limit(1)
    await stack.run({ steps: [read('other', 'wait')] })
    await until('the only slot is taken', () => reads.waiting() === 1)
    await stack.vote(approvalId, 'admin')
    await until('it waits', async () => (await runOf(stack.context, runId)).slot === 'waits')
    await limit(100)
    return { runId, ends: 'expired' }
  },
  fails: async (stack, reads) => {
    await stack.rules(holdRule(), holdItem)
    const runId = await stack.run({
      steps: [
        mail('held'),
        read('long', 'wait'),
        read('each', '{{item}}', { for_each: ['hold', 'ok', 'deaf-fail'] }),
        read('first', 'first'),
        read('more', '{{item}}', { for_each: ['fine', 'wait-more'], depends_on: ['first'] }),
      ],
    })
    await until('two are held', async () => (await approvalsOf(stack.context, runId)).length === 2)
    await until('three read', () => reads.waiting() === 3)
    reads.release('deaf')
    return { runId, ends: 'failed' }
  },
  cancelled: async (stack, reads) => {
    await stack.rules(holdRule())
    const each = read('each', '{{item}}', { for_each: ['ok', 'wait'] })
    const after = read('after', 'x', { depends_on: ['m'] })
    const runId = await stack.run({ steps: [mail('m'), read('a', 'a'), each, read('quick', 'wait', quick), after] })
    await stack.held(runId)
    await until('two read', () => reads.waiting() === 2 && reads.calls.has('ok') && reads.calls.has('a'))
    await cancelRun(stack.context, { caller: stack.caller('member'), runId })
    return { runId, ends: 'cancelled' }
  },
  refused: async (stack) => {
    await stack.settings({ approval_required_from: 'low' })
    const runId = await stack.run({ steps: [read('a', 'a')] })
    const approvalId = await stack.held(runId)
    const { workflow } = stack.client
    const events = async () => (await workflow.getHandle(runId).fetchHistory()).events ?? []
    await until('the workflow waits', async () => (await events().catch(() => [])).some((each) => each.timerStartedEventAttributes))
    await stack.vote(approvalId, 'admin', 'reject')
    return { runId, ends: 'rejected' }
  },
}

/** Scenarios of runs that continue in new histories. The server suggests a new history after 40 events. */
export const continued: Readonly<Record<string, Scenario>> = {
  continued: async (stack, reads) => {
    await stack.rules(holdRule(), holdItem)
    const items = [...Array.from({ length: 20 }, (_, index) => `i${index}`), 'hold']
    const steps = [mail('m'), read('each', '{{item}}', { for_each: items }), ...chain(10)]
    const runId = await stack.run({ steps })
    await until('the chain ends', () => reads.calls.has('s9') && reads.calls.has('i19'))
    for (const _ of [1, 2]) await stack.vote(await stack.held(runId), 'admin')
    return { runId, ends: 'completed' }
  },
  'continued-gate': async (stack, reads) => {
    await stack.settings({ approval_required_from: 'low' })
    await stack.rules(holdRule())
    const runId = await stack.run({ steps: [mail('m'), ...chain(8)] })
    await stack.vote(await stack.held(runId), 'admin')
    await until('the chain ends', () => reads.calls.has('s7'))
    await stack.held(runId)
    await cancelRun(stack.context, { caller: stack.caller('member'), runId })
    return { runId, ends: 'cancelled' }
  },
}

const holdItem = onPath('require_approval', 'hold')

/** The steps, each of which depends on the one before it. */
const oneAfterAnother = (...steps: { readonly id: string }[]) =>
  steps.map((step, n) => ({ ...step, ...(n > 0 && { depends_on: [steps[n - 1]?.id] }) }))

/** Waits until a step is held. Then gives one vote. */
async function decide(stack: Stack, runId: string, stepId: string, decision: 'approve' | 'reject' = 'approve') {
  const id = async () => (await approvalsOf(stack.context, runId)).find((each) => each.step_id === stepId)?.id
  await until(`${stepId} is held`, async () => (await id()) !== undefined)
  await stack.vote((await id()) ?? '', 'admin', decision)
}

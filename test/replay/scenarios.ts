import type { FakeReads, Stack } from '../workflows/worker-fixture.ts'
import { mail, read } from '../workflows/worker-fixture.ts'
import { changeQuota } from '../../src/governance/limits/quota.ts'
import { cancelRun } from '../../src/governance/runs/end/cancel.ts'
import { resolveStep } from '../../src/governance/runs/effects/resolve.ts'
import { holdRule, runOf, stepOf } from '../governance/runs/engine-fixture.ts'
import { until } from '../stack/until.ts'

export type Scenario = (stack: Stack, reads: FakeReads) => Promise<{ runId: string; ends: string }>

/**
 * One run of every kind. Each function returns the run's id, and the end that the run then reaches. The recorded
 * histories (`*.json` beside this file) must replay for ever: old runs need the interpreter with which they began, so
 * that interpreter never changes.
 */
export const scenarios: Readonly<Record<string, Scenario>> = {
  plain: async (stack) => ({
    runId: await stack.run({ steps: [read('a', 'a'), read('b', '{{a.output.text}}')] }),
    ends: 'completed',
  }),
  parallel: async (stack) => ({
    runId: await stack.run({
      steps: [read('a', 'a'), read('b', 'b'), read('c', 'c'), read('d', 'd', { depends_on: ['a', 'b', 'c'] })],
    }),
    ends: 'completed',
  }),
  approved: async (stack) => {
    await stack.rules(holdRule())
    const runId = await stack.run({ steps: [read('a', 'a'), mail('m', { depends_on: ['a'] })] })
    await stack.vote(await stack.held(runId), 'admin')
    return { runId, ends: 'completed' }
  },
  rejected: async (stack) => {
    await stack.rules(holdRule())
    const runId = await stack.run({ steps: [mail('m'), read('a', 'a', { depends_on: ['m'] })] })
    await stack.vote(await stack.held(runId), 'admin', 'reject')
    return { runId, ends: 'rejected' }
  },
  expired: async (stack) => {
    await stack.rules(holdRule({ expires_after_seconds: 1 }))
    return { runId: await stack.run({ steps: [mail('m')] }), ends: 'expired' }
  },
  denied: async (stack) => {
    await stack.rules({ name: 'd', verdict: 'deny', params: [{ param: 'path', operator: 'equals', value: 'aa' }] })
    const runId = await stack.run({ steps: [read('a', 'a'), read('b', '{{a.output.text}}a')] })
    return { runId, ends: 'denied' }
  },
  'for-each': async (stack) => ({
    runId: await stack.run({
      steps: [
        read('list', `list:${Array.from({ length: 60 }, (_, index) => index).join(':')}`),
        read('each', '{{item}}', { for_each: '{{list.output.list}}' }),
        read('none', '{{item}}', { for_each: [] }),
      ],
    }),
    ends: 'completed',
  }),
  'for-each-fails': async (stack, reads) => {
    await stack.rules(holdItem)
    const runId = await stack.run({ steps: [read('each', '{{item}}', { for_each: ['hold', 'ok', 'deaf-fail'] })] })
    await stack.held(runId)
    await letGo(reads)
    return { runId, ends: 'failed' }
  },
  'for-each-approved': async (stack) => {
    await stack.rules(holdItem)
    const runId = await stack.run({ steps: [read('each', '{{item}}', { for_each: ['hold', 'ok', 'hold'] })] })
    for (const _ of [1, 2]) await stack.vote(await stack.held(runId), 'admin')
    return { runId, ends: 'completed' }
  },
  'for-each-goes-on': async (stack) => ({
    runId: await stack.run({
      steps: [read('each', '{{item}}', { for_each: ['ok', 'fail', 'fine'], on_error: 'continue' }), read('a', '{{each.output[0].text}}')],
    }),
    ends: 'completed',
  }),
  'for-each-cancelled': async (stack, reads) => {
    const runId = await stack.run({ steps: [read('each', '{{item}}', { for_each: ['ok', 'wait'] })] })
    await until('an item waits', () => reads.waiting() === 1 && reads.calls.has('ok'))
    await cancelRun(stack.context, { caller: stack.caller('member'), runId })
    return { runId, ends: 'cancelled' }
  },
  'timed-out': async (stack) => ({
    runId: await stack.run({ steps: [read('a', 'wait', { timeout_seconds: 1, retry: { attempts: 2, backoff_seconds: 0 } })] }),
    ends: 'failed',
  }),
  skipped: async (stack) => ({
    runId: await stack.run({
      steps: [
        read('a', 'a'),
        read('no', 'no', { when: { value: '{{a.output.text}}', operator: 'equals', compare: 'b' } }),
        read('after', 'x{{no.output.text}}'),
      ],
    }),
    ends: 'completed',
  }),
  'on-error-continue': async (stack) => ({
    runId: await stack.run({
      steps: [read('bad', 'fail', { on_error: 'continue' }), read('next', 'n', { depends_on: ['bad'] })],
    }),
    ends: 'completed',
  }),
  'branch-fails': async (stack, reads) => {
    await stack.rules(holdRule())
    const runId = await stack.run({ steps: [mail('held'), read('long', 'wait'), read('bad', 'deaf-fail')] })
    await stack.held(runId)
    await letGo(reads)
    return { runId, ends: 'failed' }
  },
  retried: async (stack) => ({
    runId: await stack.run({ steps: [read('a', 'flaky', { retry: { attempts: 3, backoff_seconds: 0 } })] }),
    ends: 'completed',
  }),
  quick: async (stack) => ({
    runId: await stack.run({
      steps: [read('a', 'a', quick), read('b', 'b', quick), read('c', '{{a.output.text}}', quick), mail('m', { depends_on: ['c'] })],
    }),
    ends: 'completed',
  }),
  'quick-retried': async (stack) => ({
    runId: await stack.run({ steps: [read('a', 'flaky', { ...quick, retry: { attempts: 3, backoff_seconds: 0 } })] }),
    ends: 'completed',
  }),
  'quick-approved': async (stack) => {
    await stack.rules(holdItem)
    const runId = await stack.run({ steps: [read('each', '{{item}}', { ...quick, for_each: ['hold', 'ok', 'hold'] })] })
    for (const _ of [1, 2]) await stack.vote(await stack.held(runId), 'admin')
    return { runId, ends: 'completed' }
  },
  'quick-for-each': async (stack) => {
    const items = Array.from({ length: 25 }, (_, index) => (index % 3 === 0 ? `flaky-${index}` : `${index}`))
    const retry = { attempts: 3, backoff_seconds: 0 }
    return {
      runId: await stack.run({ steps: [read('each', '{{item}}', { ...quick, retry, for_each: items })] }),
      ends: 'completed',
    }
  },
  'quick-cancelled': async (stack, reads) => {
    const runId = await stack.run({ steps: [read('a', 'wait', quick)] })
    await until('it waits', () => reads.waiting() === 1)
    await cancelRun(stack.context, { caller: stack.caller('member'), runId })
    return { runId, ends: 'cancelled' }
  },
  cancelled: async (stack) => {
    await stack.rules(holdRule())
    const runId = await stack.run({ steps: [mail('m'), read('a', 'a')] })
    await stack.held(runId)
    await cancelRun(stack.context, { caller: stack.caller('member'), runId })
    return { runId, ends: 'cancelled' }
  },
  gated: async (stack) => {
    await stack.settings({ approval_required_from: 'low' })
    const runId = await stack.run({ steps: [read('a', 'a')] })
    await stack.vote(await stack.held(runId), 'admin')
    return { runId, ends: 'completed' }
  },
  'gated-rejected': async (stack) => {
    await stack.settings({ approval_required_from: 'low' })
    const runId = await stack.run({ steps: [read('a', 'a')] })
    await stack.vote(await stack.held(runId), 'admin', 'reject')
    return { runId, ends: 'rejected' }
  },
  'waits-for-slot': async (stack, reads) => {
    await stack.rules(holdRule())
    const runId = await stack.run({ steps: [mail('m')] })
    const approvalId = await stack.held(runId)
    const limit = (concurrent_executions: number) =>
      changeQuota(stack.context, stack.caller('owner'), { concurrent_executions })
    await limit(1)
    await stack.run({ steps: [read('other', 'wait')] })
    await until('the only slot is taken', () => reads.waiting() === 1)
    await stack.vote(approvalId, 'admin')
    await until('it waits', async () => (await runOf(stack.context, runId)).slot === 'waits')
    await limit(100)
    return { runId, ends: 'completed' }
  },
  'unknown-outcome-resolved': async (stack) => {
    stack.sink.behaviour = { kind: 'drop', taken: true }
    const runId = await stack.run({ steps: [mail('m'), read('a', 'a', { depends_on: ['m'] })] })
    await until('unknown', async () => (await stepOf(stack.context, runId, 'm')).status === 'unknown_outcome')
    const caller = stack.caller('admin')
    await resolveStep(stack.context, { caller, runId, stepId: 'm', items: null, outcome: 'done' })
    return { runId, ends: 'completed' }
  },
}

/** Scenarios of runs that continue in new histories. The server suggests a new history after 40 events. */
export const continued: Readonly<Record<string, Scenario>> = {
  'continued-chain': async (stack) => ({ runId: await stack.run({ steps: chain(20) }), ends: 'completed' }),
  'continued-held': async (stack, reads) => {
    await stack.rules(holdRule(), holdItem)
    const items = [...Array.from({ length: 55 }, (_, index) => `i${index}`), 'hold']
    const steps = [mail('m'), read('each', '{{item}}', { for_each: items }), ...chain(16)]
    const runId = await stack.run({ steps })
    await until('the chain ends', () => reads.calls.has('s15'))
    await stack.vote(await stack.held(runId), 'admin')
    await stack.vote(await stack.held(runId), 'admin')
    return { runId, ends: 'completed' }
  },
  'continued-cancelled': async (stack, reads) => {
    await stack.rules(holdRule())
    const runId = await stack.run({ steps: [mail('m'), ...chain(16)] })
    await until('the chain ends', () => reads.calls.has('s15'))
    await cancelRun(stack.context, { caller: stack.caller('member'), runId })
    return { runId, ends: 'cancelled' }
  },
}

/** The options of a step whose call is a local activity. */
const quick = { timeout_seconds: 10 }
const holdItem = { name: 'h', verdict: 'require_approval', params: [{ param: 'path', operator: 'equals', value: 'hold' }] } // prettier-ignore
const chain = (length: number) =>
  Array.from({ length }, (_, n) => read(`s${n}`, `s${n}`, n === 0 ? {} : { depends_on: [`s${n - 1}`] }))

async function letGo(reads: FakeReads): Promise<void> {
  await until('a deaf read', () => (reads.calls.get('deaf-fail') ?? 0) > 0 && reads.waiting() > 0)
  reads.release('deaf')
}

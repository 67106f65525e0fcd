import { expect, test } from '@jest/globals'
import { readRunEvents } from '../../src/governance/runs/read/events.ts'
import { readReceipt, type ReceiptView } from '../../src/governance/runs/read/receipt.ts'
import { runOf } from '../governance/runs/engine-fixture.ts'
import { read, useTestStack, type FakeReads, type Stack } from './worker-fixture.ts'

/* The states, events and receipts of every kind of step, with a real server. */

let stack: Stack
let reads: FakeReads
useTestStack((...both) => ([stack, reads] = both))

interface Case {
  readonly steps: readonly object[]
  readonly rules?: readonly object[]
  /** Votes on the approvals, in the order in which they are created. */
  readonly votes?: readonly ('approve' | 'reject')[]
  readonly states: Record<string, string>
  /** `executed/failed` of the run's counters. */
  readonly nodes: string
  readonly reason: string
  /** `type step` or `type step#item`, from `run.started` to the run's last event. */
  readonly events: string
  /** `step#item verdict rule outcome`. */
  readonly receipts: string
  /** How often each body ran. */
  readonly calls: Record<string, number>
}

const once = { attempts: 1, backoff_seconds: 0 }
const twice = { attempts: 2, backoff_seconds: 0 }
const on = (verdict: string, path: string, over: object = {}) => ({
  name: verdict,
  verdict,
  params: [{ param: 'path', operator: 'equals', value: path }],
  ...over,
})
const is = (value: string, compare: string) => ({ value, operator: 'equals', compare })

const cases: Record<string, Case> = {
  '`when` that does not hold': {
    steps: [
      read('a', 'a'),
      read('no', 'no', { when: is('{{a.output.text}}', 'b') }),
      read('next', '{{no.output.text}}next'),
    ],
    states: { run: 'completed', a: 'completed', no: 'skipped', next: 'completed' },
    nodes: '2/0',
    reason: 'every step has ended',
    events:
      'run.started, step.decided a, step.started a, step.completed a, step.skipped no, step.decided next, step.started next, step.completed next, run.completed',
    receipts: 'a allow - completed, next allow - completed',
    calls: { a: 1, next: 1 },
  },
  '`when` of a skipped step': {
    steps: [
      read('no', 'no', { when: is('a', 'b') }),
      read('yes', 'yes', { when: { value: '{{no.output.text}}', operator: 'exists', compare: false } }),
    ],
    states: { run: 'completed', no: 'skipped', yes: 'completed' },
    nodes: '1/0',
    reason: 'every step has ended',
    events:
      'run.started, step.skipped no, step.decided yes, step.started yes, step.completed yes, run.completed',
    receipts: 'yes allow - completed',
    calls: { yes: 1 },
  },
  '`retry`: passes': {
    steps: [read('a', 'flaky', { retry: twice })],
    states: { run: 'completed', a: 'completed' },
    nodes: '1/0',
    reason: 'every step has ended',
    events: 'run.started, step.decided a, step.started a, step.decided a, step.completed a, run.completed',
    receipts: 'a allow - failed, a allow - completed',
    calls: { flaky: 2 },
  },
  '`retry`: used up': {
    steps: [read('a', 'flaky', { retry: once })],
    states: { run: 'failed', a: 'failed' },
    nodes: '0/1',
    reason: 'step `a` ended the run: it cannot be read',
    events: 'run.started, step.decided a, step.started a, step.failed a, run.failed',
    receipts: 'a allow - failed',
    calls: { flaky: 1 },
  },
  '`retry`: cannot pass': {
    steps: [read('a', 'fail', { retry: twice })],
    states: { run: 'failed', a: 'failed' },
    nodes: '0/1',
    reason: 'step `a` ended the run: it cannot be read',
    events: 'run.started, step.decided a, step.started a, step.failed a, run.failed',
    receipts: 'a allow - failed',
    calls: { fail: 1 },
  },
  '`timeout_seconds`: each attempt has its own': {
    steps: [read('a', 'wait', { timeout_seconds: 1, retry: twice, on_error: 'continue' })],
    states: { run: 'completed', a: 'failed' },
    nodes: '0/1',
    reason: 'every step has ended',
    events: 'run.started, step.decided a, step.started a, step.decided a, step.failed a, run.completed',
    receipts: 'a allow - failed, a allow - failed',
    calls: { wait: 2 },
  },
  '`on_error: continue`: failed': {
    steps: [read('a', 'fail', { on_error: 'continue' }), read('b', 'b{{a.output.text}}')],
    states: { run: 'completed', a: 'failed', b: 'completed' },
    nodes: '1/1',
    reason: 'every step has ended',
    events:
      'run.started, step.decided a, step.started a, step.failed a, step.decided b, step.started b, step.completed b, run.completed',
    receipts: 'a allow - failed, b allow - completed',
    calls: { fail: 1, b: 1 },
  },
  '`on_error: continue`: denied': {
    rules: [on('deny', 'aa')],
    steps: [
      read('s', 'a'),
      read('a', '{{s.output.text}}a', { on_error: 'continue' }),
      read('b', 'b{{a.output.text}}'),
    ],
    states: { run: 'completed', a: 'denied', b: 'completed', s: 'completed' },
    nodes: '2/1',
    reason: 'every step has ended',
    events:
      'run.started, step.decided s, step.started s, step.completed s, step.decided a, step.denied a, step.decided b, step.started b, step.completed b, run.completed',
    receipts: 's allow - completed, a deny deny denied, b allow - completed',
    calls: { a: 1, b: 1 },
  },
  '`on_error: continue`: rejected': {
    rules: [on('require_approval', 'a')],
    votes: ['reject'],
    steps: [read('a', 'a', { on_error: 'continue' }), read('b', 'b{{a.output.text}}')],
    states: { run: 'completed', a: 'rejected', b: 'completed' },
    nodes: '1/1',
    reason: 'every step has ended',
    events:
      'run.started, step.decided a, step.held a, approval.created a, run.paused, approval.decided, run.resumed, step.rejected a, step.decided b, step.started b, step.completed b, run.completed',
    receipts: 'a require_approval require_approval rejected, b allow - completed',
    calls: { b: 1 },
  },
  '`on_error: continue`: expired': {
    rules: [on('require_approval', 'a', { expires_after_seconds: 1 })],
    steps: [read('a', 'a', { on_error: 'continue' }), read('b', 'b{{a.output.text}}')],
    states: { run: 'completed', a: 'expired', b: 'completed' },
    nodes: '1/1',
    reason: 'every step has ended',
    events:
      'run.started, step.decided a, step.held a, approval.created a, run.paused, approval.decided, run.resumed, step.expired a, step.decided b, step.started b, step.completed b, run.completed',
    receipts: 'a require_approval require_approval expired, b allow - completed',
    calls: { b: 1 },
  },
  'a denial ends the run': {
    rules: [on('deny', 'aa')],
    steps: [read('s', 'a'), read('a', '{{s.output.text}}a'), read('b', 'b{{a.output.text}}')],
    states: { run: 'denied', a: 'denied', b: 'cancelled', s: 'completed' },
    nodes: '1/1',
    reason: 'step `a` ended the run: Rule `deny` denies `file_read` because `path` is `aa`.',
    events:
      'run.started, step.decided s, step.started s, step.completed s, step.decided a, step.denied a, run.denied',
    receipts: 's allow - completed, a deny deny denied',
    calls: { a: 1 },
  },
  'a rejection ends the run': {
    rules: [on('require_approval', 'a')],
    votes: ['reject'],
    steps: [read('a', 'a'), read('b', 'b{{a.output.text}}')],
    states: { run: 'rejected', a: 'rejected', b: 'cancelled' },
    nodes: '0/1',
    reason: 'step `a` ended the run: `admin@countersign.test` rejected it',
    events:
      'run.started, step.decided a, step.held a, approval.created a, run.paused, approval.decided, run.resumed, step.rejected a, run.rejected',
    receipts: 'a require_approval require_approval rejected',
    calls: {},
  },
  'held, approved': {
    rules: [on('require_approval', 'a')],
    votes: ['approve'],
    steps: [read('a', 'a')],
    states: { run: 'completed', a: 'completed' },
    nodes: '1/0',
    reason: 'every step has ended',
    events:
      'run.started, step.decided a, step.held a, approval.created a, run.paused, approval.decided, step.decided a, step.started a, run.resumed, step.completed a, run.completed',
    receipts: 'a require_approval require_approval completed',
    calls: { a: 1 },
  },
  '`for_each`: an item': {
    steps: [read('e', '{{item}}{{index}}', { for_each: ['x'] })],
    states: { run: 'completed', e: 'completed' },
    nodes: '1/0',
    reason: 'every step has ended',
    events:
      'run.started, step.started e, step.decided e#0, step.completed e#0, step.completed e, run.completed',
    receipts: 'e#0 allow - completed',
    calls: { x0: 1 },
  },
  '`for_each`: nothing': {
    steps: [read('e', '{{item}}', { for_each: [] }), read('b', 'b', { depends_on: ['e'] })],
    states: { run: 'completed', b: 'completed', e: 'completed' },
    nodes: '1/0',
    reason: 'every step has ended',
    events:
      'run.started, step.started e, step.completed e, step.decided b, step.started b, step.completed b, run.completed',
    receipts: 'b allow - completed',
    calls: { b: 1 },
  },
  '`for_each`: all skipped': {
    steps: [
      read('e', '{{item}}', { for_each: ['x'], when: is('{{item}}', 'y') }),
      read('b', 'b{{e.output[0].text}}'),
    ],
    states: { run: 'completed', b: 'completed', e: 'skipped' },
    nodes: '1/0',
    reason: 'every step has ended',
    events:
      'run.started, step.started e, step.skipped e#0, step.skipped e, step.decided b, step.started b, step.completed b, run.completed',
    receipts: 'b allow - completed',
    calls: { b: 1 },
  },
  '`for_each`: held, approved': {
    rules: [on('require_approval', 'x')],
    votes: ['approve'],
    steps: [read('e', '{{item}}', { for_each: ['x'] })],
    states: { run: 'completed', e: 'completed' },
    nodes: '1/0',
    reason: 'every step has ended',
    events:
      'run.started, step.started e, step.decided e#0, step.held e#0, approval.created e, run.paused, approval.decided, step.decided e#0, run.resumed, step.completed e#0, step.completed e, run.completed',
    receipts: 'e#0 require_approval require_approval completed',
    calls: { x: 1 },
  },
  '`for_each`: held, rejected': {
    rules: [on('require_approval', 'x')],
    votes: ['reject'],
    steps: [read('e', '{{item}}', { for_each: ['x'] }), read('b', 'b', { depends_on: ['e'] })],
    states: { run: 'rejected', b: 'cancelled', e: 'rejected' },
    nodes: '0/1',
    reason: 'step `e` was rejected at item 0 of 1 (counted from 0): `admin@countersign.test` rejected it',
    events:
      'run.started, step.started e, step.decided e#0, step.held e#0, approval.created e, run.paused, approval.decided, run.resumed, step.rejected e#0, step.rejected e, run.rejected',
    receipts: 'e#0 require_approval require_approval rejected',
    calls: {},
  },
  '`for_each`: held, rejected, goes on': {
    rules: [on('require_approval', 'x')],
    votes: ['reject'],
    steps: [
      read('e', '{{item}}', { for_each: ['x'], on_error: 'continue' }),
      read('b', 'b{{e.output[0].text}}'),
    ],
    states: { run: 'completed', b: 'completed', e: 'rejected' },
    nodes: '1/1',
    reason: 'every step has ended',
    events:
      'run.started, step.started e, step.decided e#0, step.held e#0, approval.created e, run.paused, approval.decided, run.resumed, step.rejected e#0, step.rejected e, step.decided b, step.started b, step.completed b, run.completed',
    receipts: 'e#0 require_approval require_approval rejected, b allow - completed',
    calls: { b: 1 },
  },
  '`for_each`: held, expired': {
    rules: [on('require_approval', 'x', { expires_after_seconds: 1 })],
    steps: [read('e', '{{item}}', { for_each: ['x'] })],
    states: { run: 'expired', e: 'expired' },
    nodes: '0/1',
    reason: 'step `e` expired at item 0 of 1 (counted from 0): nobody approved it in time',
    events:
      'run.started, step.started e, step.decided e#0, step.held e#0, approval.created e, run.paused, approval.decided, run.resumed, step.expired e#0, step.expired e, run.expired',
    receipts: 'e#0 require_approval require_approval expired',
    calls: {},
  },
  '`for_each`: denied': {
    rules: [on('deny', 'ax')],
    steps: [read('a', 'a'), read('e', '{{a.output.text}}{{item}}', { for_each: ['x'] })],
    states: { run: 'denied', a: 'completed', e: 'denied' },
    nodes: '1/1',
    reason:
      'step `e` was denied at item 0 of 1 (counted from 0): Rule `deny` denies `file_read` because `path` is `ax`.',
    events:
      'run.started, step.decided a, step.started a, step.completed a, step.started e, step.decided e#0, step.denied e#0, step.denied e, run.denied',
    receipts: 'a allow - completed, e#0 deny deny denied',
    calls: { a: 1 },
  },
  '`for_each`: failed, goes on': {
    steps: [
      read('e', '{{item}}', { for_each: ['fail'], on_error: 'continue' }),
      read('b', 'b{{e.output[0].text}}'),
    ],
    states: { run: 'completed', b: 'completed', e: 'failed' },
    nodes: '1/1',
    reason: 'every step has ended',
    events:
      'run.started, step.started e, step.decided e#0, step.failed e#0, step.failed e, step.decided b, step.started b, step.completed b, run.completed',
    receipts: 'e#0 allow - failed, b allow - completed',
    calls: { fail: 1, b: 1 },
  },
  '`for_each`: no list, goes on': {
    steps: [
      read('a', 'a'),
      read('e', '{{item}}', { for_each: '{{a.output.text}}', on_error: 'continue' }),
      read('b', 'b', { depends_on: ['e'] }),
    ],
    states: { run: 'completed', a: 'completed', b: 'completed', e: 'failed' },
    nodes: '2/1',
    reason: 'every step has ended',
    events:
      'run.started, step.decided a, step.started a, step.completed a, step.failed e, step.decided b, step.started b, step.completed b, run.completed',
    receipts: 'a allow - completed, b allow - completed',
    calls: { a: 1, b: 1 },
  },
  '`for_each`: one of each kind': {
    rules: [on('require_approval', 'hold')],
    votes: ['approve'],
    steps: [
      read('e', '{{item}}', {
        for_each: ['ok', 'hold', 'fail', 'skip'],
        on_error: 'continue',
        when: { value: '{{item}}', operator: 'not_equals', compare: 'skip' },
      }),
      read('b', 'b{{e.output[1].text}}{{e.output[2].text}}'),
    ],
    states: { run: 'completed', b: 'completed', e: 'failed' },
    nodes: '3/1',
    reason: 'every step has ended',
    events:
      'run.started, step.started e, step.decided e#2, step.decided e#1, step.held e#1, approval.created e, run.paused, step.decided e#0, step.failed e#2, step.skipped e#3, step.completed e#0, approval.decided, step.decided e#1, run.resumed, step.completed e#1, step.failed e, step.decided b, step.started b, step.completed b, run.completed',
    receipts:
      'e#2 allow - failed, e#0 allow - completed, e#1 require_approval require_approval completed, b allow - completed',
    calls: { fail: 1, ok: 1, hold: 1, bhold: 1 },
  },
}

test.each(Object.entries(cases))('%s', async (_name, expected) => {
  await stack.rules(...(expected.rules ?? []))
  const runId = await stack.run({ steps: expected.steps })
  for (const decision of expected.votes ?? []) await stack.vote(await stack.held(runId), 'admin', decision)
  const { steps: _steps, rules: _rules, votes: _votes, ...wanted } = expected
  const left = { ...(await seen(runId)), calls: Object.fromEntries(reads.calls) }
  expect(inOrder(left)).toEqual(inOrder(wanted))
})

/** Items run at the same time, so the order of their events and receipts varies. */
function inOrder(each: Omit<Case, 'steps'>): Omit<Case, 'steps'> {
  if (!each.events.includes('#1')) return each
  const sorted = (list: string) => list.split(', ').toSorted().join(', ')
  return { ...each, events: sorted(each.events), receipts: sorted(each.receipts) }
}

async function seen(runId: string): Promise<Omit<Case, 'steps' | 'calls'>> {
  const states = await stack.ended(runId)
  const run = await runOf(stack.context, runId)
  const { events } = await readRunEvents(stack.context.db, runId, 0)
  const parts = await readReceipt(stack.context.db, stack.organizationId, runId)
  const receipt = JSON.parse(await parts.text()) as ReceiptView
  const place = (step: unknown, item: unknown) => (step ? ` ${step as string}${typeof item === 'number' ? `#${item}` : ''}` : '') // prettier-ignore
  return {
    states,
    nodes: `${run.nodes_executed}/${run.nodes_failed}`,
    reason: run.status_reason,
    events: events.slice(1).map((event) => `${event.type}${place(event['step_id'], event['item_index'])}`).join(', '), // prettier-ignore
    receipts: receipt.decisions
      .map(
        (each) =>
          `${place(each.step_id, each.item_index).trim()} ${each.verdict} ${each.rule_name ?? '-'} ${each.outcome ?? '-'}`,
      )
      .join(', '),
  }
}

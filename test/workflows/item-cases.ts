import { type Case, on, is } from './step-cases.ts'
import { read } from './worker-fixture.ts'

/* The kinds of `for_each` steps: definition, votes, and the results that the run then shows. */

export const itemCases: Record<string, Case> = {
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
      'run.started, step.started e, step.decided e#0, step.held e#0, approval.created e, run.paused, approval.decided, run.resumed, step.decided e#0, step.completed e#0, step.completed e, run.completed',
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
      'run.started, step.started e, step.decided e#2, step.decided e#1, step.held e#1, approval.created e, run.paused, step.decided e#0, step.failed e#2, step.skipped e#3, step.completed e#0, approval.decided, run.resumed, step.decided e#1, step.completed e#1, step.failed e, step.decided b, step.started b, step.completed b, run.completed',
    receipts:
      'e#2 allow - failed, e#0 allow - completed, e#1 require_approval require_approval completed, b allow - completed',
    calls: { fail: 1, ok: 1, hold: 1, bhold: 1 },
  },
}

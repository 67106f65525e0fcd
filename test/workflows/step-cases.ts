import { read } from './worker-fixture.ts'

/* The kinds of steps that call their tool once: definition, votes, and the results that the run then shows. */

export interface Case {
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
  /** Whether steps run at the same time, so that the order of their events varies. */
  readonly sideBySide?: true
}

const once = { attempts: 1, backoff_seconds: 0 }

const twice = { attempts: 2, backoff_seconds: 0 }

export const on = (verdict: string, path: string, over: object = {}) => ({
  name: verdict,
  verdict,
  params: [{ param: 'path', operator: 'equals', value: path }],
  ...over,
})

export const is = (value: string, compare: string) => ({ value, operator: 'equals', compare })

export const stepCases: Record<string, Case> = {
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
  '`when` with `exists`: a path that leads to nothing': {
    steps: [
      read('a', 'a'),
      read('no', 'no', { when: { value: '{{a.output.rows[7].x}}', operator: 'exists' } }),
      read('yes', 'yes', { when: { value: '{{a.output.rows[7].x}}', operator: 'exists', compare: false } }),
    ],
    states: { run: 'completed', a: 'completed', no: 'skipped', yes: 'completed' },
    nodes: '2/0',
    reason: 'every step has ended',
    events:
      'run.started, step.decided a, step.started a, step.completed a, step.skipped no, step.decided yes, step.started yes, step.completed yes, run.completed',
    receipts: 'a allow - completed, yes allow - completed',
    calls: { a: 1, yes: 1 },
    sideBySide: true,
  },
  '`when` with another operator: a path that leads to nothing': {
    steps: [
      read('a', 'a'),
      read('b', 'b', { when: { value: '{{a.output.rows[7].x}}', operator: 'not_equals', compare: 'x' } }),
    ],
    states: { run: 'failed', a: 'completed', b: 'failed' },
    nodes: '1/1',
    reason: 'step `b` ended the run: `{{a.output.rows[7].x}}`: there is no `rows` in the value',
    events: 'run.started, step.decided a, step.started a, step.completed a, step.failed b, run.failed',
    receipts: 'a allow - completed',
    calls: { a: 1 },
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
      'run.started, step.decided a, step.held a, approval.created a, run.paused, approval.decided, run.resumed, step.decided a, step.started a, step.completed a, run.completed',
    receipts: 'a require_approval require_approval completed',
    calls: { a: 1 },
  },
}

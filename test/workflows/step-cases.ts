import { onPath, read } from './worker-fixture.ts'

/* The kinds of steps: definition, votes, and the results that the run then shows. */

interface Case {
  readonly steps: readonly object[]
  readonly rules?: readonly object[]
  /** Votes on the approvals, in the order in which they are created. */
  readonly votes?: readonly ('approve' | 'reject')[]
  readonly states: Record<string, string>
  /** `executed/failed` of the run's counters. By default, as many calls as have such events. */
  readonly nodes?: string
  /** By default: every step has ended. */
  readonly reason?: string
  /** `type step` or `type step#item`, between the run's start and its end. */
  readonly events: readonly string[]
  /** `step#item verdict rule outcome`. */
  readonly receipts: string
  /** How often each body ran. */
  readonly calls: Record<string, number>
  /** Whether steps run at the same time, so that the order of their events varies. */
  readonly sideBySide?: true
}

const once = { attempts: 1, backoff_seconds: 0 }
const twice = { attempts: 2, backoff_seconds: 0 }
const goOn = { on_error: 'continue' }

const is = (value: string, compare: string) => ({ value, operator: 'equals', compare })

/** The events of a step that runs. */
const ran = (id: string) => `step.decided ${id}, step.started ${id}, step.completed ${id}`
/** The events of a call that waits for its approval, alone, until the approval is decided. */
const held = (call: string) =>
  `step.decided ${call}, step.held ${call}, approval.created ${call.split('#')[0]}, run.paused, approval.decided, run.resumed`

const ofOneCall: Record<string, Case> = {
  '`when` that does not hold': {
    steps: [
      read('a', 'a'),
      read('no', 'no', { when: is('{{a.output.text}}', 'b') }),
      read('next', '{{no.output.text}}next'),
    ],
    states: { run: 'completed', a: 'completed', no: 'skipped', next: 'completed' },
    events: [ran('a'), 'step.skipped no', ran('next')],
    receipts: 'a allow - completed, next allow - completed',
    calls: { a: 1, next: 1 },
  },
  '`when` of a skipped step': {
    steps: [
      read('no', 'no', { when: is('a', 'b') }),
      read('yes', 'yes', { when: { value: '{{no.output.text}}', operator: 'exists', compare: false } }),
    ],
    states: { run: 'completed', no: 'skipped', yes: 'completed' },
    events: ['step.skipped no', ran('yes')],
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
    events: [ran('a'), 'step.skipped no', ran('yes')],
    receipts: 'a allow - completed, yes allow - completed',
    calls: { a: 1, yes: 1 },
    sideBySide: true,
  },
  '`when` with another operator: a path that leads to nothing': {
    steps: [
      read('a', 'a'),
      read('yes', 'yes', { when: { value: '{{a.output.rows[7].x}}', operator: 'not_equals', compare: 'x' } }),
      read('no', 'no', { when: { value: '{{a.output.rows[7].x}}', operator: 'equals', compare: 'x' } }),
    ],
    states: { run: 'completed', a: 'completed', yes: 'completed', no: 'skipped' },
    events: [ran('a'), ran('yes'), 'step.skipped no'],
    receipts: 'a allow - completed, yes allow - completed',
    calls: { a: 1, yes: 1 },
    sideBySide: true,
  },
  '`when` as an expression': {
    steps: [
      read('a', 'a'),
      read('yes', 'yes', { when: "{{ (a.output.rows[7].x ?? 'x') == 'x' }}" }),
      read('no', 'no', { when: '{{ size(a.output.rows) > 7 }}' }),
    ],
    states: { run: 'completed', a: 'completed', yes: 'completed', no: 'skipped' },
    events: [ran('a'), ran('yes'), 'step.skipped no'],
    receipts: 'a allow - completed, yes allow - completed',
    calls: { a: 1, yes: 1 },
    sideBySide: true,
  },
  '`retry`: passes': {
    steps: [read('a', 'flaky', { retry: twice })],
    states: { run: 'completed', a: 'completed' },
    events: ['step.decided a, step.started a, step.decided a, step.completed a'],
    receipts: 'a allow - failed, a allow - completed',
    calls: { flaky: 2 },
  },
  '`retry`: used up': {
    steps: [read('a', 'flaky', { retry: once })],
    states: { run: 'failed', a: 'failed' },
    reason: 'step `a` ended the run: it cannot be read',
    events: ['step.decided a, step.started a, step.failed a'],
    receipts: 'a allow - failed',
    calls: { flaky: 1 },
  },
  '`retry`: cannot pass': {
    steps: [read('a', 'fail', { retry: twice })],
    states: { run: 'failed', a: 'failed' },
    reason: 'step `a` ended the run: it cannot be read',
    events: ['step.decided a, step.started a, step.failed a'],
    receipts: 'a allow - failed',
    calls: { fail: 1 },
  },
  '`retry`: a body that crashes': {
    steps: [read('a', 'crash', { retry: twice, ...goOn })],
    states: { run: 'completed', a: 'failed' },
    events: ['step.decided a, step.started a, step.failed a'],
    receipts: 'a allow - failed',
    calls: { crash: 1 },
  },
  '`timeout_seconds`: each attempt has its own': {
    steps: [read('a', 'wait', { timeout_seconds: 1, retry: twice, ...goOn })],
    states: { run: 'completed', a: 'failed' },
    events: ['step.decided a, step.started a, step.decided a, step.failed a'],
    receipts: 'a allow - failed, a allow - failed',
    calls: { wait: 2 },
  },
  '`on_error: continue`: failed': {
    steps: [read('a', 'fail', goOn), read('b', 'b{{a.output.text}}')],
    states: { run: 'completed', a: 'failed', b: 'completed' },
    events: ['step.decided a, step.started a, step.failed a', ran('b')],
    receipts: 'a allow - failed, b allow - completed',
    calls: { fail: 1, b: 1 },
  },
  '`on_error: continue`: denied': {
    rules: [onPath('deny', 'aa')],
    steps: [read('s', 'a'), read('a', '{{s.output.text}}a', goOn), read('b', 'b{{a.output.text}}')],
    states: { run: 'completed', a: 'denied', b: 'completed', s: 'completed' },
    events: [ran('s'), 'step.decided a, step.denied a', ran('b')],
    receipts: 's allow - completed, a deny deny denied, b allow - completed',
    calls: { a: 1, b: 1 },
  },
  '`on_error: continue`: rejected': {
    rules: [onPath('require_approval', 'a')],
    votes: ['reject'],
    steps: [read('a', 'a', goOn), read('b', 'b{{a.output.text}}')],
    states: { run: 'completed', a: 'rejected', b: 'completed' },
    events: [held('a'), 'step.rejected a', ran('b')],
    receipts: 'a require_approval require_approval rejected, b allow - completed',
    calls: { b: 1 },
  },
  '`on_error: continue`: expired': {
    rules: [onPath('require_approval', 'a', { expires_after_seconds: 1 })],
    steps: [read('a', 'a', goOn), read('b', 'b{{a.output.text}}')],
    states: { run: 'completed', a: 'expired', b: 'completed' },
    events: [held('a'), 'step.expired a', ran('b')],
    receipts: 'a require_approval require_approval expired, b allow - completed',
    calls: { b: 1 },
  },
  'a denial ends the run': {
    rules: [onPath('deny', 'aa')],
    steps: [read('s', 'a'), read('a', '{{s.output.text}}a'), read('b', 'b{{a.output.text}}')],
    states: { run: 'denied', a: 'denied', b: 'cancelled', s: 'completed' },
    reason: 'step `a` ended the run: Rule `deny` denies `file_read` because `path` is `aa`.',
    events: [ran('s'), 'step.decided a, step.denied a'],
    receipts: 's allow - completed, a deny deny denied',
    calls: { a: 1 },
  },
  'a rejection ends the run': {
    rules: [onPath('require_approval', 'a')],
    votes: ['reject'],
    steps: [read('a', 'a'), read('b', 'b{{a.output.text}}')],
    states: { run: 'rejected', a: 'rejected', b: 'cancelled' },
    reason: 'step `a` ended the run: `admin@countersign.test` rejected it',
    events: [held('a'), 'step.rejected a'],
    receipts: 'a require_approval require_approval rejected',
    calls: {},
  },
  'held, approved': {
    rules: [onPath('require_approval', 'a')],
    votes: ['approve'],
    steps: [read('s', 's'), read('a', 'a', { depends_on: ['s'] })],
    states: { run: 'completed', s: 'completed', a: 'completed' },
    events: [ran('s'), held('a'), ran('a')],
    receipts: 's allow - completed, a require_approval require_approval completed',
    calls: { s: 1, a: 1 },
  },
}

const ofItems: Record<string, Case> = {
  '`for_each`: an item': {
    steps: [read('e', '{{item}}{{index}}', { for_each: ['x'] })],
    states: { run: 'completed', e: 'completed' },
    events: ['step.started e, step.decided e#0, step.completed e#0, step.completed e'],
    receipts: 'e#0 allow - completed',
    calls: { x0: 1 },
  },
  '`for_each`: nothing': {
    steps: [read('e', '{{item}}', { for_each: [] }), read('b', 'b', { depends_on: ['e'] })],
    states: { run: 'completed', b: 'completed', e: 'completed' },
    nodes: '1/0',
    events: ['step.started e, step.completed e', ran('b')],
    receipts: 'b allow - completed',
    calls: { b: 1 },
  },
  '`for_each`: all skipped': {
    steps: [
      read('e', '{{item}}', { for_each: ['x'], when: is('{{item}}', 'y') }),
      read('b', 'b{{e.output[0].text}}'),
    ],
    states: { run: 'completed', b: 'completed', e: 'skipped' },
    events: ['step.started e, step.skipped e#0, step.skipped e', ran('b')],
    receipts: 'b allow - completed',
    calls: { b: 1 },
  },
  '`for_each`: held, approved': {
    rules: [onPath('require_approval', 'x')],
    votes: ['approve'],
    steps: [read('e', '{{item}}', { for_each: ['x'] })],
    states: { run: 'completed', e: 'completed' },
    events: ['step.started e', held('e#0'), 'step.decided e#0, step.completed e#0, step.completed e'],
    receipts: 'e#0 require_approval require_approval completed',
    calls: { x: 1 },
  },
  '`for_each`: held, rejected': {
    rules: [onPath('require_approval', 'x')],
    votes: ['reject'],
    steps: [read('e', '{{item}}', { for_each: ['x'] }), read('b', 'b', { depends_on: ['e'] })],
    states: { run: 'rejected', b: 'cancelled', e: 'rejected' },
    reason: 'step `e` was rejected at item 0 of 1 (counted from 0): `admin@countersign.test` rejected it',
    events: ['step.started e', held('e#0'), 'step.rejected e#0, step.rejected e'],
    receipts: 'e#0 require_approval require_approval rejected',
    calls: {},
  },
  '`for_each`: held, rejected, goes on': {
    rules: [onPath('require_approval', 'x')],
    votes: ['reject'],
    steps: [read('e', '{{item}}', { for_each: ['x'], ...goOn }), read('b', 'b{{e.output[0].text}}')],
    states: { run: 'completed', b: 'completed', e: 'rejected' },
    events: ['step.started e', held('e#0'), 'step.rejected e#0, step.rejected e', ran('b')],
    receipts: 'e#0 require_approval require_approval rejected, b allow - completed',
    calls: { b: 1 },
  },
  '`for_each`: held, expired': {
    rules: [onPath('require_approval', 'x', { expires_after_seconds: 1 })],
    steps: [read('e', '{{item}}', { for_each: ['x'] })],
    states: { run: 'expired', e: 'expired' },
    reason: 'step `e` expired at item 0 of 1 (counted from 0): nobody approved it in time',
    events: ['step.started e', held('e#0'), 'step.expired e#0, step.expired e'],
    receipts: 'e#0 require_approval require_approval expired',
    calls: {},
  },
  '`for_each`: denied': {
    rules: [onPath('deny', 'ax')],
    steps: [read('a', 'a'), read('e', '{{a.output.text}}{{item}}', { for_each: ['x'] })],
    states: { run: 'denied', a: 'completed', e: 'denied' },
    reason:
      'step `e` was denied at item 0 of 1 (counted from 0): Rule `deny` denies `file_read` because `path` is `ax`.',
    events: [ran('a'), 'step.started e, step.decided e#0, step.denied e#0, step.denied e'],
    receipts: 'a allow - completed, e#0 deny deny denied',
    calls: { a: 1 },
  },
  '`for_each`: failed, goes on': {
    steps: [read('e', '{{item}}', { for_each: ['fail'], ...goOn }), read('b', 'b{{e.output[0].text}}')],
    states: { run: 'completed', b: 'completed', e: 'failed' },
    events: ['step.started e, step.decided e#0, step.failed e#0, step.failed e', ran('b')],
    receipts: 'e#0 allow - failed, b allow - completed',
    calls: { fail: 1, b: 1 },
  },
  '`for_each`: no list': {
    steps: [read('a', 'a'), read('e', '{{item}}', { for_each: '{{a.output.text}}' })],
    states: { run: 'failed', a: 'completed', e: 'failed' },
    reason: 'step `e` ended the run: `for_each` must resolve to a list, and it resolved to text',
    events: [ran('a'), 'step.failed e'],
    receipts: 'a allow - completed',
    calls: { a: 1 },
  },
  '`for_each`: no list, goes on': {
    steps: [
      read('a', 'a'),
      read('e', '{{item}}', { for_each: '{{a.output.text}}', ...goOn }),
      read('b', 'b', { depends_on: ['e'] }),
    ],
    states: { run: 'completed', a: 'completed', b: 'completed', e: 'failed' },
    events: [ran('a'), 'step.failed e', ran('b')],
    receipts: 'a allow - completed, b allow - completed',
    calls: { a: 1, b: 1 },
  },
  '`for_each`: one of each kind': {
    rules: [onPath('require_approval', 'hold')],
    votes: ['approve'],
    steps: [
      read('e', '{{item}}', {
        for_each: ['ok', 'hold', 'fail', 'skip'],
        ...goOn,
        when: { value: '{{item}}', operator: 'not_equals', compare: 'skip' },
      }),
      read('b', 'b{{e.output[1].text}}{{e.output[2].text}}'),
    ],
    states: { run: 'completed', b: 'completed', e: 'failed' },
    events: [
      'step.started e, step.decided e#2, step.decided e#0, step.failed e#2, step.skipped e#3, step.completed e#0',
      held('e#1'),
      'step.decided e#1, step.completed e#1, step.failed e',
      ran('b'),
    ],
    receipts:
      'e#2 allow - failed, e#0 allow - completed, e#1 require_approval require_approval completed, b allow - completed',
    calls: { fail: 1, ok: 1, hold: 1, bhold: 1 },
    sideBySide: true,
  },
}

export const stepCases = { ...ofOneCall, ...ofItems }

import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import { cancelRun } from '../../src/governance/runs/end/cancel.ts'
import { readRun } from '../governance/runs/whole-run.ts'
import { approvalsOf, denyRule, eventsOf, holdRule, runOf } from '../governance/runs/engine-fixture.ts'
import { until } from '../stack/until.ts'
import { mail, read, useTestStack, type FakeReads, type Stack } from './worker-fixture.ts'

let stack: Stack
let reads: FakeReads
useTestStack((...both) => ([stack, reads] = both))

const start = (...steps: object[]) => stack.run({ steps })

describe('a graph of steps', () => {
  test('runs in the order of its dependencies, whatever the order of its declaration', async () => {
    const runId = await start(
      read('c', '{{b.output.text}}c'),
      read('b', '{{a.output.text}}b', { depends_on: ['a'] }),
      read('a', 'a'),
    )
    expect(await stack.ended(runId)).toEqual({
      run: 'completed',
      a: 'completed',
      b: 'completed',
      c: 'completed',
    })
    expect([...reads.calls.keys()]).toEqual(['a', 'ab', 'abc'])
    const run = await runOf(stack.context, runId)
    expect(run).toMatchObject({ nodes_executed: 3, nodes_failed: 0 })
    // One audit entry tells how the run ended, and who had requested it.
    const { rows } = await stack.context.pool.query<{ entry: unknown }>(
      `select canonical::jsonb as entry from audit_events
       where canonical::jsonb->>'run_id' = $1 and canonical::jsonb->>'action' = 'finish'`,
      [runId],
    )
    expect(rows.map(({ entry }) => entry)).toEqual([
      expect.objectContaining({
        event_type: 'workflow.execute',
        status: 'completed',
        user_id: run.requested_by,
        duration_ms: expect.any(Number),
        metadata: expect.objectContaining({ nodes_executed: 3, api_key_id: run.api_key_id }),
      }),
    ])
  })

  test('runs branches at the same time', async () => {
    const runId = await start(read('a', 'wait-a'), read('b', 'wait-b'), read('c', 'wait-c'))
    await until('3 reads wait', () => reads.waiting() === 3)
    reads.release()
    expect(await stack.ended(runId)).toMatchObject({ run: 'completed' })
  })

  test('a failing branch ends the run: a held call is withdrawn, a running read is cancelled', async () => {
    await stack.rules(holdRule())
    const runId = await start(mail('held'), read('long', 'wait'), read('bad', 'fail', { depends_on: ['gate'] }), read('gate', 'deaf')) // prettier-ignore
    const approval = await stack.held(runId)
    await until('2 reads wait', () => reads.waiting() === 2)
    reads.release('deaf')
    expect(await stack.ended(runId)).toEqual({
      run: 'failed',
      held: 'cancelled',
      long: 'cancelled',
      bad: 'failed',
      gate: 'completed',
    })
    expect((await approvalsOf(stack.context, runId))[0]).toMatchObject({ id: approval, status: 'cancelled' })
    expect(stack.sink.count('held')).toBe(0)
    expect((await runOf(stack.context, runId)).status_reason).toBe(
      'step `bad` ended the run: it cannot be read',
    )
    expect((await eventsOf(stack.context, runId)).at(-1)).toBe('run.failed')
  })

  test('`on_error: continue` continues with null, also after a denied step', async () => {
    await stack.rules(denyRule({ params: [{ param: 'subject', operator: 'equals', value: 'src' }] }))
    const runId = await start(
      read('bad', 'fail', { on_error: 'continue' }),
      { ...mail('denied', { on_error: 'continue', depends_on: ['bad'] }), params: { to: 'a@b.test', subject: '{{src.output.text}}', text: 'x' } }, // prettier-ignore
      read('src', 'src'),
      read('last', 'x{{bad.output.text}}', { depends_on: ['denied'] }),
    )
    expect(await stack.ended(runId)).toMatchObject({
      run: 'completed',
      bad: 'failed',
      denied: 'denied',
      last: 'completed',
    })
    expect(reads.calls.has('x')).toBe(true)
    expect(await runOf(stack.context, runId)).toMatchObject({ nodes_executed: 2, nodes_failed: 2 })
  })

  test('`outputs` has every step that ended: null without an output, an empty list for a `for_each` over nothing', async () => {
    const runId = await start(
      read('done', 'a'),
      read('bad', 'fail', { on_error: 'continue' }),
      read('skipped', 'b', { when: { value: '{{done.output.text}}', operator: 'equals', compare: 'other' } }),
      read('none', '{{item}}', { for_each: [] }),
    )
    await stack.ended(runId)
    const run = await readRun(stack.context, stack.organizationId, runId)
    expect(run?.outputs).toEqual({ done: expect.anything(), bad: null, skipped: null, none: [] })
  })

  test('a step denied during the run ends the run as denied', async () => {
    await stack.rules(denyRule({ params: [{ param: 'subject', operator: 'equals', value: 'secret' }] }))
    const runId = await start(read('a', 'secret'), {
      ...mail('m'),
      params: { to: 'a@b.test', subject: '{{a.output.text}}', text: 'x' },
    })
    expect(await stack.ended(runId)).toEqual({ run: 'denied', a: 'completed', m: 'denied' })
    expect(stack.sink.count('secret')).toBe(0)
  })
})

describe('options of a step', () => {
  test('`when` skips a step if it is false; its dependents continue', async () => {
    const runId = await start(
      read('a', 'a'),
      read('no', 'no', { when: { value: '{{a.output.text}}', operator: 'equals', compare: 'b' } }),
      read('yes', 'yes', { when: { value: '{{a.output.text}}', operator: 'equals', compare: 'a' } }),
      read('after', 'after{{no.output.text}}'),
    )
    expect(await stack.ended(runId)).toEqual({ run: 'completed', a: 'completed', no: 'skipped', yes: 'completed', after: 'completed' }) // prettier-ignore
    expect(reads.calls.has('no')).toBe(false)
  })

  test('`retry` repeats failures that may pass, up to the given number', async () => {
    const retry = { attempts: 2, backoff_seconds: 0 }
    expect(await stack.ended(await start(read('a', 'flaky-1', { retry })))).toMatchObject({
      run: 'completed',
    })
    const once = { attempts: 1, backoff_seconds: 0 }
    expect(await stack.ended(await start(read('a', 'flaky-2', { retry: once })))).toMatchObject({
      run: 'failed',
    })
    expect(await stack.ended(await start(read('a', 'fail-3', { retry })))).toMatchObject({ run: 'failed' })
    expect(await stack.ended(await start(read('a', 'crash-4', { retry })))).toMatchObject({ run: 'failed' })
    expect(Object.fromEntries(reads.calls)).toEqual({ 'flaky-1': 2, 'flaky-2': 1, 'fail-3': 1, 'crash-4': 1 })
  })

  test('`timeout_seconds` ends a call, even one that ignores its signal', async () => {
    const retry = { attempts: 1, backoff_seconds: 0 }
    const runId = await start(
      read('a', 'wait', { timeout_seconds: 1, retry, on_error: 'continue' }),
      read('b', 'deaf', { timeout_seconds: 1, retry, on_error: 'continue' }),
    )
    expect(await stack.ended(runId)).toEqual({ run: 'completed', a: 'failed', b: 'failed' })
    const run = await readRun(stack.context, stack.organizationId, runId)
    expect(run?.steps.map((step) => step.error?.code)).toEqual(['timeout', 'timeout'])
  })

  test('`for_each` runs once per item, with its index, and returns the list of outputs', async () => {
    const runId = await start(
      read('list', 'list:x:y:z'),
      read('each', '{{index}}-{{item}}', { for_each: '{{list.output.list}}' }),
      read('after', '{{each.output[2].text}}!'),
    )
    expect(await stack.ended(runId)).toMatchObject({
      run: 'completed',
      each: 'completed',
      after: 'completed',
    })
    expect([...reads.calls.keys()].slice(1).sort()).toEqual(['0-x', '1-y', '2-z', '2-z!'])
    expect(await runOf(stack.context, runId)).toMatchObject({ nodes_executed: 5 })
    const events = await eventsOf(stack.context, runId)
    expect(events.filter((type) => type === 'step.completed')).toHaveLength(6)
  })

  test('`for_each` over an empty list, and over a value that is not a list', async () => {
    const empty = await start(read('each', '{{item}}', { for_each: [] }))
    expect(await stack.ended(empty)).toEqual({ run: 'completed', each: 'completed' })
    expect(await eventsOf(stack.context, empty)).toEqual(['run.queued', 'run.started', 'step.started', 'step.completed', 'run.completed']) // prettier-ignore
    const wrong = await start(read('a', 'a'), read('each', '{{item}}', { for_each: '{{a.output.text}}' }))
    expect(await stack.ended(wrong)).toEqual({ run: 'failed', a: 'completed', each: 'failed' })
    expect(await runOf(stack.context, wrong)).toMatchObject({
      nodes_failed: 1,
      status_reason: 'step `each` ended the run: `for_each` must resolve to a list, and it resolved to text',
    })
  })

  test('a failing item ends the step and withdraws the held ones', async () => {
    await stack.rules({ name: 'h', verdict: 'require_approval', params: [{ param: 'path', operator: 'equals', value: 'hold' }] }) // prettier-ignore
    const runId = await start(read('each', '{{item}}', { for_each: ['ok', 'hold', 'wait-fail'] }))
    await stack.held(runId)
    await until('1 reads wait', () => reads.waiting() === 1)
    reads.release()
    expect(await stack.ended(runId)).toEqual({ run: 'failed', each: 'failed' })
    expect((await approvalsOf(stack.context, runId))[0]).toMatchObject({ status: 'cancelled' })
  })

  test('with `on_error: continue` every item runs and the run goes on', async () => {
    const runId = await start(
      read('each', '{{item}}', { for_each: ['ok', 'fail', 'fine'], on_error: 'continue' }),
      read('after', '{{each.output[0].text}}{{each.output[1].text}}'),
    )
    expect(await stack.ended(runId)).toEqual({ run: 'completed', each: 'failed', after: 'completed' })
    expect(reads.calls.get('ok')).toBe(2)
    expect(await runOf(stack.context, runId)).toMatchObject({ nodes_executed: 3, nodes_failed: 1 })
  })
})

describe('held calls', () => {
  test('approval resumes from that point; finished steps never run again', async () => {
    await stack.rules(holdRule())
    const runId = await start(read('a', 'a'), mail('mail-1', { depends_on: ['a'] }))
    await stack.vote(await stack.held(runId), 'admin')
    expect(await stack.ended(runId)).toEqual({ run: 'completed', a: 'completed', 'mail-1': 'completed' })
    expect(reads.calls.get('a')).toBe(1)
    expect(stack.sink.count('mail-1')).toBe(1)
  })

  test('rejection and expiry end the run with different reasons', async () => {
    await stack.rules(holdRule({ expires_after_seconds: 1 }))
    expect(await stack.ended(await start(mail('late')))).toEqual({ run: 'expired', late: 'expired' })
    await stack.rules(holdRule())
    const runId = await start(mail('no'))
    await stack.vote(await stack.held(runId), 'admin', 'reject')
    expect(await stack.ended(runId)).toEqual({ run: 'rejected', no: 'rejected' })
    expect(stack.sink.count('late') + stack.sink.count('no')).toBe(0)
  })

  test('each item is held and approved separately', async () => {
    await stack.rules(holdRule())
    const runId = await start({ ...mail('each'), for_each: ['one@b.test', 'two@b.test'], params: { to: '{{item}}', subject: 'item-{{index}}', text: 'x' } }) // prettier-ignore
    await until('two approvals', async () => (await approvalsOf(stack.context, runId)).length === 2)
    for (const { id } of await approvalsOf(stack.context, runId)) await stack.vote(id, 'admin')
    expect(await stack.ended(runId)).toEqual({ run: 'completed', each: 'completed' })
    expect([stack.sink.count('item-0'), stack.sink.count('item-1')]).toEqual([1, 1])
  })

  test('a run cancelled while it waits, and one cancelled while it reads', async () => {
    await stack.rules(holdRule())
    const waiting = await start(mail('never'))
    await stack.held(waiting)
    const reading = await start(
      read('a', 'wait', { on_error: 'continue' }),
      read('b', 'b', { depends_on: ['a'] }),
    )
    await until('1 reads wait', () => reads.waiting() === 1)
    for (const runId of [waiting, reading])
      await cancelRun(stack.context, { caller: stack.caller('member'), runId })
    expect(await stack.ended(waiting)).toEqual({ run: 'cancelled', never: 'cancelled' })
    expect(await stack.ended(reading)).toEqual({ run: 'cancelled', a: 'cancelled', b: 'cancelled' })
    expect((await approvalsOf(stack.context, waiting))[0]).toMatchObject({ status: 'cancelled' })
  })
})

describe('a run that waits for its own approval', () => {
  beforeEach(() => stack.settings({ approval_required_from: 'high' }))
  afterEach(() => stack.settings({ approval_required_from: null }))

  test.each([
    ['approve', { run: 'completed', gated: 'completed' }],
    ['reject', { run: 'rejected', gated: 'cancelled' }],
  ] as const)('%s', async (decision, expected) => {
    const before = stack.sink.count('gated')
    const runId = await start(mail('gated'))
    expect((await runOf(stack.context, runId)).status).toBe('awaiting_approval')
    await stack.vote(await stack.held(runId), 'admin', decision)
    expect(await stack.ended(runId)).toEqual(expected)
    expect(stack.sink.count('gated') - before).toBe(decision === 'approve' ? 1 : 0)
  })

  test('low risk starts at once', async () => {
    expect(await stack.ended(await start(read('a', 'a')))).toMatchObject({ run: 'completed' })
  })
})

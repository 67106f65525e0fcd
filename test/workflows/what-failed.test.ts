import { describe, expect, test } from '@jest/globals'
import type { Viewer } from '../../src/governance/approvals/read.ts'
import { readCalls } from '../../src/governance/runs/read/calls.ts'
import { readReceipt, type ReceiptView } from '../../src/governance/runs/read/receipt.ts'
import type { StepView } from '../../src/governance/runs/read/read.ts'
import { readRunFields } from '../../src/governance/runs/read/run-parts.ts'
import { cancelRun } from '../../src/governance/runs/end/cancel.ts'
import { holdRule } from '../governance/runs/engine-fixture.ts'
import { until } from '../stack/until.ts'
import { mail, read, useTestStack, type FakeReads, type Stack } from './worker-fixture.ts'

let stack: Stack
let reads: FakeReads
useTestStack((...both) => ([stack, reads] = both))

type Name = 'admin' | 'approver' | 'member' | 'viewer'

/** The steps of a run as this person sees them. Runs belong to `member`. */
async function stepsFor(name: Name, runId: string): Promise<readonly StepView[]> {
  const viewer: Viewer = stack.caller(name)
  const fields = await readRunFields(stack.context, stack.organizationId, runId, viewer)
  return JSON.parse((await fields?.steps.text()) ?? '[]') as StepView[]
}
const callsFor = (
  name: Name,
  runId: string,
  stepId: string,
  page = { limit: 50, cursor: null as string | null },
) => readCalls(stack.context, stack.caller(name), { runId, stepId }, page)

const twice = { attempts: 2, backoff_seconds: 3_600 }
/** No fault is known of this code. */
const error = { code: 'file_unreadable', message: 'it cannot be read', retryable: false }

describe('items of a `for_each` that failed', () => {
  test('are listed with place, error and value, the first 20; the others are counted', async () => {
    const items = Array.from({ length: 30 }, (_, at) => (at < 5 ? `ok-${at}` : `fail-${at}`))
    const runId = await stack.run({
      steps: [read('each', '{{item}}', { for_each: items, on_error: 'continue' })],
    })
    expect(await stack.ended(runId)).toEqual({ run: 'completed', each: 'failed' })
    const [step] = await stepsFor('member', runId)
    expect(step?.failed_items).toEqual(
      items.slice(5, 25).map((value, at) => ({ item_index: at + 5, status: 'failed', error, value })),
    )
    expect(step?.more_failed_items).toBe(5)
    expect(await stepsFor('admin', runId)).toEqual([step])
    const [seen] = await stepsFor('viewer', runId)
    expect(seen?.failed_items[0]).toEqual({ item_index: 5, status: 'failed', error })
  })

  test('give the reason of the run: the first of them, and its error without values', async () => {
    const items = ['ok-0', 'ok-1', 'ok-2', 'fail-3', 'ok-4', 'fail-5']
    const runId = await stack.run({ steps: [read('each', '{{item}}', { for_each: items })] })
    expect(await stack.ended(runId)).toEqual({ run: 'failed', each: 'failed' })
    const run = await stack.context.db
      .selectFrom('runs')
      .select('status_reason')
      .where('id', '=', runId)
      .executeTakeFirstOrThrow()
    expect(run.status_reason).toBe('step `each` failed at item 3 of 6 (counted from 0): it cannot be read')
  })

  test('have their value if their parameters could not be made, and a large value by its size', async () => {
    const items = [{ name: 'n' }, { id: 1, text: 'x'.repeat(3_000) }]
    const runId = await stack.run({
      steps: [read('each', '{{item.path}}', { for_each: items, on_error: 'continue' })],
    })
    expect(await stack.ended(runId)).toEqual({ run: 'completed', each: 'failed' })
    const [step] = await stepsFor('member', runId)
    expect(step?.failed_items.map(({ error, value }) => [error.code, value])).toEqual([
      ['template_unresolved', { name: 'n' }],
      ['template_unresolved', { truncated: true, size: JSON.stringify(items[1]).length }],
    ])
  })
})

describe('the parameters of calls', () => {
  test('are shown to the requester and to admins, in pages', async () => {
    const runId = await stack.run({ steps: [read('each', 'p-{{item}}', { for_each: ['x', 'y', 'z'] })] })
    await stack.ended(runId)
    const page = await callsFor('member', runId, 'each', { limit: 2, cursor: null })
    expect(page.data).toMatchObject([
      { item_index: 0, status: 'completed', attempts: 1, params: { path: 'p-x' }, item: 'x', error: null },
      { item_index: 1, params: { path: 'p-y' }, item: 'y' },
    ])
    const rest = await callsFor('approver', runId, 'each', { limit: 2, cursor: page.next_cursor })
    expect(rest).toMatchObject({ data: [{ item_index: 2, params: { path: 'p-z' } }], next_cursor: null })
    const { data } = await callsFor('viewer', runId, 'each')
    expect(data).toHaveLength(3)
    for (const call of data) {
      expect(call).not.toHaveProperty('params')
      expect(call).not.toHaveProperty('item')
    }
    await expect(callsFor('member', runId, 'none')).rejects.toMatchObject({ code: 'not_found' })
  })

  test('of a step without `for_each` are those of its one call', async () => {
    const runId = await stack.run({ steps: [read('a', 'a'), read('b', '{{a.output.text}}b')] })
    await stack.ended(runId)
    expect(await callsFor('member', runId, 'b')).toMatchObject({
      data: [{ item_index: null, params: { path: 'ab' } }],
      next_cursor: null,
    })
  })
})

test('while a call is tried again its step shows the last error', async () => {
  const passing = { ...error, retryable: true }
  const runId = await stack.run({
    steps: [
      read('a', 'flaky', { retry: twice }),
      read('each', '{{item}}', { retry: twice, for_each: ['ok', 'flaky-x'] }),
    ],
  })
  await until('both have failed once', async () => {
    const steps = await stepsFor('member', runId)
    return steps[0]?.error !== null && steps[1]?.failed_items.length === 1
  })
  expect(await stepsFor('member', runId)).toMatchObject([
    { status: 'running', error: passing },
    {
      status: 'running',
      failed_items: [{ item_index: 1, status: 'retry', error: passing, value: 'flaky-x' }],
    },
  ])
  await cancelRun(stack.context, { caller: stack.caller('member'), runId })
  await stack.ended(runId)
})

describe('a mail that was refused', () => {
  const refused = 'nobody@refused.test'
  const to = ['somebody@taken.test', refused]

  test('names the refused recipients to the requester and to admins, and nowhere else', async () => {
    stack.sink.behaviour = { kind: 'refuse', at: 'rcpt', code: 550, only: refused }
    const runId = await stack.run({ steps: [mail('m', { params: { to, subject: 's', text: 't' } })] })
    expect(await stack.ended(runId)).toEqual({ run: 'failed', m: 'failed' })
    const detail = { refused_recipients: [{ address: refused, answer: 550 }] }
    const ofMail = {
      code: 'mail_recipients_refused',
      message: expect.stringContaining('1 of 2 recipients'),
      fault: 'caller',
      retryable: false,
    }
    for (const name of ['member', 'admin'] as const) {
      expect(await stepsFor(name, runId)).toMatchObject([{ error: { ...ofMail, detail } }])
      expect((await callsFor(name, runId, 'm')).data).toMatchObject([{ error: { ...ofMail, detail } }])
    }
    const others = JSON.stringify([await stepsFor('viewer', runId), await callsFor('viewer', runId, 'm')])
    expect(others).toContain('mail_recipients_refused')
    expect(others).not.toContain(refused)
    const { rows } = await stack.context.pool.query<{ text: string }>(
      `select canonical as text from audit_events
       union all select data::text from run_events where run_id = $1
       union all select (to_jsonb(e) - 'params_sealed')::text from effects e where run_id = $1
       union all select to_jsonb(s)::text from run_steps s where run_id = $1`,
      [runId],
    )
    expect(rows.filter(({ text }) => text.includes(refused))).toEqual([])
    const history = JSON.stringify(await stack.client.workflow.getHandle(runId).fetchHistory())
    expect(history).not.toContain(refused)
    expect(history).not.toContain(Buffer.from(refused).toString('base64').slice(0, 16))
  })

  test('has no value in the run if its parameters take more than 16 KiB: the list of calls has them', async () => {
    stack.sink.behaviour = { kind: 'refuse', at: 'rcpt', code: 550, only: refused }
    const body = 'y'.repeat(17_000)
    const each = (id: string, text: string) =>
      mail(id, {
        params: { to: refused, subject: '{{item}}', text },
        for_each: ['one'],
        on_error: 'continue',
      })
    const runId = await stack.run({ steps: [each('small', 'x'), each('large', body)] })
    expect(await stack.ended(runId)).toEqual({ run: 'completed', small: 'failed', large: 'failed' })
    const values = (await stepsFor('member', runId)).map(({ id, failed_items: [item] }) => [id, item?.value])
    expect(values).toEqual([
      ['small', 'one'],
      ['large', undefined],
    ])
    expect((await callsFor('member', runId, 'large')).data).toMatchObject([
      { item: 'one', params: { text: body } },
    ])
  })

  test('has no details of an attempt before', async () => {
    stack.sink.behaviour = { kind: 'refuse', at: 'rcpt', code: 450, only: refused }
    const retry = { attempts: 2, backoff_seconds: 1 }
    const runId = await stack.run({ steps: [mail('m', { retry, params: { to, subject: 's', text: 't' } })] })
    await until('the first attempt was refused', async () => {
      const [step] = await stepsFor('member', runId)
      return step?.error?.detail !== undefined
    })
    stack.sink.behaviour = { kind: 'accept' }
    expect(await stack.ended(runId)).toEqual({ run: 'completed', m: 'completed' })
    expect(await stepsFor('member', runId)).toMatchObject([{ error: null }])
    expect((await callsFor('member', runId, 'm')).data).toMatchObject([{ error: null, attempts: 2 }])
  })
})

test('a receipt shows an approved call once, and how its earlier attempt ended', async () => {
  await stack.rules(holdRule({ tools: ['file_read'] }))
  const retry = { attempts: 2, backoff_seconds: 0 }
  const runId = await stack.run({ steps: [read('a', 'flaky-a', { retry })] })
  const approvalId = await stack.held(runId)
  await stack.vote(approvalId, 'approver')
  expect(await stack.ended(runId)).toEqual({ run: 'completed', a: 'completed' })
  const parts = await readReceipt(stack.context.db, stack.organizationId, runId)
  const { decisions } = JSON.parse(await parts.text()) as ReceiptView
  expect(decisions.map(({ seq, outcome }) => [seq, outcome])).toEqual([
    [2, 'failed'],
    [3, 'completed'],
  ])
  for (const { approval, held_at: held } of decisions) {
    expect(approval).toMatchObject({ id: approvalId, votes: [{ decision: 'approve' }] })
    expect(held).toEqual(expect.any(String))
  }
  expect(reads.calls.get('flaky-a')).toBe(2)
})

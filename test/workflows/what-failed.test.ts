import { afterEach, describe, expect, test } from '@jest/globals'
import type { Viewer } from '../../src/governance/access/viewer.ts'
import { readCalls } from '../../src/governance/runs/read/calls.ts'
import {
  readReceipt,
  type ReceiptView,
  type ReceiptDecision,
} from '../../src/governance/runs/read/receipt.ts'
import type { StepView } from '../../src/governance/runs/read/read.ts'
import { readRunFields } from '../../src/governance/runs/read/run-parts.ts'
import { holdRule } from '../governance/runs/engine-fixture.ts'
import { create, forgetAll } from '../governance/rules/policy-calls.ts'
import { until } from '../stack/until.ts'
import { mail, read, useTestStack, type FakeReads, type Stack } from './worker-fixture.ts'
import { workflowDefinition } from '../../src/contract/definition.ts'
import type { DomainError } from '../../src/governance/errors.ts'
import { createRoleOverride } from '../../src/governance/rules/role-overrides.ts'
import { acceptRun } from '../../src/governance/runs/start/accept.ts'
import { previewRun, type Preview } from '../../src/governance/runs/start/preview.ts'
import { createWorkflow } from '../../src/governance/workflows/workflows.ts'
import { type JsonObject, rank, type Verdict } from '../../src/policy/types.ts'

let stack: Stack
let reads: FakeReads
useTestStack((...both) => ([stack, reads] = both))

async function receiptOf(runId: string): Promise<readonly ReceiptDecision[]> {
  const parts = await readReceipt(stack.context.db, stack.organizationId, runId)
  return (JSON.parse(await parts.text()) as ReceiptView).decisions
}

type Name = 'admin' | 'approver' | 'member' | 'viewer'

/** The steps of a run as this person sees them. Runs belong to `member`. */
async function stepsFor(name: Name, runId: string): Promise<readonly StepView[]> {
  const viewer: Viewer = stack.caller(name)
  const fields = await readRunFields(stack.context, viewer, runId)
  return JSON.parse((await fields?.steps.text()) ?? '[]') as StepView[]
}
const callsFor = (
  name: Name,
  runId: string,
  stepId: string,
  page = { limit: 50, cursor: null as string | null },
) => readCalls(stack.context, stack.caller(name), { runId, stepId }, page)

const each = (for_each: readonly unknown[], over: object = {}) =>
  stack.run({ steps: [read('each', '{{item}}', { for_each, ...over })] })
const twice = { attempts: 2, backoff_seconds: 3_600 }
/** No fault is known of this code. */
const error = { code: 'file_unreadable', message: 'it cannot be read', retryable: false }

describe('items of a `for_each` that failed', () => {
  test('are listed with place, error and value, the first 20; the others are counted', async () => {
    const items = Array.from({ length: 30 }, (_, at) => (at < 5 ? `ok-${at}` : `fail-${at}`))
    const runId = await each(items, { on_error: 'continue' })
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
    const runId = await each(items)
    expect(await stack.ended(runId)).toEqual({ run: 'failed', each: 'failed' })
    expect((await stack.runOf(runId)).status_reason).toBe(
      'step `each` failed at item 3 of 6 (counted from 0): it cannot be read',
    )
  })

  test('have their value if their parameters could not be made, and a large value by its size', async () => {
    const items = [{ name: 'n' }, { id: 1, text: 'x'.repeat(3_000) }]
    const runId = await each(items, { on_error: 'continue', params: { path: '{{item.path}}' } })
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
    const runId = await each(['x', 'y', 'z'], { params: { path: 'p-{{item}}' } })
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
  await stack.cancel(runId)
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
    const one = { for_each: ['one'], on_error: 'continue' }
    const ofSize = (id: string, text: string) =>
      mail(id, { ...one, params: { to: refused, subject: '{{item}}', text } })
    const runId = await stack.run({ steps: [ofSize('small', 'x'), ofSize('large', body)] })
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
  const decisions = await receiptOf(runId)
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

/* The verdicts of a real run's receipt, compared with those of its previews, with inputs and without. */
describe('a real run and its previews, with inputs and without, agree:', () => {
  interface Row {
    readonly inputs?: JsonObject
    readonly steps: readonly object[]
    readonly rules?: readonly object[]
    readonly policies?: readonly object[]
    /** Tools that an override blocks for the requester's role. */
    readonly blocked?: readonly string[]
    readonly defaultAccess?: 'deny'
    readonly approves?: boolean
    /** The verdicts in the receipt, by step; `run_denied` if the run is refused. */
    readonly verdicts: Readonly<Record<string, readonly Verdict[]>> | 'run_denied'
  }

  const mail = (id: string, to: string, more: object = {}) => ({
    id,
    tool: 'mail_send',
    params: { to, subject: 's', text: 't', ...more },
  })
  const keep = { id: 'keep', tool: 'memory_set', params: { key: 'k', value: '{{input.v}}' } }
  const when = (param: string, value: string, verdict = 'deny') => ({
    name: `${verdict} ${value}`,
    verdict,
    params: [{ param, operator: 'equals', value }],
  })
  const acme = { tool_name: 'mail_send', restrictions: { allowed_domains: ['acme.com'] } }

  const rows: Record<string, Row> = {
    'a known parameter is denied': {
      steps: [read('a', 'a'), read('b', 'b')],
      rules: [when('path', 'b')],
      verdicts: 'run_denied',
    },
    'an input is denied': {
      inputs: { v: 'x' },
      steps: [read('a', '{{input.v}}')],
      rules: [when('path', 'x')],
      verdicts: 'run_denied',
    },
    'an input is not denied': {
      inputs: { v: 'y' },
      steps: [read('a', '{{input.v}}'), keep],
      rules: [when('path', 'x')],
      verdicts: { a: ['allow'], keep: ['allow'] },
    },
    'an output is denied': {
      steps: [read('a', 'a'), read('b', '{{a.output.text}}b')],
      rules: [when('path', 'ab')],
      verdicts: { a: ['allow'], b: ['deny'] },
    },
    'labels hold a mail': {
      inputs: { v: 'a@acme.com' },
      steps: [read('a', 'a'), mail('m', '{{input.v}}', { text: '{{a.output.text}}' })],
      rules: [
        {
          name: 'internal',
          verdict: 'require_approval',
          side_effects: ['egress'],
          labels: { any_of: ['internal'] },
        },
      ],
      approves: true,
      verdicts: { a: ['allow'], m: ['require_approval'] },
    },
    'the source of a parameter is denied': {
      steps: [read('a', 'a'), mail('m', 'a@acme.com', { text: '{{a.output.text}}', subject: 'x' })],
      rules: [
        {
          name: 'from',
          verdict: 'deny',
          tools: ['mail_send'],
          params: [{ param: 'text', operator: 'from_label', value: ['internal'] }],
        },
      ],
      verdicts: 'run_denied',
    },
    'items, some denied': {
      steps: [
        read('a', 'y'),
        read('e', 'p-{{item}}', { for_each: ['x', '{{a.output.text}}'], on_error: 'continue' }),
      ],
      rules: [when('path', 'p-y')],
      verdicts: { a: ['allow'], e: ['allow', 'deny'] },
    },
    'a condition that holds in the run': {
      steps: [
        read('a', 'a'),
        read('b', 'b', { when: { value: '{{a.output.text}}', operator: 'equals', compare: 'a' } }),
      ],
      rules: [when('path', 'b')],
      verdicts: { a: ['allow'], b: ['deny'] },
    },
    'a limit that an input keeps': {
      inputs: { v: 'a@acme.com' },
      steps: [mail('m', '{{input.v}}')],
      policies: [acme],
      verdicts: { m: ['allow'] },
    },
    'a limit that an output breaks': {
      steps: [read('a', 'a@evil.test'), mail('m', '{{a.output.text}}')],
      policies: [acme],
      verdicts: { a: ['allow'], m: ['deny'] },
    },
    'limits of organization and role together': {
      steps: [read('a', 'longer'), mail('m', 'a@acme.com', { text: '{{a.output.text}}' })],
      policies: [acme, { tool_name: 'mail_send', role: 'member', restrictions: { max_message_length: 5 } }],
      verdicts: { a: ['allow'], m: ['deny'] },
    },
    'an override that blocks': {
      inputs: { v: 'x' },
      steps: [keep],
      blocked: ['memory_set'],
      verdicts: 'run_denied',
    },
    'a tool without a policy where the default is deny': {
      inputs: { v: 'x' },
      steps: [read('a', 'a'), keep],
      policies: [{ tool_name: 'file_read', allowed: true }],
      defaultAccess: 'deny',
      verdicts: 'run_denied',
    },
    'a policy that allows, and a rule that holds': {
      steps: [read('a', 'a')],
      policies: [{ tool_name: 'file_read', allowed: true, role: 'member' }],
      rules: [when('path', 'a', 'require_approval')],
      defaultAccess: 'deny',
      approves: true,
      verdicts: { a: ['require_approval'] },
    },
  }

  /** Saves the row's settings of tools. */
  async function saveAccess({ policies = [], blocked = [], defaultAccess }: Row): Promise<void> {
    for (const policy of policies) await create(stack, policy)
    for (const tool_name of blocked)
      await createRoleOverride(
        stack.context,
        stack.caller('owner'),
        { tool_name, role: 'member', allowed: false },
        null,
      )
    if (defaultAccess !== undefined) await stack.settings({ default_tool_access: defaultAccess })
  }

  /** The decisions of the receipt that the preview had excluded. */
  function contradictions(preview: Preview, receipt: readonly ReceiptDecision[]): string[] {
    return preview.steps.flatMap((step) => {
      const own = receipt.filter(({ step_id }) => step_id === step.step_id)
      if (own.length === 0) return []
      const strictest = own.reduce<Verdict>(
        (most, { verdict }) => (rank[verdict] > rank[most] ? verdict : most),
        'allow',
      )
      const { definite, possible, others_from } = step.labels
      const matched = new Set(step.rules.map((rule) => rule.rule_id))
      const checks: [boolean, string][] = [
        [rank[strictest] >= rank[step.at_least], `${strictest} is below ${step.at_least}`],
        [rank[strictest] <= rank[step.verdict], `${strictest} is above ${step.verdict}`],
        [step.certainty === 'possible' || strictest === step.verdict, `${strictest} is not ${step.verdict}`],
        [step.role_policy?.certainty !== 'definite' || strictest === 'deny', 'the policy has not denied it'],
        ...own.flatMap(({ labels, matched_rules, verdict, rule_id, explanation }): [boolean, string][] => [
          [definite.every((label) => labels.includes(label)), 'a definite label is missing'],
          [
            others_from.length > 0 || labels.every((label) => possible.includes(label)),
            'a label is not possible',
          ],
          ...matched_rules.map(({ id }): [boolean, string] => [matched.has(id), `${id} has matched`]),
          [
            verdict !== 'deny' || rule_id !== null || explanation === step.role_policy?.explanation,
            'a policy has denied it for another reason',
          ],
        ]),
      ]
      return checks.flatMap(([holds, what]) => (holds ? [] : [`${step.step_id}: ${what}`]))
    })
  }

  afterEach(async () => {
    await forgetAll(stack)
    await stack.settings({ default_tool_access: 'allow' })
  })

  test.each(Object.entries(rows))('%s', async (_, row) => {
    const { context } = stack
    const caller = stack.caller('member')
    await stack.rules(...(row.rules ?? []))
    await saveAccess(row)
    const inputs = { v: { type: 'string', default: '' } }
    const definition = workflowDefinition.parse({ inputs, steps: row.steps })
    const body = { name: 'w', description: '', definition }
    const { id: workflowId } = await createWorkflow(context, caller, body)
    const request = { caller, workflowId, inputs: row.inputs ?? {} }
    const known = await previewRun(context, request)
    const unknown = await previewRun(context, { ...request, inputs: undefined })
    const accepted = await acceptRun(context, request).catch((error: DomainError) => error.code)
    // A run is refused exactly if its preview says so. Without inputs, a preview may promise less.
    expect(known.executable).toBe(typeof accepted !== 'string')
    if (!unknown.executable) expect(accepted).toBe('run_denied')
    if (typeof accepted === 'string') {
      expect(accepted).toBe(row.verdicts)
      return
    }
    if (row.approves === true) await stack.vote(await stack.held(accepted.runId), 'admin')
    await stack.ended(accepted.runId)
    const receipt = await receiptOf(accepted.runId)
    const verdicts = Object.fromEntries(
      [...Map.groupBy(receipt, ({ step_id }) => step_id ?? '')].map(([step, own]) => [
        step,
        own.map(({ verdict }) => verdict).sort(),
      ]),
    )
    expect(verdicts).toEqual(row.verdicts)
    expect(contradictions(known, receipt)).toEqual([])
    expect(contradictions(unknown, receipt)).toEqual([])
  })
})

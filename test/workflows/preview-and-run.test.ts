import { expect, test } from '@jest/globals'
import { toolPolicyBody } from '../../src/api/schemas/governance.ts'
import { workflowDefinition } from '../../src/contract/definition.ts'
import type { DomainError } from '../../src/governance/errors.ts'
import { createRoleOverride, deleteRoleOverride } from '../../src/governance/rules/role-overrides.ts'
import { createToolPolicy, deleteToolPolicy } from '../../src/governance/rules/tool-policies.ts'
import {
  readReceipt,
  type ReceiptDecision,
  type ReceiptView,
} from '../../src/governance/runs/read/receipt.ts'
import { acceptRun } from '../../src/governance/runs/start/accept.ts'
import { previewRun, type Preview } from '../../src/governance/runs/start/preview.ts'
import { createWorkflow } from '../../src/governance/workflows/workflows.ts'
import { type JsonObject, rank, type Verdict } from '../../src/policy/types.ts'
import { read, useTestStack, type Stack } from './worker-fixture.ts'

/* The verdicts of a real run's receipt, compared with those of its previews, with inputs and without. */

let stack: Stack
useTestStack((started) => (stack = started))

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
  'a limit that an input breaks': {
    inputs: { v: 'a@evil.test' },
    steps: [mail('m', '{{input.v}}')],
    policies: [acme],
    verdicts: 'run_denied',
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
  'a write that may only read': {
    inputs: { v: 'x' },
    steps: [keep],
    policies: [{ tool_name: 'memory_set', role: 'member', restrictions: { read_only: true } }],
    verdicts: 'run_denied',
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

/** Saves the row's settings of tools. Returns a function that removes them. */
async function saveAccess({ policies = [], blocked = [], defaultAccess }: Row): Promise<() => Promise<void>> {
  const { context } = stack
  const owner = stack.caller('owner')
  const bodies = policies.map((each) => toolPolicyBody.parse(each))
  for (const body of bodies) await createToolPolicy(context, owner, body, null)
  for (const tool_name of blocked)
    await createRoleOverride(context, owner, { tool_name, role: 'member', allowed: false }, null)
  if (defaultAccess !== undefined) await stack.settings({ default_tool_access: defaultAccess })
  return async () => {
    for (const { tool_name, role } of bodies) await deleteToolPolicy(context, owner, tool_name, role)
    for (const tool of blocked) await deleteRoleOverride(context, owner, tool, 'member')
    await stack.settings({ default_tool_access: 'allow' })
  }
}

async function receiptOf(runId: string): Promise<readonly ReceiptDecision[]> {
  const parts = await readReceipt(stack.context.db, stack.organizationId, runId)
  return (JSON.parse(await parts.text()) as ReceiptView).decisions
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
    const must = (holds: boolean, what: string): string[] => (holds ? [] : [`${step.step_id}: ${what}`])
    const { definite, possible, others_from } = step.labels
    return [
      ...must(rank[strictest] >= rank[step.at_least], `${strictest} is below ${step.at_least}`),
      ...must(rank[strictest] <= rank[step.verdict], `${strictest} is above ${step.verdict}`),
      ...must(
        step.certainty === 'possible' || strictest === step.verdict,
        `${strictest} is not ${step.verdict}`,
      ),
      ...must(
        step.role_policy?.certainty !== 'definite' || strictest === 'deny',
        'the policy has not denied it',
      ),
      ...own.flatMap(({ labels, matched_rules, verdict, rule_id, explanation }) => [
        ...must(
          definite.every((label) => labels.includes(label)),
          'a definite label is missing',
        ),
        ...must(
          others_from.length > 0 || labels.every((label) => possible.includes(label)),
          'a label is not possible',
        ),
        ...matched_rules.flatMap(({ id }) =>
          must(
            step.rules.some((rule) => rule.rule_id === id),
            `${id} has matched`,
          ),
        ),
        ...must(
          verdict !== 'deny' || rule_id !== null || explanation === step.role_policy?.explanation,
          'a policy has denied it for another reason',
        ),
      ]),
    ]
  })
}

test.each(Object.entries(rows))('%s', async (_, row) => {
  const { context } = stack
  const caller = stack.caller('member')
  await stack.rules(...(row.rules ?? []))
  const forget = await saveAccess(row)
  try {
    const definition = workflowDefinition.parse({
      inputs: { v: { type: 'string', default: '' } },
      steps: row.steps,
    })
    const { id: workflowId } = await createWorkflow(context, caller, {
      name: 'w',
      description: '',
      definition,
    })
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
      Map.groupBy(receipt, ({ step_id }) => step_id ?? '').entries().map(([step, own]) => [step, own.map(({ verdict }) => verdict).sort()]), // prettier-ignore
    )
    expect(verdicts).toEqual(row.verdicts)
    expect(contradictions(known, receipt)).toEqual([])
    expect(contradictions(unknown, receipt)).toEqual([])
  } finally {
    await forget()
  }
})

import { describe, expect, test } from '@jest/globals'
import { z } from 'zod'
import { workflowDefinition } from '../../src/contract/definition.ts'
import { headlineWithField, readAs } from '../../src/policy/issues.ts'
import { ruleInput } from '../../src/policy/rule.ts'

const issuesOf = (schema: z.ZodType, value: unknown, options?: { quotes: boolean }) => {
  const read = readAs(schema, value, options)
  return read.ok ? [] : read.issues
}
const linesOf = (schema: z.ZodType, value: unknown) =>
  issuesOf(schema, value).map(({ path, message }) => `${path} ${message}`)

describe('readAs', () => {
  test('names every wrong and every unknown field by its path', () => {
    const schema = z.strictObject({ a: z.string(), b: z.array(z.strictObject({ c: z.int() })) })
    expect(issuesOf(schema, { b: [{ c: 1.5, d: 1 }], e: 1, f: 2 })).toEqual([
      { path: 'a', message: 'is missing' },
      { path: 'b.0.c', message: 'must be a whole number, not `1.5`' },
      { path: 'b.0.d', message: 'unknown field: write `c`' },
      { path: 'e', message: 'unknown field: write `a` or `b`' },
      { path: 'f', message: 'unknown field: write `a` or `b`' },
    ])
  })

  test('says so if an object has no fields', () => {
    expect(linesOf(z.strictObject({}), { a: 1 })).toEqual(['a unknown field: there are no fields here'])
  })

  test('of a union, shows the mistakes in the branch that was meant', () => {
    const schema = z.union([z.string(), z.array(z.int()).min(1), z.strictObject({ a: z.int() })])
    expect(linesOf(schema, { a: 'x' })).toEqual(['a must be a number, not text'])
    expect(linesOf(schema, [])).toEqual([' must have at least 1 entry'])
    expect(linesOf(schema, 7)).toEqual([' must be text, a list or an object, not a number'])
    expect(linesOf(schema, undefined)).toEqual([' is missing'])
  })

  test('is bounded', () => {
    expect(issuesOf(z.array(z.string()), Array(1000).fill(1))).toHaveLength(100)
  })

  test('shows no value where it must not', () => {
    const schema = z.strictObject({ a: z.array(z.string()), b: z.enum(['x']), c: z.int(), d: z.literal('y') })
    const secret = { a: 'secret', b: 'secret', c: 41.7, d: 12_345 }
    expect(JSON.stringify(issuesOf(schema, secret))).toContain('secret')
    expect(JSON.stringify(issuesOf(schema, secret, { quotes: false }))).not.toMatch(/secret|41\.7|12345/)
  })
})

const rule = { name: 'r', verdict: 'deny' }
const condition = (operator: string, value: unknown) => ({
  ...rule,
  params: [{ param: 'to', operator, value }],
})
const step = { id: 's', tool: 'file_read' }

test.each<[z.ZodType, unknown, string]>([
  [
    ruleInput,
    { ...rule, side_effects: 'egress' },
    'side_effects must be a list: write `[` before it and `]` after it',
  ],
  [
    ruleInput,
    { ...rule, side_effects: ['send'] },
    'side_effects.0 must be `read`, `write` or `egress`, not `send`',
  ],
  [ruleInput, { ...rule, tools: 'mail_send' }, 'tools must be a list: write `[` before it and `]` after it'],
  [ruleInput, { ...rule, labels: ['pii'] }, 'labels must be an object, not a list'],
  [ruleInput, { ...rule, labels: null }, 'labels must be an object, not null'],
  [ruleInput, { ...rule, tools: 'x'.repeat(41) }, 'tools must be a list, not text'],
  [ruleInput, condition('is', 'x'), 'params.0.operator must be `equals`, `in`, '],
  [ruleInput, condition('in', 'x'), 'params.0.value must be a list: write `[` before it and `]` after it'],
  [ruleInput, condition('exists', 'yes'), 'params.0.value must be `true` or `false`, not text'],
  [
    ruleInput,
    condition('equals', []),
    'params.0.value must be text, a number or `true` or `false`, not a list',
  ],
  [ruleInput, { name: 'r', tools: ['*'] }, 'verdict is missing: give `allow`, `require_approval` or `deny`'],
  [
    ruleInput,
    { ...rule, tools: ['*'], approvals_needed: '2' },
    'approvals_needed must be a number, not text',
  ],
  [
    ruleInput,
    { ...rule, verdict: 'require_approval', tools: ['*'], approvals_needed: 21 },
    'approvals_needed must be at most 20',
  ],
  [ruleInput, [], ' must be an object, not a list'],
  [workflowDefinition, { steps: {} }, 'steps must be a list, not an object'],
  [
    workflowDefinition,
    { steps: [{ ...step, depends_on: 'a' }] },
    'steps.0.depends_on must be a list: write `[` before it and `]` after it',
  ],
  [
    workflowDefinition,
    { steps: [{ ...step, for_each: 3 }] },
    'steps.0.for_each must be a template or a list',
  ],
  [
    workflowDefinition,
    { steps: [{ ...step, retry: { attempts: 2 } }] },
    'steps.0.retry.backoff_seconds is missing',
  ],
  [workflowDefinition, { steps: [step], inputs: { a: 'string' } }, 'inputs.a must be an object, not text'],
  [workflowDefinition, { steps: [step], inputs: [] }, 'inputs must be an object, not a list'],
])('%# one line in plain words', (schema, value, expected) => {
  const lines = linesOf(schema, value)
  expect(lines).toHaveLength(1)
  expect(lines[0]?.startsWith(expected)).toBe(true)
})

test('a headline names the first field and counts the others', () => {
  expect(headlineWithField('no', [{ path: 'a', message: 'is missing' }])).toBe('no: `a` is missing')
  expect(
    headlineWithField('no', [
      { path: 'a', message: 'unknown field: write `b`' },
      { path: 'b', message: 'x' },
    ]),
  ).toBe('no: `a` is an unknown field: write `b` (and 1 more)')
  expect(headlineWithField('no', [{ path: 'a', message: 'give one' }])).toBe('no: `a`: give one')
  expect(headlineWithField('no', [{ path: '', message: 'give one' }])).toBe('no: give one')
})

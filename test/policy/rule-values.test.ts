import { describe, expect, test } from '@jest/globals'
import { labelRuleInput } from '../../src/policy/rule.ts'
import { base, issues } from './rule-issues.ts'

/* The values that each operator of a rule takes. */

const withCondition = (operator: string, value: unknown) => ({
  ...base,
  params: [{ param: 'to', operator, value }],
})

describe('values by operator', () => {
  test.each<[string, unknown]>([
    ['equals', 'x'],
    ['equals', ''],
    ['equals', 1.5],
    ['equals', false],
    ['in', ['x', 1, true]],
    ['not_in', ['x']],
    ['contains', 'x'],
    ['contains', '<script>'],
    ['contains', 1],
    ['contains', ['x', 1]],
    ['startswith', 'x'],
    ['domain_in', ['acme.com', 'Bücher.de', '10.0.0.1']],
    ['domain_not_in', ['acme.co.uk']],
    ['exists', true],
    ['from_label', ['pii']],
  ])('%s takes %j', (operator, value) => {
    expect(issues(withCondition(operator, value))).toEqual([])
  })

  test.each<[string, unknown]>([
    ['equals', ['x']],
    ['equals', null],
    ['equals', Number.NaN],
    ['equals', 'x'.repeat(2001)],
    ['equals', 'a\u0000'],
    ['in', 'x'],
    ['in', []],
    ['in', Array(1001).fill('x')],
    ['contains', ''],
    ['contains', []],
    ['contains', ['x', '']],
    ['startswith', ''],
    ['startswith', 1],
    ['domain_in', 'acme.com'],
    ['domain_in', ['com']],
    ['domain_not_in', ['co.uk']],
    ['domain_not_in', ['github.io']],
    ['domain_in', ['a@acme.com']],
    ['exists', 'true'],
    ['from_label', ['PII']],
    ['from_label', []],
    ['not_equals', 'x'],
    ['matches', 'x'],
    ['constructor', 'x'],
  ])('%s refuses %j', (operator, value) => {
    expect(issues(withCondition(operator, value))).not.toEqual([])
  })

  test.each(['<YOUR_SHEET_ID>', ' <SHEET_ID> ', '<your-domain>', '<org_id>', '<ID>', '<your sheet>'])(
    'the placeholder %s must be replaced',
    (value) => {
      for (const body of [withCondition('equals', value), withCondition('in', ['x', value])]) {
        expect(issues(body)).toEqual([
          expect.stringMatching(/^params\.0\.value.*replace it with the real value$/),
        ])
      }
      expect(issues(withCondition('domain_in', [value]))).toEqual([expect.stringContaining('replace it')])
      const labelRule = { name: 'x', add_labels: ['y'], params: withCondition('equals', value).params }
      expect(issues(labelRule, labelRuleInput as never)).toEqual([expect.stringContaining('replace it')])
    },
  )

  test.each(['<sheet>', '<Sheet1>', '<timestamp>', '<b>'])(
    'the single word %s is a placeholder where whole values are compared, but a rule may search for it',
    (value) => {
      for (const [operator, given] of [
        ['equals', value],
        ['in', ['x', value]],
        ['not_in', [value]],
        ['domain_in', [value]],
        ['domain_not_in', [value]],
        ['from_label', [value]],
      ] as const)
        expect(issues(withCondition(operator, given))).toEqual([expect.stringContaining('replace it')])
      for (const operator of ['contains', 'startswith'])
        expect(issues(withCondition(operator, value))).toEqual([])
    },
  )

  test('a placeholder is refused in every place of a rule', () => {
    const value = '<YOUR_VALUE>'
    for (const part of [
      { tools: [value] },
      { labels: { any_of: [value] } },
      { params: [{ param: value, operator: 'exists', value: true }] },
    ]) {
      expect(issues({ name: 'x', verdict: 'deny', ...part })).toEqual([expect.stringContaining('replace it')])
      expect(issues({ name: 'x', add_labels: ['y'], ...part }, labelRuleInput as never)).toEqual([
        expect.stringContaining('replace it'),
      ])
    }
    expect(issues({ name: 'x', add_labels: [value] }, labelRuleInput as never)).toEqual([
      expect.stringContaining('replace it'),
    ])
  })

  test.each(['see <YOUR_SHEET_ID>', 'a < b > c', '<a@acme.com>'])('%s is not a placeholder', (value) => {
    expect(issues(withCondition('equals', value))).toEqual([])
  })
})

describe('the word `me`, which rules see as an address', () => {
  const asking = (condition: object, more: object = {}) => ({
    name: 'mine',
    verdict: 'deny',
    params: [{ param: 'to', operator: 'equals', value: 'me', ...condition }],
    ...more,
  })
  test.each<[object, object]>([
    [{}, {}],
    [{ value: ' me ' }, {}],
    [{ param: 'cc.0' }, {}],
    [{ operator: 'in', value: ['boss@acme.com', 'me'] }, {}],
    [{ operator: 'not_in', value: ['me'] }, {}],
    [{}, { tools: ['mail_*'] }],
    [{}, { applies_to: ['workflows', 'agents'] }],
  ])('%j %j is refused with the alternative', (condition, more) => {
    expect(issues(asking(condition, more))).toEqual([
      expect.stringMatching(
        /^params\.0\.value: in `(to|cc\.0)` of `mail_send` .*write that address, or its domain/,
      ),
    ])
  })
  test.each<[object, object]>([
    [{ value: 'Me' }, {}],
    [{ param: 'text' }, {}],
    [{ param: '*' }, {}],
    [{ operator: 'startswith' }, {}],
    [{ operator: 'contains' }, {}],
    [{ operator: 'in', value: ['me@acme.com'] }, {}],
    [{}, { tools: ['mcp__crm__send'] }],
    [{}, { applies_to: ['agents'] }],
  ])('%j %j can match', (condition, more) => {
    expect(issues(asking(condition, more))).toEqual([])
  })
  test('applies to label rules too', () => {
    const body = { name: 'x', add_labels: ['own'], params: asking({}).params }
    expect(issues(body, labelRuleInput as never)).toEqual([expect.stringContaining('never the word')])
  })
})

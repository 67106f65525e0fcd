import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { compilePolicy, decide } from '../../src/policy/decide.ts'
import { callOf } from '../../src/policy/example-calls.ts'
import { findChanges, type Change } from '../../src/policy/rule-diff.ts'
import { ruleInput, type StoredRule } from '../../src/policy/rule.ts'
import { withWiderRules } from './wider-rules.ts'

function changesBetween(from: readonly StoredRule[], to: readonly StoredRule[], most = 5_000): Change[] {
  const changes = new Map<string, Change>()
  let tried = 0
  for (const _ of findChanges({ from, to, approvalsEnabled: true }, changes)) if ((tried += 1) > most) break
  return [...changes.values()]
}
const saved = (set: string, bodies: readonly object[]): StoredRule[] =>
  bodies.map((body, index) => ({
    ...ruleInput.parse({ name: `${set} ${index}`, ...body }),
    id: `${set}_${index}`,
  }))
const found = (from: readonly object[], to: readonly object[]) =>
  changesBetween(saved('old', from), saved('new', to)).map(
    ({ from: before, to: after }) => `${before.verdict}->${after.verdict}`,
  )

const mail = { verdict: 'deny', tools: ['mail_send'] }
const param = (operator: string, value: unknown, name = 'to') => ({
  ...mail,
  params: [{ param: name, operator, value }],
})
const many = (extra: readonly string[] = []) => [...Array.from({ length: 300 }, (_, index) => `d${index}.example`), ...extra] // prettier-ignore

describe('changes are found', () => {
  const rows: [string, object[], object[], string[]][] = [
    ['no rules', [], [], []],
    ['a new rule', [], [mail], ['allow->deny']],
    ['a removed rule', [mail], [], ['deny->allow']],
    ['another verdict', [mail], [{ ...mail, verdict: 'require_approval' }], ['deny->require_approval']],
    ['another name', [mail], [{ ...mail, name: 'other' }], []],
    ['a rule that becomes a shadow', [mail], [{ ...mail, status: 'shadow' }], ['deny->allow']],
    ['a rule that allows', [], [{ ...mail, verdict: 'allow' }], []],
    ['one more tool', [mail], [{ ...mail, tools: ['mail_send', 'Bash'] }], ['allow->deny']],
    ['a protocol tool', [{ ...mail, tools: ['mcp__a__x*'] }], [{ ...mail, tools: ['mcp__a__*'] }], ['allow->deny']],
    ['a side effect', [{ ...mail, tools: undefined, side_effects: ['egress'] }], [{ ...mail, tools: undefined, side_effects: ['egress', 'write'] }], ['allow->deny']],
    ['a source', [{ ...mail, tools: ['*'], applies_to: ['agents'] }], [{ ...mail, tools: ['*'] }], ['allow->deny']],
    ['a label', [{ ...mail, labels: { any_of: ['a'] } }], [{ ...mail, labels: { any_of: ['a', 'b'] } }], ['allow->deny']],
    ['an excluded label', [{ ...mail, labels: { none_of: ['a'] } }], [mail], ['allow->deny']],
    ['one of 300 domains', [param('domain_not_in', many())], [param('domain_not_in', many(['last.example']))], ['deny->allow']],
    ['one of 300 values', [param('in', many())], [param('in', many(['last.example']))], ['allow->deny']],
    ['a longer beginning', [param('startswith', 'a')], [param('startswith', 'ab')], ['deny->allow']],
    ['equality for a part', [param('equals', 'ab', 'subject')], [param('contains', 'ab', 'subject')], ['allow->deny']],
    ['a parameter that must be there', [mail], [param('exists', true, 'cc')], ['deny->allow']],
    ['any parameter', [param('equals', 'x', 'subject')], [param('equals', 'x', '*')], ['allow->deny']],
    ['a path', [{ verdict: 'deny', params: [{ param: 'message.to', operator: 'equals', value: 'x' }] }], [], ['deny->allow']],
    ['a source of a value', [param('from_label', ['a'])], [param('from_label', ['a', 'b'])], ['allow->deny']],
    ['two rules at once', [mail], [{ ...mail, tools: ['file_read'] }], ['deny->allow', 'allow->deny']],
    ['a rule behind a stricter one', [mail], [mail, { ...param('exists', true), verdict: 'require_approval' }], []],
    ['two conditions that only fit together', [], [{ ...mail, params: [{ param: 'to', operator: 'contains', value: 'a@acme.com' }, { param: 'to', operator: 'domain_not_in', value: ['acme.com'] }] }], ['allow->deny']],
    ['a file of an agent', [], [{ verdict: 'deny', tools: ['Read'], params: [{ param: 'file_path', operator: 'startswith', value: '/etc' }] }], ['allow->deny']],
  ] // prettier-ignore
  test.each(rows)('%s', (_, from, to, expected) => expect(found(from, to).sort()).toEqual(expected.sort()))
})

test('the example is small, and names nothing that does not matter', () => {
  const from = saved('old', [{ ...mail, labels: { any_of: ['a', 'b'] } }])
  const to = saved('new', [{ ...mail, labels: { all_of: ['a', 'b'] } }, param('exists', true, 'cc')])
  expect(changesBetween(from, to).map(({ example }) => [example.labels, example.params])).toEqual(
    expect.arrayContaining([
      [['a'], {}],
      [[], { cc: 'something else' }],
    ]),
  )
})

test('each example gets both verdicts in `decide`, and equal sets have no change', () => {
  let count = 0
  fc.assert(
    fc.property(withWiderRules, ({ rules }) => {
      const half = Math.ceil(rules.length / 2)
      const [from, to] = [rules.slice(0, half), rules.slice(half)]
      expect(changesBetween(from, [...from].reverse(), 200)).toEqual([])
      for (const { from: before, to: after, example } of changesBetween(from, to, 400)) {
        count += 1
        const call = callOf(example)
        if (call === null) throw new Error('the call would be refused before any rule')
        const decided = [from, to].map((set) => {
          const { verdict, ruleId } = decide(
            compilePolicy({ rules: set, labelRules: [], approvalsEnabled: true }),
            call,
          )
          return { verdict, ruleId }
        })
        expect(decided).toEqual([before, after].map(({ verdict, ruleId }) => ({ verdict, ruleId })))
        expect(before.verdict).not.toBe(after.verdict)
      }
    }),
    { numRuns: 60 },
  )
  expect(count).toBeGreaterThan(50)
})

import fc from 'fast-check'
import type { ParamCondition } from '../../src/policy/operators/index.ts'
import type { PolicySource } from '../../src/policy/decide.ts'
import type { StoredLabelRule, StoredRule } from '../../src/policy/rule.ts'
import type { Json, Verdict } from '../../src/policy/types.ts'

export const labels = ['internal', 'confidential', 'untrusted']
const label = fc.constantFrom(...labels)
const text: fc.Arbitrary<string> = fc.constantFrom(
  'a@acme.com',
  'b@evil.net',
  'a@acme.com, b@evil.net',
  'https://acme.com/x',
  'https://evil.net/',
  'https://docs.google.com/document/d/FILE1/edit',
  'FILE1',
  'FILE',
  '',
  'hello',
  ', c@evil.net',
  'me',
  'acme/app',
  'parse repo:acme/app',
)
/** Spellings of places, and texts that no reader of places can read. */
export const place: fc.Arbitrary<string> = fc.constantFrom(
  'acme/x',
  'Acme/X',
  'https://github.com/Acme/X/issues/7',
  'https://github.com/acme/y/../x',
  '#ops',
  'ops',
  'OPS',
  'OPS-2',
  'ops-2',
  'https://jira.example/browse/ops-2',
  'https://me@jira.example/browse/OPS-2',
  'AbCdEf12',
  'https://trello.com/c/AbCdEf12',
)
const scalar = fc.oneof(
  { weight: 4, arbitrary: text },
  { weight: 1, arbitrary: place },
  { weight: 4, arbitrary: fc.constantFrom<Json>(1, 0, true, null) },
)
export const value: fc.Arbitrary<Json> = fc.oneof(
  scalar,
  fc.array(scalar, { maxLength: 2 }),
  fc.record({ email: text, name: text }, { requiredKeys: [] }) as fc.Arbitrary<Json>,
)

const param: fc.Arbitrary<string> = fc.constantFrom(
  'to',
  'body',
  'list',
  'list.email',
  'to.email',
  'list.0',
  '*',
  'gone',
)

/** Tools of the catalogue with a parameter that names a place, and two tools without one. */
export const tool = fc.constantFrom(
  'github_comment',
  'slack_send_message',
  'jira_comment',
  'trello_comment',
  'docs_read',
  'mail_send',
  'tool',
)
export const placed = ['repo', 'channel', 'issue', 'card', 'document'] as const
export function conditionOn(
  param: fc.Arbitrary<string>,
  text: fc.Arbitrary<string>,
): fc.Arbitrary<ParamCondition> {
  const texts = fc.array(text, { minLength: 1, maxLength: 2 })
  const of = (operator: ParamCondition['operator'], value: fc.Arbitrary<unknown>) =>
    fc.record({ param, operator: fc.constant(operator), value }) as fc.Arbitrary<ParamCondition>
  return fc.oneof(
    of('equals', text),
    of('in', texts),
    of('not_in', texts),
    of('contains', fc.oneof(text, texts)),
    of('startswith', text),
    of('domain_in', fc.constantFrom(['acme.com'], ['evil.net'])),
    of('domain_not_in', fc.constantFrom(['acme.com'], ['evil.net'])),
    of('exists', fc.boolean()),
    of('from_label', fc.tuple(label)),
  )
}

const condition = fc.oneof(
  { weight: 3, arbitrary: conditionOn(param, text) },
  {
    weight: 2,
    arbitrary: conditionOn(
      fc.constantFrom(...placed, 'number', '*'),
      fc.oneof(place, fc.constantFrom('acme/', 'OPS-', '#')),
    ),
  },
)

const labelConditions = fc.record(
  { any_of: fc.tuple(label), all_of: fc.tuple(label, label), none_of: fc.tuple(label) },
  { requiredKeys: [] },
)
const verdict = fc.constantFrom<Verdict>('allow', 'require_approval', 'deny')
const rule = fc
  .record({ verdict, labels: labelConditions, params: fc.array(condition, { maxLength: 2 }) })
  .map((body) => ({ ...body, status: 'active' as const }))
const labelRule = fc.record({ params: fc.array(condition, { maxLength: 1 }), add_labels: fc.tuple(label) })

export const source: fc.Arbitrary<PolicySource> = fc
  .record({
    rules: fc.array(rule, { minLength: 1, maxLength: 3 }),
    labelRules: fc.array(labelRule, { maxLength: 1 }),
    approvalsEnabled: fc.boolean(),
  })
  .map(({ rules, labelRules, approvalsEnabled }) => ({
    rules: rules.map((each, index): StoredRule => ({ ...each, id: `rule_${index}`, name: `rule ${index}` })),
    labelRules: labelRules.map((each, index): StoredLabelRule => ({
      ...each,
      id: `lrule_${index}`,
      name: `label ${index}`,
      status: 'active',
    })),
    approvalsEnabled,
  }))

/** Expressions over these references and one variable, without braces. Most of them can be evaluated. */
export function expressionOver(references: readonly string[]): fc.Arbitrary<string> {
  const { expression } = fc.letrec<{ expression: string; truth: string; texts: string }>((tie) => {
    const of = tie('expression')
    const test = tie('truth')
    const text = tie('texts')
    const leaf = fc.constantFrom(...references, "'hello'", "'a@acme.com'", '1', '2', 'null', 'true')
    return {
      truth: fc.oneof(
        { depthSize: 'small', withCrossShrink: true },
        fc.constantFrom('true', 'false', ...references),
        fc.tuple(of, fc.constantFrom('==', '!=', '<', '>='), of).map((parts) => `(${parts.join(' ')})`),
        fc.tuple(test, fc.constantFrom('&&', '||'), test).map((parts) => `(${parts.join(' ')})`),
        test.map((each) => `!${each}`),
        fc.tuple(of, fc.array(of, { maxLength: 3 })).map(([each, list]) => `(${each} in [${list.join()}])`),
        fc.tuple(of, of).map(([list, each]) => `any([${list}, ${each}], v, v == ${list})`),
        fc.tuple(text, text).map(([whole, part]) => `contains(${whole}, ${part})`),
      ),
      texts: fc.oneof(
        { depthSize: 'small', withCrossShrink: true },
        fc.constantFrom(...references, "'a@acme.com'", "'b@evil.net'", "'me, '", "''"),
        fc.tuple(text, text).map(([a, b]) => `(${a} + ${b})`),
        of.map((each) => `text(${each})`),
        text.map((each) => `${each}.upper().lower()`),
        fc.tuple(text, text).map(([a, b]) => `replace(${a}, 'a', ${b})`),
        fc.tuple(of, text).map(([a, b]) => `join([${a}, ${b}], ', ')`),
      ),
      expression: fc.oneof(
        { depthSize: 'small', withCrossShrink: true },
        leaf,
        text,
        test,
        fc.tuple(test, of, of).map(([each, yes, no]) => `(${each} ? ${yes} : ${no})`),
        fc.tuple(of, of).map(([a, b]) => `(${a} ?? ${b})`),
        fc.tuple(of, fc.constantFrom('+', '-', '*', '/'), of).map((parts) => `(${parts.join(' ')})`),
        fc.array(of, { maxLength: 3 }).map((list) => `[${list.join()}]`),
        of.map((each) => `{x: ${each}, email: ${each}}`),
        fc
          .tuple(of, fc.constantFrom('.x', '[0]', "['x']", '[1 - 1]'))
          .map((parts) => `(${parts[0]})${parts[1]}`),
        fc.tuple(of, of).map(([a, b]) => `first([${a}, ${b}].filter(v, v != ${a}))`),
        fc.tuple(of, of).map(([a, b]) => `map([${a}, ${b}], v, {x: v, y: ${b}})`),
        fc.tuple(of, of).map(([a, b]) => `unique([${a}, ${b}, ${a}])`),
        of.map((each) => `size(${each})`),
        of.map((each) => `merge({x: 1}, ${each})`),
        of.map((each) => `-(${each})`),
      ),
    }
  })
  return expression
}

/** Templates over two earlier steps, two inputs and an item. The tests fill them in with the values of the run. */
export const template: fc.Arbitrary<Json> = fc.oneof(
  { weight: 4, arbitrary: value },
  {
    weight: 4,
    arbitrary: fc.constantFrom<Json>(
      '{{s0.output}}',
      '{{s0.output.x}}',
      '{{s0.output.to}}',
      '{{s1.output.list[0]}}',
      '{{s1}}',
      '{{input.a}}',
      '{{input.b}}',
      '{{today}}',
      'https://acme.com/{{s0}}',
      'https://evil.net/{{input.a}}',
      'a@acme.com{{s1}}',
      'b@evil.net, {{input.b}}',
      'FIL{{s0}}',
      'https://docs.google.com/document/d/{{input.a}}',
      '{{item}}',
      '{{s0.output[index]}}',
      '{{input.a[index]}}',
      'a@acme.com{{item[index]}}',
      'me{{s1}}',
      'me, {{input.a}}',
      "{{''}}{{input.a}}",
      'https://{{"evil.net"}}/{{s0}}',
      '{{"b@evil.net"}}',
      '{{"{{input.a}}"}}{{s1}}',
      '{{s0}}hello',
      '{{input.a}}, b@evil.net',
      '{{s1}}, me, {{input.b}} <a@acme.com>',
      '{{item}}{{s0}} FILE1',
      `{{input.b}}${'hello '.repeat(17)}`,
    ),
  },
  {
    weight: 1,
    arbitrary: fc
      .tuple(
        fc.constantFrom('', '', 'a@acme.com', 'https://evil.net/'),
        expressionOver([
          'input.a',
          'input.b',
          's0.output',
          's0.output.x',
          's0.output.to',
          's1.output',
          'item',
          'input.a[0]',
        ]),
        fc.constantFrom('', '', ', b@evil.net'),
      )
      .map(([before, expression, after]) => `${before}{{ ${expression} }}${after}`),
  },
)

/** A parameter that names a place, known or unknown. */
export const placeTemplate: fc.Arbitrary<Json> = fc.oneof(
  place,
  fc.constantFrom<Json>(
    '{{input.a}}',
    '{{s0.output}}',
    'acme/{{input.a}}',
    'Acme/{{s1}}',
    'https://github.com/{{input.b}}',
    'https://github.com/acme/x{{input.a}}',
    '#{{input.a}}',
    '{{"#op"}}{{input.b}}',
    'OPS-{{s0.output}}',
    'https://jira.example/browse/{{input.a}}',
    'AbCdEf12{{input.a}}',
    '{{item}}',
  ),
)

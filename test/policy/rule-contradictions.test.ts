import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { compilePolicy, decide } from '../../src/policy/decide.ts'
import { contradictions } from '../../src/policy/rule-contradictions.ts'
import { placeOf } from '../../src/policy/readers/places.ts'
import { toolParams } from '../../src/policy/tool-params.ts'
import { placesIn } from '../../src/policy/tool-places.ts'
import { labelRuleInput, ruleInput } from '../../src/policy/rule.ts'

const is = (param: string, value: unknown, operator = 'equals') => ({ param, operator, value })
const mails = { name: 'r', verdict: 'deny', tools: ['mail_send'] }
const paths = (body: object, schema: typeof ruleInput | typeof labelRuleInput = ruleInput): string[] =>
  schema.safeParse(body).error?.issues.map((issue) => issue.path.join('.')) ?? []

describe('conditions on one parameter that no value fits', () => {
  test.each<[string, object[], string]>([
    ['two values', [is('subject', 'a'), is('text', 'x'), is('subject', 'b')], 'params.2'],
    ['a text and a number', [is('subject', '1'), is('subject', 1)], 'params.1'],
    ['two lists', [is('subject', ['a', 'b'], 'in'), is('subject', ['c', 4], 'in')], 'params.1'],
    ['three lists', [is('subject', ['a', 'b'], 'in'), is('subject', ['b', 'c'], 'in'), is('subject', ['a', 'c'], 'in')], 'params.2'],
    ['a value and its exception', [is('subject', 'a'), is('subject', ['b', 'a'], 'not_in')], 'params.1'],
    ['an exception for each value', [is('subject', ['a'], 'not_in'), is('subject', ['b'], 'not_in'), is('subject', ['a', 'b'], 'in')], 'params.2'],
  ])('%s: refused in each kind of rule', (_, params, path) => {
    for (const verdict of ['deny', 'require_approval', 'allow'])
      expect(paths({ ...mails, verdict, params })).toEqual([path])
    expect(paths({ name: 'r', tools: ['mail_send'], add_labels: ['a'], params }, labelRuleInput)).toEqual([path])
    expect(paths({ ...mails, applies_to: ['workflows'], params })).toEqual([path])
  }) // prettier-ignore

  test('the message says what to change', () => {
    const { error } = ruleInput.safeParse({ ...mails, params: [is('subject', 'a'), is('subject', 'b')] })
    expect(error?.issues[0]?.message).toBe(
      'no value of `subject` fits this condition and the conditions before it, so the rule would never match: take one of them out, or list all values in one `in` (a text such as `"1"` never equals a number)',
    )
    const excluded = { ...mails, params: [is('subject', 'a'), is('subject', ['a'], 'not_in')] }
    expect(ruleInput.safeParse(excluded).error?.issues[0]?.message).toMatch(/: take one of them out$/)
  })

  test('the first condition that does not fit is named', () => {
    const params = [is('subject', 'a'), is('subject', 'b'), is('subject', ['a', 'b'], 'in')]
    expect(paths({ ...mails, params })).toEqual(['params.1'])
  })

  test.each<[string, object]>([
    ['one list has both', { params: [is('subject', 'a'), is('subject', ['a', 'b'], 'in')] }],
    ['only one of the values is an exception', { params: [is('subject', ['a', 'b'], 'in'), is('subject', ['a'], 'not_in')] }],
    ['exceptions alone', { params: [is('subject', ['a'], 'not_in'), is('subject', ['b'], 'not_in')] }],
    ['two parameters', { params: [is('subject', 'a'), is('text', 'b')] }],
    ['a list of recipients can have both', { params: [is('to', 'a'), is('to', 'b')] }],
    ['a text can have two addresses', { params: [is('text', 'a@x.com'), is('text', 'b@x.com')] }],
    ['elements of any JSON', { tools: ['memory_set'], params: [is('value.tags', 'a'), is('value.tags', 'b')] }],
    ['elements of a list', { tools: ['sheets_append'], params: [is('rows.*', 'a'), is('rows.*', 'b')] }],
    ['any parameter', { params: [is('*', 'a'), is('*', 'b')] }],
    ['one of the tools takes a list', { tools: ['mail_send', 'github_create_issue'], params: [is('labels', 'a'), is('labels', 'b')] }],
    ['the tools are not known', { tools: ['mail_*'], params: [is('subject', 'a'), is('subject', 'b')] }],
    ['all tools', { tools: undefined, params: [is('subject', 'a'), is('subject', 'b')] }],
    ['a place that cannot be read fits each condition', { tools: ['github_get_file'], params: [is('repo', 'a/b'), is('repo', 'c/d')] }],
    ['an absent value fits both', { tools: ['jira_create_issue'], params: [is('type', 'Task'), is('type', ['Task'], 'not_in')] }],
  ])('kept in a rule that restricts: %s', (_, fields) => {
    expect(paths({ ...mails, ...fields })).toEqual([])
  }) // prettier-ignore

  test('a default is one value too', () => {
    const tools = ['jira_create_issue']
    expect(paths({ ...mails, tools, params: [is('type', 'Task'), is('type', 'Bug')] })).toEqual(['params.1'])
  })

  test('an `allow` rule needs every value to fit, so any parameter counts, and a place in two spellings is one', () => {
    const allow = { name: 'r', verdict: 'allow' }
    expect(paths({ ...allow, params: [is('to', 'a@x.com'), is('to', 'b@x.com')] })).toEqual(['params.1'])
    expect(paths({ ...allow, params: [is('repo', 'a/b'), is('repo', 'c/d')] })).toEqual(['params.1'])
    expect(paths({ ...allow, params: [is('repo', 'a/b'), is('repo', 'https://github.com/a/b')] })).toEqual([])
  })
})

describe('a parameter that must be absent and have a value', () => {
  const both = (value: unknown) => [is('state', false, 'exists'), is('state', value)]
  const lists = { ...mails, tools: ['github_list_issues'] }

  test.each([
    ['a default', lists],
    ['a default of one tool of a glob', { ...lists, tools: ['github_*'] }],
    ['a default of one of all tools', { ...lists, tools: undefined }],
  ])('kept in a rule that restricts, because it sees %s', (_, rule) => {
    expect(paths({ ...rule, params: both('open') })).toEqual([])
  })

  test('refused in an `allow` rule, and without a default', () => {
    expect(paths({ ...lists, verdict: 'allow', params: both('open') })).toEqual(['params.1'])
    expect(paths({ ...mails, params: [is('cc', false, 'exists'), is('cc', 'a')] })).toEqual(['params.1'])
  })
})

describe('a value that is no place', () => {
  const gets = { ...mails, tools: ['github_get_file'] }
  test.each<[string, object, string[]]>([
    ['all repositories of an owner', { params: [is('repo', 'acme/*')] }, ['params.0.value']],
    ['one of several', { params: [is('repo', ['acme/app', 'acme/*', 'x'], 'in')] }, ['params.0.value.1', 'params.0.value.2']],
    ['a channel with a space', { tools: ['slack_send_message'], params: [is('channel', '#our sales')] }, ['params.0.value']],
  ])('refused: %s', (_, fields, found) => {
    for (const verdict of ['allow', 'deny']) expect(paths({ ...gets, verdict, ...fields })).toEqual(found)
  }) // prettier-ignore

  test.each<[string, object]>([
    ['a name in capital letters', { params: [is('repo', 'Acme/App')] }],
    ['a link', { params: [is('repo', 'https://github.com/acme/app/issues/7')] }],
    ['a link to another host, which may be the connected one', { params: [is('repo', 'https://git.acme.com/acme/app')] }],
    ['a channel with a capital letter', { tools: ['slack_send_message'], params: [is('channel', '#Sales')] }],
    ['the beginning of a name', { params: [is('repo', 'acme/', 'startswith')] }],
    ['an exception', { params: [is('repo', ['acme/*'], 'not_in')] }],
    ['a tool that is not in the catalogue', { tools: ['github_get_file', 'mcp__x__y'], params: [is('repo', 'acme/*')] }],
    ['all tools', { tools: undefined, params: [is('repo', 'acme/*')] }],
  ])('kept: %s', (_, fields) => {
    expect(paths({ ...gets, ...fields })).toEqual([])
  }) // prettier-ignore
})

// A rule that is refused here would never match. The law is checked with the function that decides calls.
test('a rule that is refused for its values matches no call', () => {
  const texts = [
    'a',
    'b',
    'c',
    '',
    'a/b',
    'A/b',
    'https://github.com/a/b',
    'x@y.com',
    'x@y.com, z@y.com',
    '#a',
  ]
  const value = fc.constantFrom<string | number>(...texts, 1)
  const many = fc.uniqueArray(value, { minLength: 1, maxLength: 3 })
  const param = fc.constantFrom(...['subject', 'text', 'to', 'to.*', 'repo', 'labels', 'labels.*', 'type', 'state', 'channel', 'value', 'value.a', 'rows', 'rows.*', '*']) // prettier-ignore
  const condition = fc.oneof(
    fc.record({ param, operator: fc.constant('equals' as const), value }),
    fc.record({ param, operator: fc.constantFrom('in' as const, 'not_in' as const), value: many }),
    fc.record({ param, operator: fc.constant('exists' as const), value: fc.boolean() }),
  )
  const tool = fc.constantFrom('mail_send', 'github_create_issue', 'github_list_issues', 'jira_create_issue', 'slack_send_message', 'memory_set', 'sheets_append') // prettier-ignore
  const lists = fc.oneof(value, many)
  const json = fc.oneof(
    lists,
    fc.record({ a: lists }),
    fc.array(fc.record({ a: lists }, { requiredKeys: [] })),
  )
  const call = fc.record({ subject: value, text: value, to: lists, repo: value, labels: lists, type: value, state: value, channel: value, value: json, rows: fc.array(many) }, { requiredKeys: [] }) // prettier-ignore
  let refused = 0
  fc.assert(
    fc.property(
      fc.constantFrom('allow' as const, 'deny' as const),
      tool,
      fc.array(condition, { minLength: 2, maxLength: 4 }),
      call,
      (verdict, tool, conditions, given) => {
        // Tools refuse unknown parameters, and texts that name no place.
        const own: readonly string[] = toolParams[tool]
        const places = placesIn(tool, 'workflows')
        const isTaken = ([name, each]: [string, unknown]): boolean => {
          const kind = places?.get(name)
          return own.includes(name) && (kind === undefined || placeOf(kind, String(each)) !== null)
        }
        const params = Object.fromEntries(Object.entries(given).filter(isTaken))
        const rule = {
          id: 'r',
          name: 'r',
          verdict,
          tools: [tool],
          params: conditions,
          status: 'active' as const,
        }
        // The other values of an `in` can match.
        if (contradictions(rule).every(({ path }) => path.length === 4)) return
        refused += 1
        const policy = compilePolicy({ approvalsEnabled: true, frozen: null, rules: [rule], labelRules: [] })
        const call = { source: 'workflows' as const, tool, sideEffect: 'write' as const, params, labels: [] }
        expect(decide(policy, call).matchedRules).toEqual([])
      },
    ),
    { numRuns: 20_000 },
  )
  expect(refused).toBeGreaterThan(1_000)
})

import fc from 'fast-check'
import { describe, expect, test } from '@jest/globals'
import type { z } from 'zod'
import { ruleBodies } from '../../src/api/routes/rules.ts'
import { decide } from '../../src/policy/decide.ts'
import { compilePolicy } from '../support/compile.ts'
import { placeOf } from '../../src/policy/readers/places.ts'
import { contradictions } from '../../src/policy/rule-contradictions.ts'
import { applyPatch } from '../../src/policy/rule.ts'
import { labelRuleInput, ruleInput } from '../../src/governance/rules/rule-kinds.ts'
import { facts } from '../../src/tools/index.ts'

const base = { name: 'no outside mail', verdict: 'deny', side_effects: ['egress'] }

/** `path: message` of every issue. */
function issues(body: unknown, schema: z.ZodType = ruleInput): string[] {
  const parsed = schema.safeParse(body)
  return parsed.success ? [] : parsed.error.issues.map((issue) => `${issue.path.join('.')}: ${issue.message}`)
}

const rulePatch = ruleBodies.rule.changes

const labelRulePatch = ruleBodies.label_rule.changes

const that = (param: string, operator: string, value: unknown) => ({ param, operator, value })
const gone = (param: string) => that(param, 'exists', false)

describe('a rule', () => {
  test('is active by default, and keeps every field as given', () => {
    const full = {
      ...base,
      verdict: 'require_approval',
      description: '',
      status: 'shadow',
      tools: ['mail_*'],
      labels: { any_of: ['pii'], all_of: ['internal'], none_of: ['public-data'] },
      params: [{ param: 'to', operator: 'domain_not_in', value: ['acme.com'] }],
      applies_to: ['agents'],
      match_all: false,
      approver: 'owner',
      approvals_needed: 2,
      expires_after_seconds: 0,
    }
    expect(ruleInput.parse(full)).toEqual(full)
    expect(ruleInput.parse(base).status).toBe('active')
  })

  test('without any condition it must say match_all', () => {
    const bare = { name: 'all', verdict: 'deny' }
    expect(issues(bare)).toEqual([expect.stringContaining('match_all')])
    expect(issues({ ...bare, match_all: false })).toHaveLength(1)
    expect(issues({ ...bare, applies_to: ['agents'] })).toHaveLength(1)
    expect(issues({ ...bare, match_all: true })).toEqual([])
  })

  test.each<[string, object, string]>([
    ['`match_all` and a condition', { match_all: true, tools: ['mail_send'] }, 'match_all'],
    ['`match_all` and labels', { match_all: true, labels: { any_of: ['pii'] } }, 'match_all'],
    ['a label asked for and excluded', { labels: { all_of: ['a', 'b'], none_of: ['b'] } }, 'labels.none_of'],
    ['every label of a choice excluded', { labels: { any_of: ['a', 'b'], none_of: ['b', 'a', 'c'] } }, 'labels.none_of'],
    ['tools of agents for workflows', { tools: ['Bash', 'mcp__crm__*'], applies_to: ['workflows'] }, 'applies_to'],
    ['a tool without the side effect', { tools: ['mail_send'], side_effects: ['read', 'write'], applies_to: ['workflows'] }, 'side_effects'],
    ['tools of a glob without it', { tools: ['trello_get_*', 'sheets_read'], side_effects: ['egress'], applies_to: ['workflows'] }, 'side_effects'],
    ['no value and this value', { params: [gone('cc'), that('cc', 'equals', 'a@x.com')] }, 'params.1'],
    ['one of these values and none', { params: [that('cc', 'in', ['a@x.com', 0]), gone('cc')] }, 'params.0'],
    ['no value and a beginning', { params: [gone('cc'), that('to', 'startswith', 'a'), that('cc', 'startswith', 'a')] }, 'params.2'],
    ['no value and a part', { params: [gone('cc'), that('cc', 'contains', ['a'])] }, 'params.1'],
    ['no value and its domain', { params: [gone('cc'), that('cc', 'domain_in', ['x.com'])] }, 'params.1'],
    ['there and not there', { params: [gone('cc'), that('cc', 'exists', true)] }, 'params.1'],
    ['no parameter at all and one of them', { params: [gone('*'), that('*', 'equals', 'a')] }, 'params.1'],
  ])('fields that contradict each other are refused: %s', (_, fields, path) => {
    const { error } = ruleInput.safeParse({ name: 'r', verdict: 'deny', ...fields })
    expect(error?.issues.map((issue) => issue.path.join('.'))).toEqual([path])
  }) // prettier-ignore

  test('fields that only overlap are kept', () => {
    expect(issues({ ...base, labels: { any_of: ['a', 'b'], none_of: ['b'] } })).toEqual([])
    expect(issues({ ...base, tools: ['Bash', 'mail_send'], applies_to: ['workflows'] })).toEqual([])
    expect(issues({ ...base, tools: ['Bash'], applies_to: ['agents', 'workflows'] })).toEqual([])
    const reads = { ...base, side_effects: ['read'] }
    // An agent's tool may have any name, and an organization may say what it does.
    expect(issues({ ...reads, tools: ['mail_send'] })).toEqual([])
    expect(issues({ ...reads, tools: ['mail_send', 'docs_*'], applies_to: ['workflows'] })).toEqual([])
  })

  test.each<[string, object[]]>([
    ['no value and no such domain', [gone('cc'), that('cc', 'domain_not_in', ['x.com'])]],
    ['no value and no such value', [gone('cc'), that('cc', 'not_in', ['a'])]],
    ['no value and an empty text', [gone('cc'), that('cc', 'equals', '')]],
    ['no value and an empty text among others', [gone('cc'), that('cc', 'in', ['a', ''])]],
    ['no value and a label of its source', [gone('cc'), that('cc', 'from_label', ['pii'])]],
    ['another parameter', [gone('cc'), that('bcc', 'equals', 'a')]],
    // Elements of a list can differ.
    ['a path through a list', [gone('guests.email'), that('guests.email', 'equals', 'a')]],
  ])('conditions that can hold together are kept: %s', (_, params) => {
    expect(issues({ ...base, params })).toEqual([])
  })

  test('text that is plainly a regular expression is refused where whole texts are compared', () => {
    const pattern = '^.*@acme\\.com$'
    const refused = (operator: string, value: unknown) =>
      issues({ ...base, params: [that('to', operator, value)] })
    expect(refused('equals', pattern)[0]).toMatch(/^params\.0\.value: looks like a regular/)
    expect(refused('in', ['a', pattern])[0]).toMatch(/^params\.0\.value\.1: looks like a regular/)
    expect(refused('not_in', [pattern])[0]).toMatch(/^params\.0\.value\.0: looks like a regular/)
    expect(refused('startswith', '^.*')[0]).toMatch(/^params\.0\.value: looks like a regular/)
    expect([refused('contains', pattern), refused('equals', '5$'), refused('equals', 5)].flat()).toEqual([])
  })

  test('a label rule that needs a value and none is refused', () => {
    const body = { name: 'r', add_labels: ['a'], params: [gone('path'), that('path', 'equals', 'x')] }
    expect(issues(body, labelRuleInput)).toEqual([
      'params.1: `equals` needs a value in `path`, and another condition says that there is none (`exists` is false), so the rule would never match: take one of them out',
    ])
  })

  test.each([
    ['unknown field', { ...base, colour: 'red' }],
    ['unknown field in labels', { ...base, labels: { some_of: ['x'] } }],
    ['empty labels', { ...base, labels: {} }],
    ['unknown field in a condition', { ...base, params: [{ ...that('a', 'equals', 1), x: 1 }] }],
    ['blank name', { ...base, name: '  ' }],
    ['long name', { ...base, name: 'x'.repeat(201) }],
    ['NUL in the name', { ...base, name: 'a\u0000b' }],
    ['half a surrogate pair', { ...base, description: '\ud800' }],
    ['unknown verdict', { ...base, verdict: 'block' }],
    ['unknown status', { ...base, status: 'on' }],
    ['unknown side effect', { ...base, side_effects: ['send'] }],
    ['no side effect', { ...base, side_effects: [] }],
    ['no tool', { ...base, tools: [] }],
    ['a tool with spaces', { ...base, tools: ['mail send'] }],
    ['a label in upper case', { ...base, labels: { any_of: ['PII'] } }],
    ['a label with spaces', { ...base, labels: { any_of: ['top secret'] } }],
    ['no label', { ...base, labels: { any_of: [] } }],
    ['an empty path', { ...base, params: [that('', 'equals', 1)] }],
    ['a path that no call has', { ...base, params: [that('a.__proto__.b', 'equals', 1)] }],
    ['a path with an empty part', { ...base, params: [that('a..b', 'equals', 1)] }],
    ['too many conditions', { ...base, params: Array(101).fill(that('a', 'equals', 1)) }],
    ['no approvers', { ...base, approvals_needed: 0 }],
    ['a negative time', { ...base, expires_after_seconds: -1 }],
    ['half a second', { ...base, expires_after_seconds: 0.5 }],
    ['another approver', { ...base, approver: 'member' }],
    ['an id', { ...base, id: 'rule_1' }],
  ])('is refused with %s', (_, body) => {
    expect(issues(body)).not.toEqual([])
  })
})

describe('a rule that could never match as meant', () => {
  const on = (tools: string[] | undefined, param: string, over: object = {}) => ({
    ...base,
    ...(tools === undefined ? {} : { tools }),
    params: [that(param, 'contains', 'x')],
    ...over,
  })
  test.each([
    [['mail_send'], 'cC', 'did you mean `cc`'],
    [['mail_send'], 'subjct', 'did you mean `subject`'],
    [['file_read', 'memory_set'], 'recipients.email', '`file_read` or `memory_set` has no parameter `recip'],
    [['memory_get'], 'value', '`memory_get` has no parameter `value`: its parameters are `key`'],
    [['mail_send'], 'toString', 'its parameters are `to`, `subject`'],
  ])('is refused: for %j a condition on `%s`', (tools, param, hint) => {
    for (const operator of ['contains', 'startswith'])
      expect(issues(on(tools, param, { params: [that(param, operator, 'x')] }))).toEqual([
        expect.stringMatching(/^params\.0\.param: /),
      ])
    expect(issues(on(tools, param))).toEqual([expect.stringContaining(hint)])
    const params = [that(param, 'contains', 'x')]
    const label = { name: 'l', tools, params, add_labels: ['pii'] }
    expect(issues(label, labelRuleInput)).toEqual([expect.stringContaining(hint)])
  })

  test.each([
    ['a parameter of the tool', ['mail_send'], 'cc'],
    ['a path into a parameter', ['mail_send'], 'to.email.0'],
    ['a parameter of some of the tools', ['memory_get', 'memory_set'], 'value'],
    ['any', ['mail_send'], '*'],
    ['any, inside', ['mail_send'], '*.email'],
    ['a glob', ['mail_*'], 'body'],
    ['an agent’s tool beside it', ['mail_send', 'Bash'], 'command'],
    ['a protocol tool', ['mcp__crm__send'], 'body'],
    ['another tool that has it', ['slack_send_message', 'github_comment'], 'body'],
    ['no tool', undefined, 'body'],
  ])('is taken: %s', (_what, tools, param) => {
    expect(issues(on(tools, param))).toEqual([])
  })

  test('is accepted for agents alone, whose tools have any name and parameter', () => {
    expect(issues(on(['mail_send'], 'body', { applies_to: ['agents'] }))).toEqual([])
    expect(issues(on(['mail_send'], 'body', { applies_to: ['agents', 'workflows'] }))).toHaveLength(1)
  })

  test.each([
    ['approver', 'owner'],
    ['approvals_needed', 1],
    ['expires_after_seconds', 0],
  ])('is refused with `%s` where nothing is held', (field, value) => {
    for (const verdict of ['allow', 'deny'])
      expect(issues({ ...base, verdict, [field]: value })).toEqual([
        expect.stringMatching(`^${field}: is only for rules`),
      ])
    expect(issues({ ...base, verdict: 'require_approval', [field]: value })).toEqual([])
  })
})

describe('a label rule', () => {
  test('adds at least one label, a slug', () => {
    const body = { name: 'secret sheet', tools: ['sheets_read'], add_labels: ['confidential'] }
    expect(labelRuleInput.parse(body)).toEqual({ ...body, status: 'active' })
    const wrong = ['PII', 'top secret', 'ä', '-a', 'a-', 'a--b', '', 'a\n', 'x'.repeat(65), '__proto__']
    for (const add_labels of [[], undefined, ...wrong.map((label) => [label])])
      expect(labelRuleInput.safeParse({ ...body, add_labels }).success).toBe(false)
    const add_labels = ['pii', 'top-secret', 'q3_2026', '1']
    expect(labelRuleInput.safeParse({ ...body, add_labels }).success).toBe(true)
    expect(labelRuleInput.safeParse({ ...body, verdict: 'deny' }).success).toBe(false)
  })
})

describe('a patch', () => {
  test('may name any field, adds no defaults, and removes optional fields with null', () => {
    expect(rulePatch.parse({ status: 'inactive' })).toEqual({ status: 'inactive' })
    expect(rulePatch.parse({})).toEqual({})
    expect(labelRulePatch.parse({ tools: null })).toEqual({ tools: null })
    expect(rulePatch.safeParse({ name: null }).success).toBe(false)
    expect(rulePatch.safeParse({ colour: 'red' }).success).toBe(false)
  })

  test('gives a body that is validated as a whole', () => {
    const body = ruleInput.parse({ ...base, tools: ['mail_*'] })
    expect(applyPatch(body, { tools: null, name: 'other' })).toEqual({
      ...base,
      name: 'other',
      status: 'active',
    })
    expect(issues(applyPatch(body, { tools: null, side_effects: null }))).toEqual([
      expect.stringContaining('match_all'),
    ])
  })
})

const withCondition = (operator: string, value: unknown) => ({
  ...base,
  params: [that('to', operator, value)],
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
      expect(issues(labelRule, labelRuleInput)).toEqual([expect.stringContaining('replace it')])
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
      expect(issues({ name: 'x', add_labels: ['y'], ...part }, labelRuleInput)).toEqual([
        expect.stringContaining('replace it'),
      ])
    }
    expect(issues({ name: 'x', add_labels: [value] }, labelRuleInput)).toEqual([
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
    expect(issues(body, labelRuleInput)).toEqual([expect.stringContaining('never the word')])
  })
})

const is = (param: string, value: unknown, operator = 'equals') => that(param, operator, value)
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
        const { params: own = [], places } = facts.get(tool) ?? {}
        const isTaken = ([name, each]: [string, unknown]): boolean => {
          const kind = places?.get(name)
          return own.includes(name) && (kind === undefined || placeOf(kind, String(each)) !== null)
        }
        const params = Object.fromEntries(Object.entries(given).filter(isTaken))
        const body = { id: 'r', name: 'r', verdict, tools: [tool], params: conditions }
        const rule = { ...body, status: 'active' as const }
        // The other values of an `in` can match.
        if (contradictions(facts, rule).every(({ path }) => path.length === 4)) return
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

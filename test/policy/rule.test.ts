import { describe, expect, test } from '@jest/globals'
import { ruleBodies } from '../../src/api/schemas/rules.ts'
import { applyPatch, labelRuleInput, ruleInput } from '../../src/policy/rule.ts'
import { base, issues } from './rule-issues.ts'

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
    expect([refused('contains', pattern), refused('equals', '5$'), refused('equals', 5)]).toEqual([
      [],
      [],
      [],
    ])
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
    [
      'unknown field in a condition',
      { ...base, params: [{ param: 'a', operator: 'equals', value: 1, x: 1 }] },
    ],
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
    ['an empty path', { ...base, params: [{ param: '', operator: 'equals', value: 1 }] }],
    [
      'a path that no call has',
      { ...base, params: [{ param: 'a.__proto__.b', operator: 'equals', value: 1 }] },
    ],
    ['a path with an empty part', { ...base, params: [{ param: 'a..b', operator: 'equals', value: 1 }] }],
    [
      'too many conditions',
      { ...base, params: Array.from({ length: 101 }, () => ({ param: 'a', operator: 'equals', value: 1 })) },
    ],
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
    params: [{ param, operator: 'contains', value: 'x' }],
    ...over,
  })
  test.each([
    [['mail_send'], 'cC', 'did you mean `cc`'],
    [['mail_send'], 'subjct', 'did you mean `subject`'],
    [
      ['file_read', 'memory_set'],
      'recipients.email',
      '`file_read` or `memory_set` has no parameter `recipients`',
    ],
    [['memory_get'], 'value', '`memory_get` has no parameter `value`: its parameters are `key`'],
    [['mail_send'], 'toString', 'its parameters are `to`, `subject`'],
  ])('is refused: for %j a condition on `%s`', (tools, param, hint) => {
    for (const operator of ['contains', 'startswith'])
      expect(issues(on(tools, param, { params: [{ param, operator, value: 'x' }] }))).toEqual([
        expect.stringMatching(/^params\.0\.param: /),
      ])
    expect(issues(on(tools, param))).toEqual([expect.stringContaining(hint)])
    const {
      verdict: _,
      side_effects: __,
      ...label
    } = on(tools, param, { add_labels: ['pii'] }) as Record<string, unknown>
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
    for (const add_labels of [[], ['Secret'], undefined]) {
      expect(labelRuleInput.safeParse({ ...body, add_labels }).success).toBe(false)
    }
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

import { describe, expect, test } from '@jest/globals'
import { labelRuleInput, ruleInput } from '../../src/policy/rule.ts'
import { catalogueNames, toolNameIssue, settingNameIssue } from '../../src/policy/tool-names.ts'

test('the catalogue has 29 names', () => {
  expect(new Set(catalogueNames).size).toBe(29)
})

describe('a rule may name', () => {
  test.each([
    ...catalogueNames,
    // tools of Claude Code
    ...'Read Grep Glob LS NotebookRead WebFetch WebSearch Edit MultiEdit Write NotebookEdit Bash'.split(' '),
    // one tool of each other client
    ...['Agent', 'apply_patch', 'run_shell_command', 'write_agent', 'Shell', 'replace_string_in_file'],
    ...['mcp__files__read_file', 'mcp__a__b', 'mcp__plugin_x_y__resources_read'],
    ...[
      '*',
      'mail_*',
      '*_send*',
      'github_*_issue',
      '?ash',
      'mcp__*',
      'mcp__files__*',
      'mcp__*__*send*',
      'm?p__*',
    ],
  ])('%s', (name) => {
    expect(toolNameIssue(name)).toBeNull()
  })
})

describe('a rule may not name', () => {
  test.each([
    ['mail_sent', ['`mail_send`', 'GET /tools']],
    ['send_mail', ['`mail_send`']],
    ['MAIL_SEND', ['`mail_send`']],
    ['bsah', ['`bash`', '`Bash`']],
    ['nail_*', ['matches no tool', '`GET /tools`']],
    ['nothing', ['no tool `nothing`', 'Bash', 'mcp__<server>__<tool>']],
    ['mcp__files', ['`mcp__<server>__<tool>`']],
    ['mcp_files_read', ['`mcp__<server>__<tool>`']],
    ['mcp____read', ['`mcp__<server>__<tool>`']],
    ['constructor', ['no tool `constructor`']],
    ['mail_send ', ['white space']],
    ['x'.repeat(200), ['no tool']],
    ['§' + '*?'.repeat(50), ['matches no tool']],
  ])('%s', (name, hints) => {
    for (const schema of [ruleInput, labelRuleInput]) {
      const rule = { name: 'r', verdict: 'deny', tools: ['mail_send', name] }
      const labelRule = { name: 'r', add_labels: ['x'], tools: ['mail_send', name] }
      const issues = schema.safeParse(schema === ruleInput ? rule : labelRule).error?.issues ?? []
      expect(issues.map((issue) => issue.path)).toEqual([['tools', 1]])
      for (const hint of hints) expect(issues[0]?.message).toContain(hint)
    }
  })
})

describe('a key of the setting `external_tools`', () => {
  test.each([
    ...['Bash', 'bash', 'mcp__board__export', 'Frobnicate', 'frobnicate_all'],
    ...['mcp__board__*', 'mcp__my-board.v2__get_*', 'mcp__gateway__board__*', 'mcp__a__*'],
  ])('may be %s', (name) => {
    expect(settingNameIssue(name)).toBeNull()
  })
  test.each([
    ...[
      '*',
      'Ba*',
      '*Bash',
      'mail_*',
      'mcp*',
      'mcp_*',
      'mcp__*',
      'mcp__git*',
      'mcp__*__get',
      'mcp__a*__x',
    ].map((glob) => [glob, 'must name one MCP server'] as const),
    ...['mcp__a__b?', 'mcp__a?__*', 'mcp____*', 'mcp__a___*', 'mcp___a__*', 'mcp__a__*__b', 'mcp__a_b*'].map(
      (glob) => [glob, 'must name one MCP server'] as const,
    ),
    ['mcp__bo\u200bard__*', 'invisible'],
    ['Webfetch', 'did you mean `WebFetch` or `web_fetch`'],
    ['web-search', 'did you mean `web_search` or `WebSearch`'],
  ])('may not be %s', (name, message) => {
    expect(settingNameIssue(name)).toContain(message)
  })
})

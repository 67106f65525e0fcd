import fc from 'fast-check'
import { describe, expect, test } from '@jest/globals'
import { agentTool, withAnnotations, agentToolNames } from '../../src/policy/agent-tools.ts'
import { decide } from '../../src/policy/decide.ts'
import { compilePolicy } from '../support/compile.ts'
import { isUnclassed, toldOf, type ExternalTools } from '../../src/policy/external-tools.ts'
import { protocolToolKind, protocolToolSideEffect, toolTokens } from '../../src/policy/protocol-tools.ts'
import type { StoredRule } from '../../src/policy/rule.ts'
import { labelRuleInput, ruleInput } from '../../src/governance/rules/rule-kinds.ts'
import { facts } from '../../src/tools/index.ts'
import type { CallSource } from '../../src/policy/types.ts'

const catalogueNames = facts.tools.map(({ name }) => name)

describe('a rule may name', () => {
  test.each([
    ...catalogueNames,
    // tools of Claude Code
    ...'Read Grep Glob LS NotebookRead WebFetch WebSearch Edit MultiEdit Write NotebookEdit Bash'.split(' '),
    // one tool of each other client
    ...['Agent', 'apply_patch', 'run_shell_command', 'write_agent', 'Shell', 'replace_string_in_file'],
    ...['mcp__files__read_file', 'mcp__a__b', 'mcp__plugin_x_y__resources_read'],
    ...'* mail_* *_send* github_*_issue ?ash mcp__* mcp__files__* mcp__*__*send* m?p__*'.split(' '),
  ])('%s', (name) => {
    expect(facts.names.issue(name)).toBeNull()
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
  const unclear = [
    ...['*', 'Ba*', '*Bash', 'mail_*', 'mcp*', 'mcp_*', 'mcp__*', 'mcp__git*', 'mcp__*__get', 'mcp__a*__x'],
    ...['mcp__a__b?', 'mcp__a?__*', 'mcp____*', 'mcp__a___*', 'mcp___a__*', 'mcp__a__*__b', 'mcp__a_b*'],
  ]
  test.each([
    ...['Bash', 'bash', 'mcp__board__export', 'Frobnicate', 'frobnicate_all'],
    ...['mcp__board__*', 'mcp__my-board.v2__get_*', 'mcp__gateway__board__*', 'mcp__a__*'],
  ])('may be %s', (name) => {
    expect(facts.names.settingIssue(name)).toBeNull()
  })
  test.each([
    ...unclear.map((glob) => [glob, 'must name one MCP server'] as const),
    ['mcp__bo\u200bard__*', 'invisible'],
    ['Webfetch', 'did you mean `WebFetch` or `web_fetch`'],
    ['web-search', 'did you mean `web_search` or `WebSearch`'],
  ])('may not be %s', (name, message) => {
    expect(facts.names.settingIssue(name)).toContain(message)
  })
})

describe('the documented classification table', () => {
  test.each([
    ...['Read', 'Grep', 'Glob', 'LS', 'NotebookRead'].map((name) => [name, 'read', ['internal']] as const),
    ...['WebFetch', 'WebSearch'].map((name) => [name, 'read', ['untrusted']] as const),
    ...['Edit', 'MultiEdit', 'Write', 'NotebookEdit', 'Bash'].map((name) => [name, 'write', []] as const),
  ])('%s is %s', (name, sideEffect, outputLabels) => {
    expect(agentTool(name)).toMatchObject({ sideEffect, outputLabels })
  })

  test('newer names: tools that run commands are classified as such, and unknown tools never as reads', () => {
    for (const name of ['Bash', 'Monitor', 'run_shell_command', 'exec_command', 'bash', 'Shell'])
      expect(agentTool(name)?.code).toBe('bash')
    expect(agentTool('PowerShell')?.code).toBe('powershell')
    for (const name of ['Workflow', 'Skill', 'skill', 'activate_skill', 'write_stdin'])
      expect(agentTool(name)?.code).toBe('script')
    expect(agentTool('Agent')?.sideEffect).toBe('write')
    expect(agentTool('LSP')?.sideEffect).toBe('read')
    for (const name of ['', 'read', 'READ', 'toString', 'constructor', 'Read ', 'mcp__x__get'])
      expect(agentTool(name)).toBeUndefined()
  })
})

describe('annotations make a tool stricter and never looser', () => {
  const read = { sideEffect: 'read', outputLabels: ['internal'] } as const
  const write = { sideEffect: 'write', outputLabels: [] } as const
  test.each([
    [read, { destructiveHint: true }, 'write', ['internal']],
    [read, { readOnlyHint: false }, 'write', ['internal']],
    [read, { openWorldHint: true }, 'read', ['internal', 'untrusted']],
    [read, { openWorldHint: true, destructiveHint: true }, 'egress', ['internal', 'untrusted']],
    [write, { openWorldHint: true }, 'egress', ['untrusted']],
    [write, { readOnlyHint: true, openWorldHint: false, destructiveHint: false }, 'write', []],
    [write, { openWorldHint: 'true' }, 'write', []],
    [{ sideEffect: 'egress', outputLabels: [] } as const, { readOnlyHint: true }, 'egress', []],
  ])('%j with %j', (tool, hints, sideEffect, outputLabels) => {
    expect(withAnnotations(tool, hints)).toEqual({ sideEffect, outputLabels })
  })
})

describe('protocol tools by their names', () => {
  test.each([
    ['send_message', 'egress'],
    ['create_issue', 'egress'],
    ['getAndShare', 'egress'],
    ['post-comment', 'egress'],
    ['HTTPPost', 'egress'],
    ['uploadFile', 'egress'],
    ['chat.postMessage', 'egress'],
    ['search_and_send', 'egress'],
    ['web_search', 'web'],
    ['browse', 'web'],
    ['crawlSite', 'web'],
    ['scrape_get', 'web'],
    ['fetch', 'web'],
    ['fetch_page', 'write'],
    ['Fetch', 'write'],
    ['get_issue', 'read'],
    ['listFiles', 'read'],
    ['read', 'read'],
    ['resources_read', 'read'],
    ['prompts_get', 'read'],
    // whole words only
    ['sender_info', 'write'],
    ['list_posts', 'read'],
    ['list_comments', 'read'],
    ['recreate_x', 'write'],
    ['getter', 'write'],
    ['webhook_delete', 'write'],
    ['research', 'write'],
    ['issue.get', 'write'],
    ['delete_file', 'write'],
    ['', 'write'],
  ] as const)('%s is %s', (tool, kind) => {
    expect(protocolToolKind(`mcp__server__${tool}`)).toBe(kind)
  })

  test('the server says nothing', () => {
    expect(protocolToolKind('mcp__send_web_get__delete')).toBe('write')
    expect(protocolToolKind('mcp__web__get_page')).toBe('read')
  })

  test('if the name can be split in two ways, the strictest counts', () => {
    expect(protocolToolKind('mcp__my__get_server__delete')).toBe('write')
    expect(protocolToolKind('mcp__my__send__get')).toBe('egress')
    expect(protocolToolKind(`mcp__a${'__get'.repeat(50)}`)).toBe('write')
  })

  test('anything else is a write', () => {
    for (const name of ['get_issue', 'mcp__get', 'mcp_x_get', 'MCP__a__get', 'mcp____get'])
      expect([name, protocolToolKind(name)]).toEqual([name, 'write'])
  })

  test('labels', () => {
    expect(protocolToolSideEffect('mcp__s__web_search')).toEqual({ sideEffect: 'read', label: 'untrusted' })
    expect(protocolToolSideEffect('mcp__s__get_x')).toEqual({ sideEffect: 'read', label: 'internal' })
    expect(protocolToolSideEffect('mcp__s__send')).toEqual({ sideEffect: 'egress', label: null })
    expect(protocolToolSideEffect('mcp__s__set')).toEqual({ sideEffect: 'write', label: null })
  })

  test('an egress word anywhere in the name wins', () => {
    const word = fc.constantFrom('get', 'list', 'web', 'crawl', 'issue', 'x', '9', 'read')
    const egress = fc.constantFrom('send', 'post', 'create', 'comment', 'share', 'upload')
    const joined = fc.constantFrom('_', '-', '__')
    fc.assert(
      fc.property(fc.array(word), egress, fc.array(word), joined, (before, middle, after, join) => {
        expect(protocolToolKind(`mcp__s__${[...before, middle, ...after].join(join)}`)).toBe('egress')
      }),
    )
  })

  test('words of a name', () => {
    expect(toolTokens('HTTPPost_file-listAll__XML2json').join(' ')).toBe('http post file list all xml2json')
  })
})

const github: ExternalTools = { 'mcp__github__*': { side_effect: 'read', output_labels: ['code'] } }

describe('a glob for a server', () => {
  test.each(['mcp__github__get', 'mcp__github__send_all', 'mcp__github__x_', 'mcp__github__a_b-c'])(
    'covers its tool %s',
    (name) => {
      expect(toldOf(github, name)).toEqual({ side_effect: 'read', output_labels: ['code'] })
      expect(isUnclassed(github, name, 'agents')).toBe(false)
    },
  )

  test.each([
    ...['mcp__github__evil__x', 'mcp__github___x', 'mcp__githubevil__x', 'mcp__github', 'mcp__git__hub'],
    ...['mcp__GitHub__x', 'MCP__github__x', 'mcp_github_x', 'MCP:github__x', 'xmcp__github__x'],
    'mcp__github__x__',
    ...['mcp__githu\u0431__x', 'mcp__evil__mcp__github__x', 'mcp____github__x', 'github__x'],
  ])('does not cover %s, which another server may have', (name) => {
    expect(toldOf(github, name)).toEqual({})
    expect(isUnclassed(github, name, 'agents')).toBe(true)
  })

  test('covers no tool of a client or of the catalogue, whatever glob is accepted', () => {
    const part = fc.constantFrom(...'mcp__ mcp __ _ * a Bash github ?'.split(' '), ...agentToolNames)
    fc.assert(
      fc.property(fc.array(part, { maxLength: 6 }), (parts) => {
        const glob = parts.join('')
        if (!glob.includes('*') || facts.names.settingIssue(glob) !== null) return
        const setting: ExternalTools = { [glob]: { side_effect: 'read' } }
        for (const name of [...agentToolNames, ...catalogueNames]) expect(toldOf(setting, name)).toEqual({})
      }),
      { numRuns: 2_000 },
    )
  })
})

describe('several keys for one tool', () => {
  const told = (setting: object) => toldOf(setting as ExternalTools, 'mcp__a__get_x')
  test('the whole name wins over globs, and a longer glob over a shorter one', () => {
    const setting = {
      mcp__a__get_x: { side_effect: 'write' },
      'mcp__a__get*': { side_effect: 'egress', output_labels: ['b'] },
      'mcp__a__*': { side_effect: 'read', output_labels: ['a'] },
    }
    expect(told(setting)).toEqual({ side_effect: 'write', output_labels: ['b'] })
    expect(told({ ...setting, mcp__a__get_x: {} })).toEqual({ side_effect: 'egress', output_labels: ['b'] })
    expect(told(Object.fromEntries(Object.entries(setting).reverse()))).toEqual(told(setting))
  })

  test('of equally long globs the stricter side effect and all labels count', () => {
    const one = { 'mcp__a__get*': { side_effect: 'read', output_labels: ['b'] } }
    const two = { 'mcp__a__*t_x': { side_effect: 'egress', output_labels: ['a'] } }
    for (const setting of [
      { ...one, ...two },
      { ...two, ...one },
    ])
      expect(told(setting)).toEqual({ side_effect: 'egress', output_labels: ['a', 'b'] })
  })

  test('a key without a side effect does not class the tool', () => {
    expect(isUnclassed({ 'mcp__a__*': { output_labels: [] } }, 'mcp__a__get_x', 'agents')).toBe(true)
  })
})

describe('a rule with `classed: false`', () => {
  const rule: StoredRule = { id: 'r', name: 'r', verdict: 'deny', status: 'active', classed: false }
  const verdict = (tool: string, externalTools: ExternalTools, source: CallSource = 'agents') =>
    decide(compilePolicy({ rules: [rule], labelRules: [], approvalsEnabled: true, externalTools }), {
      ...{ source, tool, sideEffect: 'read', params: {}, labels: [] },
    }).verdict

  test.each([
    ['mcp__github__get', {}, 'deny'],
    ['mcp__github__get', github, 'allow'],
    ['mcp__github__evil__get', github, 'deny'],
    ['constructor', { ...github }, 'deny'],
    ['__proto__', {}, 'deny'],
    ['mcp_github_get', github, 'deny'],
    ['Own', { Own: { side_effect: 'egress' } }, 'allow'],
    ['Read', {}, 'allow'],
    ['ReadMcpResourceTool', {}, 'deny'],
    ['ReadMcpResourceTool', { ReadMcpResourceTool: { side_effect: 'read' } }, 'allow'],
  ] as [string, ExternalTools, string][])('decides about %s under %j: %s', (tool, setting, wanted) => {
    expect(verdict(tool, setting)).toBe(wanted)
  })

  test('says nothing about steps of workflows', () => {
    expect(verdict('mail_send', {}, 'workflows')).toBe('allow')
  })
})

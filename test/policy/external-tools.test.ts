import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { agentToolNames } from '../../src/policy/agent-tools.ts'
import { compilePolicy, decide } from '../../src/policy/decide.ts'
import { isUnclassed, toldOf, type ExternalTools } from '../../src/policy/external-tools.ts'
import type { StoredRule } from '../../src/policy/rule.ts'
import { catalogueNames, settingNameIssue } from '../../src/policy/tool-names.ts'
import type { CallSource } from '../../src/policy/types.ts'

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
    ...[
      'mcp__GitHub__x',
      'MCP__github__x',
      'mcp_github_x',
      'MCP:github__x',
      'xmcp__github__x',
      'mcp__github__x__',
    ],
    ...['mcp__githu\u0431__x', 'mcp__evil__mcp__github__x', 'mcp____github__x', 'github__x'],
  ])('does not cover %s, which another server may have', (name) => {
    expect(toldOf(github, name)).toEqual({})
    expect(isUnclassed(github, name, 'agents')).toBe(true)
  })

  test('covers no tool of a client or of the catalogue, whatever glob is accepted', () => {
    const part = fc.constantFrom(
      'mcp__',
      'mcp',
      '__',
      '_',
      '*',
      'a',
      'Bash',
      'github',
      '?',
      ...agentToolNames,
    )
    fc.assert(
      fc.property(fc.array(part, { maxLength: 6 }), (parts) => {
        const glob = parts.join('')
        if (!glob.includes('*') || settingNameIssue(glob) !== null) return
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
      source,
      tool,
      sideEffect: 'read',
      params: {},
      labels: [],
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

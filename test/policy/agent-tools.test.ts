import { describe, expect, test } from '@jest/globals'
import { agentTool, withAnnotations } from '../../src/policy/agent-tools.ts'

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

import { describe, expect, test } from '@jest/globals'
import { compileToolAccess, type RoleOverride, type ToolPolicy } from '../../src/policy/tool-access.ts'

const policy = (over: Partial<ToolPolicy> = {}): ToolPolicy => ({
  toolName: 'Bash',
  role: null,
  allowed: null,
  restrictions: {},
  ...over,
})

describe('a policy on `Bash` and the other tools that give commands to a shell', () => {
  const shells = [
    'Monitor',
    'PowerShell',
    'run_shell_command',
    'bash',
    'Shell',
    'exec_command',
    'write_stdin',
  ]
  const refusalOf = (
    tool: string,
    policies: ToolPolicy[],
    overrides: RoleOverride[] = [],
    fallback: 'allow' | 'deny' = 'allow',
  ) =>
    compileToolAccess({ policies, overrides, fallback }, () => ({})).refusal({
      tool,
      role: 'member',
      sideEffect: 'write',
      params: null,
    })
  const isReadOnly = { read_only: true }

  test.each(shells)('restricts %s', (tool) => {
    expect(refusalOf(tool, [policy({ allowed: false })])).toEqual({
      isCertain: true,
      reason: 'tool blocked by the organization',
      explanation: `A tool policy of the organization blocks \`Bash\`. \`${tool}\` runs commands of a shell too, so the policy covers it.`,
    })
    const ofRole = 'tool blocked for role member'
    expect(refusalOf(tool, [policy({ role: 'member', allowed: false })])?.reason).toBe(ofRole)
    expect(refusalOf(tool, [], [{ toolName: 'Bash', role: 'member', allowed: false }])?.reason).toBe(ofRole)
    const readOnly = refusalOf(tool, [policy({ restrictions: isReadOnly })])
    expect(readOnly?.reason).toBe('tool is read-only in the organization')
    expect(readOnly?.explanation).toContain('covers it')
    // A policy that allows the tool itself does not lift the block of `Bash`.
    const own = policy({ toolName: tool, allowed: true })
    expect(refusalOf(tool, [own, policy({ allowed: false })])?.reason).toBe(
      'tool blocked by the organization',
    )
  })

  test('restricts no other tool, and no shell is opened by it or restricts it', () => {
    for (const tool of ['Read', 'Skill', 'BashOutput', 'mcp__x__bash', 'unknown'])
      expect([tool, refusalOf(tool, [policy({ allowed: false })])]).toEqual([tool, null])
    expect(refusalOf('Bash', [policy({ toolName: 'Monitor', allowed: false })])).toBeNull()
    expect(refusalOf('Monitor', [policy({ allowed: true })], [], 'deny')?.reason).toBe(
      'tool not allowed by any policy',
    )
    expect(refusalOf('Monitor', [policy({ role: 'viewer', allowed: false })])).toBeNull()
  })
})

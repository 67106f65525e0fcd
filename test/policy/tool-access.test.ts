import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { compileToolAccess, type ToolPolicy } from '../../src/policy/tool-access.ts'
import type { Role, SideEffect } from '../../src/policy/types.ts'

const policy = (over: Partial<ToolPolicy> = {}): ToolPolicy => ({
  toolName: 'Bash',
  role: null,
  allowed: null,
  readOnly: false,
  ...over,
})
const isBlocked = (
  policies: readonly ToolPolicy[],
  fallback: 'allow' | 'deny',
  role: Role = 'member',
  sideEffect: SideEffect = 'write',
): boolean => compileToolAccess(policies, fallback).blocks('Bash', role, sideEffect) !== null

describe('tool policies combine as the specification says', () => {
  test.each<[string, ToolPolicy[], 'allow' | 'deny', SideEffect, boolean]>([
    ['none, open by default', [], 'allow', 'write', false],
    ['none, closed by default', [], 'deny', 'read', true],
    ['an organization’s block', [policy({ allowed: false })], 'allow', 'read', true],
    ['a role’s block', [policy({ role: 'member', allowed: false })], 'allow', 'read', true],
    ['another role’s block', [policy({ role: 'viewer', allowed: false })], 'allow', 'read', false],
    [
      'a role cannot lift the organization’s block',
      [policy({ allowed: false }), policy({ role: 'member', allowed: true })],
      'allow',
      'read',
      true,
    ],
    ['null leaves it open', [policy()], 'allow', 'write', false],
    ['null leaves it closed', [policy({ role: 'member' })], 'deny', 'read', true],
    ['allowed opens what is closed', [policy({ allowed: true })], 'deny', 'write', false],
    ['a role’s too', [policy({ role: 'member', allowed: true })], 'deny', 'write', false],
    ['read-only lets reads through', [policy({ readOnly: true })], 'allow', 'read', false],
    ['and no writes', [policy({ readOnly: true })], 'allow', 'write', true],
    ['and nothing out', [policy({ role: 'member', readOnly: true })], 'allow', 'egress', true],
    [
      'a role cannot lift it',
      [policy({ readOnly: true }), policy({ role: 'member', allowed: true, readOnly: false })],
      'allow',
      'write',
      true,
    ],
    [
      'of another tool it says nothing',
      [policy({ toolName: 'Write', allowed: false })],
      'allow',
      'write',
      false,
    ],
  ])('%s', (_, policies, fallback, sideEffect, blocked) => {
    expect(isBlocked(policies, fallback, 'member', sideEffect)).toBe(blocked)
  })

  test('a block or a limit that is added never lets more through', () => {
    const roles = fc.constantFrom<Role | null>(null, 'viewer', 'member', 'admin', 'owner')
    const policies = fc.uniqueArray(
      fc.record({
        toolName: fc.constantFrom('Bash', 'Write'),
        role: roles,
        allowed: fc.constantFrom(true, false, null),
        readOnly: fc.boolean(),
      }),
      { selector: ({ toolName, role }) => `${toolName} ${role}` },
    )
    const role = fc.constantFrom<Role>('viewer', 'member', 'admin', 'owner')
    const effect = fc.constantFrom<SideEffect>('read', 'write', 'egress')
    fc.assert(
      fc.property(
        policies,
        role,
        effect,
        fc.constantFrom('allow', 'deny'),
        fc.nat(),
        (all, who, what, otherwise, at) => {
          if (!isBlocked(all, otherwise, who, what) || all.length === 0) return
          const index = at % all.length
          const narrower = all.map((each, n) =>
            n === index ? { ...each, allowed: false, readOnly: true } : each,
          )
          expect(isBlocked(narrower, otherwise, who, what)).toBe(true)
        },
      ),
    )
  })
})

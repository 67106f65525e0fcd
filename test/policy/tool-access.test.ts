import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { compileToolAccess, type ToolPolicy } from '../../src/policy/tool-access.ts'
import type { JsonObject, Role, SideEffect } from '../../src/policy/types.ts'

const policy = (over: Partial<ToolPolicy> = {}): ToolPolicy => ({
  toolName: 'Bash',
  role: null,
  allowed: null,
  restrictions: {},
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
    ['read-only lets reads through', [policy({ restrictions: { read_only: true } })], 'allow', 'read', false],
    ['and no writes', [policy({ restrictions: { read_only: true } })], 'allow', 'write', true],
    [
      'and nothing out',
      [policy({ role: 'member', restrictions: { read_only: true } })],
      'allow',
      'egress',
      true,
    ],
    [
      'a role cannot lift it',
      [
        policy({ restrictions: { read_only: true } }),
        policy({ role: 'member', allowed: true, restrictions: { read_only: false } }),
      ],
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
        restrictions: fc.record({ read_only: fc.boolean() }),
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
            n === index ? { ...each, allowed: false, restrictions: { read_only: true } } : each,
          )
          expect(isBlocked(narrower, otherwise, who, what)).toBe(true)
        },
      ),
    )
  })
})

describe('limits of the organization and of a role narrow together', () => {
  const mail = (role: Role | null, restrictions: ToolPolicy['restrictions']) =>
    policy({ toolName: 'mail_send', role, restrictions })
  const refused = (policies: ToolPolicy[], params: JsonObject) =>
    compileToolAccess(policies, 'allow').exceeds('mail_send', 'member', params)?.reason ?? null
  const ofOrganization = 'outside the limits of the organization'
  const ofRole = 'outside the limits of role member'
  const acme = { allowed_domains: ['acme.com'] }
  const many = { allowed_domains: ['acme.com', 'acme.org'] }

  test.each<[string, ToolPolicy[], JsonObject, string | null]>([
    ['a recipient inside', [mail(null, acme)], { to: 'Ann <ann@mail.acme.com>' }, null],
    ['one outside', [mail(null, acme)], { to: 'ann@acme.com, bo@evil.test' }, ofOrganization],
    ['a copy outside', [mail(null, acme)], { to: 'ann@acme.com', cc: ['bo@evil.test'] }, ofOrganization],
    ['a blind copy outside', [mail(null, acme)], { to: 'ann@acme.com', bcc: 'bo@evil.test' }, ofOrganization],
    ['a look-alike', [mail(null, acme)], { to: 'ann@acme.com.evil.test' }, ofOrganization],
    ['what is no address', [mail(null, acme)], { to: 'everybody' }, ofOrganization],
    ['lists intersect', [mail(null, many), mail('member', acme)], { to: 'ann@acme.org' }, ofRole],
    [
      'a role adds no domain',
      [mail(null, acme), mail('member', many)],
      { to: 'ann@acme.org' },
      ofOrganization,
    ],
    ['another role’s limits', [mail('admin', acme)], { to: 'bo@evil.test' }, null],
    ['a text that fits', [mail(null, { max_message_length: 3 })], { text: 'abc' }, null],
    ['a longer one', [mail(null, { max_message_length: 3 })], { text: 'abcd' }, ofOrganization],
    ['a longer HTML', [mail(null, { max_message_length: 3 })], { text: '', html: 'abcd' }, ofOrganization],
    ['the smaller number holds', [mail(null, { max_message_length: 9 }), mail('member', { max_message_length: 3 })], { text: 'abcd' }, ofRole], // prettier-ignore
  ])('%s', (_, policies, params, reason) => expect(refused(policies, params)).toBe(reason))

  test.each<[string, ToolPolicy[], number | null]>([
    ['none', [], null],
    ['the organization’s', [mail(null, { max_response_size_kb: 5 })], 5],
    [
      'the smaller',
      [mail(null, { max_response_size_kb: 5 }), mail('member', { max_response_size_kb: 2 })],
      2,
    ],
    ['never more than the organization’s', [mail(null, { max_response_size_kb: 5 }), mail('member', { max_response_size_kb: 9 })], 5], // prettier-ignore
  ])('largest output: %s', (_, policies, most) =>
    expect(compileToolAccess(policies, 'allow').largestOutput('mail_send', 'member')).toBe(most),
  )

  test('more values than can be compared are outside', () => {
    const to = Array.from({ length: 300_000 }, (__, n) => `a${n}@acme.com`)
    expect(refused([mail(null, acme)], { to })).toBe(ofOrganization)
  })
})

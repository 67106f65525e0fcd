import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { getTool } from '../../src/catalog/index.ts'
import { compileToolAccess, type RoleOverride, type ToolPolicy } from '../../src/policy/tool-access.ts'
import type { JsonObject, Role, SideEffect } from '../../src/policy/types.ts'

const policy = (over: Partial<ToolPolicy> = {}): ToolPolicy => ({
  toolName: 'Bash',
  role: null,
  allowed: null,
  restrictions: {},
  ...over,
})
type Fallback = 'allow' | 'deny'
const compiled = (
  policies: readonly ToolPolicy[],
  fallback: Fallback = 'allow',
  overrides: readonly RoleOverride[] = [],
) => compileToolAccess({ policies, overrides, fallback }, (tool) => getTool(tool)?.constraints ?? {})
const isBlocked = (
  policies: readonly ToolPolicy[],
  fallback: Fallback,
  role: Role = 'member',
  sideEffect: SideEffect = 'write',
): boolean => compiled(policies, fallback).refusal({ tool: 'Bash', role, sideEffect, params: null }) !== null

/** A policy, as `allowed` and `read_only`; null: there is none. */
type State = { readonly allowed: boolean | null; readonly isReadOnly: boolean } | null
const states: readonly State[] = [
  null,
  ...[true, null, false].flatMap((allowed) => [false, true].map((isReadOnly) => ({ allowed, isReadOnly }))),
]
const cells = states.flatMap((organization) =>
  states.flatMap((role) =>
    [undefined, true, false].flatMap((override) =>
      (['allow', 'deny'] as const).flatMap((fallback) =>
        (['read', 'write', 'egress'] as const).map(
          (side) => [organization, role, override, fallback, side] as const,
        ),
      ),
    ),
  ),
)

/** The expected answer of one cell, independent of the code's order of checks. */
function expected([organization, role, override, fallback, side]: (typeof cells)[number]): string | null {
  const said = [organization?.allowed, role?.allowed, override]
  const changes = side !== 'read'
  const refusals: [boolean, string][] = [
    [organization?.allowed === false, 'tool blocked by the organization'],
    [role?.allowed === false || override === false, 'tool blocked for role member'],
    [fallback === 'deny' && !said.includes(true), 'tool not allowed by any policy'],
    [changes && organization?.isReadOnly === true, 'tool is read-only in the organization'],
    [changes && role?.isReadOnly === true, 'tool is read-only for role member'],
  ]
  return refusals.find(([holds]) => holds)?.[1] ?? null
}

describe('organization, role, override, `read_only` and default together', () => {
  const shown = (state: State): string =>
    state === null ? 'no policy' : `allowed ${state.allowed}${state.isReadOnly ? ', read-only' : ''}`
  const rows = cells.map((cell) => {
    const [organization, role, override, fallback, side] = cell
    const said = override === undefined ? 'no override' : `override ${override}`
    const what = `organization: ${shown(organization)}; role: ${shown(role)}; ${said}; default ${fallback}; ${side}`
    return [what, expected(cell), cell] as const
  })

  test('has a row for each cell', () => expect(rows).toHaveLength(7 * 7 * 3 * 2 * 3))

  test.each(rows)('%s → %s', (_, reason, [organization, role, override, fallback, sideEffect]) => {
    const saved = (state: State, who: Role | null): ToolPolicy[] =>
      state === null
        ? []
        : [policy({ role: who, allowed: state.allowed, restrictions: { read_only: state.isReadOnly } })]
    const policies = [...saved(organization, null), ...saved(role, 'member')]
    const overrides = override === undefined ? [] : [{ toolName: 'Bash', role: 'member', allowed: override }]
    const access = compiled(policies, fallback, overrides)
    const asked = { tool: 'Bash', role: 'member', sideEffect } as const
    expect(access.refusal({ ...asked, params: null })?.reason ?? null).toBe(reason)
    // A run's call is decided in the same way.
    expect(access.refusal({ ...asked, params: {} })?.reason ?? null).toBe(reason)
    // A policy of one role or tool has no effect on others.
    const others = [...saved(role, 'viewer'), ...policies.map((each) => ({ ...each, toolName: 'Write' }))]
    const strangers = [
      { toolName: 'Bash', role: 'auditor', allowed: false },
      { toolName: 'Write', role: 'member', allowed: false },
    ]
    const beside = compiled([...policies, ...others], fallback, [...overrides, ...strangers])
    expect(beside.refusal({ ...asked, params: null })?.reason ?? null).toBe(reason)
  })
})

describe('how tool policies combine', () => {
  test.each<[string, ToolPolicy[], Fallback, SideEffect, boolean]>([
    ['none, open by default', [], 'allow', 'write', false],
    ['none, closed by default', [], 'deny', 'read', true],
    [
      'a role cannot lift the organization’s block',
      [policy({ allowed: false }), policy({ role: 'member', allowed: true })],
      'allow',
      'read',
      true,
    ],
    ['allowed opens what is closed', [policy({ allowed: true })], 'deny', 'write', false],
    ['a role’s too', [policy({ role: 'member', allowed: true })], 'deny', 'write', false],
    [
      'a role cannot lift the organization’s `read_only`',
      [
        policy({ restrictions: { read_only: true } }),
        policy({ role: 'member', allowed: true, restrictions: { read_only: false } }),
      ],
      'allow',
      'write',
      true,
    ],
  ])('%s', (_, policies, fallback, sideEffect, blocked) => {
    expect(isBlocked(policies, fallback, 'member', sideEffect)).toBe(blocked)
  })

  test.each<[string, boolean, ToolPolicy[], Fallback, boolean]>([
    ['opens a tool for its role', true, [], 'deny', false],
    ['blocks a tool for its role', false, [], 'allow', true],
    ['does not lift the organization’s block', true, [policy({ allowed: false })], 'allow', true],
    ['does not lift the block of a role’s policy', true, [policy({ role: 'member', allowed: false })], 'allow', true], // prettier-ignore
    ['does not lift the organization’s `read_only`', true, [policy({ restrictions: { read_only: true } })], 'allow', true], // prettier-ignore
    ['closes what the organization allows', false, [policy({ allowed: true })], 'deny', true],
  ])('an override %s', (_, allowed, policies, fallback, blocked) => {
    const access = compiled(policies, fallback, [{ toolName: 'Bash', role: 'member', allowed }])
    const refusal = access.refusal({ tool: 'Bash', role: 'member', sideEffect: 'write', params: null })
    expect(refusal !== null).toBe(blocked)
  })

  test('an additional block or limit never permits more', () => {
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

describe('limits of the organization and of a role apply together', () => {
  const mail = (role: Role | null, restrictions: ToolPolicy['restrictions']) =>
    policy({ toolName: 'mail_send', role, restrictions })
  const refused = (policies: ToolPolicy[], params: JsonObject, tool = 'mail_send') =>
    compiled(policies).refusal({ tool, role: 'member', sideEffect: 'egress', params })?.reason ?? null
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
    ['a role adds no domain', [mail(null, acme), mail('member', many)], { to: 'ann@acme.org' }, ofOrganization], // prettier-ignore
    ['another role’s limits', [mail('admin', acme)], { to: 'bo@evil.test' }, null],
    ['a text that fits', [mail(null, { max_message_length: 3 })], { text: 'abc' }, null],
    ['a longer one', [mail(null, { max_message_length: 3 })], { text: 'abcd' }, ofOrganization],
    ['a longer HTML', [mail(null, { max_message_length: 3 })], { text: '', html: 'abcd' }, ofOrganization],
    ['the smaller number holds', [mail(null, { max_message_length: 9 }), mail('member', { max_message_length: 3 })], { text: 'abcd' }, ofRole], // prettier-ignore
    ['the smaller number of the organization', [mail(null, { max_message_length: 3 }), mail('member', { max_message_length: 9 })], { text: 'abcd' }, ofOrganization], // prettier-ignore
  ])('%s', (_, policies, params, reason) => expect(refused(policies, params)).toBe(reason))

  test.each<[string, string, string | null]>([
    ['in both lists', 'acme/app', null],
    ['in the organization’s only', 'acme/web', ofRole],
    ['in the role’s only', 'role/app', ofOrganization],
    ['in neither', 'evil/app', ofOrganization],
  ])('repositories: one %s', (_, repo, reason) => {
    const limits = (role: Role | null, allowed_repos: string[]) =>
      policy({ toolName: 'github_comment', role, restrictions: { allowed_repos } })
    const policies = [limits(null, ['acme/*']), limits('member', ['acme/app', 'role/app'])]
    expect(refused(policies, { repo, body: 'b', number: 1 }, 'github_comment')).toBe(reason)
  })

  test.each<[string, ToolPolicy[], number | null]>([
    ['none', [], null],
    ['the organization’s', [mail(null, { max_response_size_kb: 5 })], 5],
    ['the smaller', [mail(null, { max_response_size_kb: 5 }), mail('member', { max_response_size_kb: 2 })], 2], // prettier-ignore
    ['never more than the organization’s', [mail(null, { max_response_size_kb: 5 }), mail('member', { max_response_size_kb: 9 })], 5], // prettier-ignore
  ])('largest output: %s', (_, policies, most) =>
    expect(compiled(policies).largestOutput('mail_send', ['member'])).toBe(most),
  )

  const folder = (role: Role | null, allowed_domains: string[], toolName = 'docs_create') =>
    policy({ toolName, role, restrictions: { allowed_domains } })
  test.each<[string, ToolPolicy[], string[][]]>([
    ['nobody says', [], []],
    ['the organization', [folder(null, ['acme.com'])], [['acme.com']]],
    ['the role too', [folder(null, ['acme.com']), folder('member', ['a.acme.com'])], [['acme.com'], ['a.acme.com']]], // prettier-ignore
    ['another role', [folder('admin', ['acme.com'])], []],
    ['for another tool', [folder(null, ['acme.com'], 'sheets_append')], []],
  ])('who may read a folder: %s', (_, policies, audience) => {
    expect(compiled(policies).audience('docs_create', ['member'])).toEqual(audience)
    // Only the service knows who can read the folder, so the parameters alone break no limit.
    expect(refused(policies, { title: 't', folder: 'f' }, 'docs_create')).toBeNull()
  })

  test.each<[string, ToolPolicy[], object]>([
    ['a block', [policy({ toolName: 'mail_send', role: 'member', allowed: false })], {}],
    ['`read_only`', [mail('member', { read_only: true })], {}],
    ['a list', [mail('member', acme)], { to: 'a@evil.test' }],
  ])('the role of a step’s author restricts its calls too: %s', (_, policies, params) => {
    const call = {
      tool: 'mail_send',
      role: 'admin',
      sideEffect: 'egress',
      params: { to: 'a@acme.com', ...params },
    } as const
    expect(compiled(policies).refusal(call)).toBeNull()
    expect(compiled(policies).refusal({ ...call, authorRoles: ['admin'] })).toBeNull()
    expect(compiled(policies).refusal({ ...call, authorRoles: ['admin', 'member'] })).toMatchObject({
      isCertain: true,
      explanation: expect.stringMatching(/, and somebody with this role wrote the step\.$/),
    })
  })

  test('where tools need a policy that allows them, the roles of requester and author both need one', () => {
    const access = compiled([], 'deny', [{ toolName: 'mail_send', role: 'admin', allowed: true }])
    const call = { tool: 'mail_send', role: 'admin', sideEffect: 'egress', params: {} } as const
    expect(access.refusal({ ...call, authorRoles: ['admin'] })).toBeNull()
    expect(access.refusal({ ...call, authorRoles: ['member'] })).toMatchObject({ isCertain: true })
  })

  test('the recipients of a mail are read from its parameters, and asked of no service', () => {
    expect(compiled([mail(null, acme)]).audience('mail_send', ['member'])).toEqual([])
  })

  test('a call with too many recipients to compare is refused', () => {
    const to = Array.from({ length: 300_000 }, (__, n) => `a${n}@acme.com`)
    expect(refused([mail(null, acme)], { to })).toBe(ofOrganization)
  })

  test('a refusal shows no value of a parameter', () => {
    const limits = { ...acme, max_message_length: 3 }
    const refusal = compiled([mail(null, limits)]).refusal({
      tool: 'mail_send',
      role: 'member',
      sideEffect: 'egress',
      params: { to: 'secret@evil.test', text: 'sss' },
    })
    expect(refusal?.explanation).toContain('`to` of this call has another')
    expect(refusal?.explanation).not.toContain('secret')
  })
})

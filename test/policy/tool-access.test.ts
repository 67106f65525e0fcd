import fc from 'fast-check'
import { describe, expect, test } from '@jest/globals'
import { getTool } from '../../src/tools/index.ts'
import { isWithinAudience, type Audience, type Reader } from '../../src/policy/audience.ts'
import { gateReasons, type GateSettings, type GatedWorkflow } from '../../src/policy/settings.ts'
import { assessRisk, isAtLeast, type RiskyTool } from '../../src/policy/risk.ts'
import { compileToolAccess, type RoleOverride, type ToolPolicy } from '../../src/policy/tool-access.ts'
import type { JsonObject, Role, SideEffect, Category } from '../../src/policy/types.ts'

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
    const asked = { tool: 'mail_send', role: 'admin', sideEffect: 'egress' } as const
    const call = { ...asked, params: { to: 'a@acme.com', ...params } }
    expect(compiled(policies).refusal(call)).toBeNull()
    expect(compiled(policies).refusal({ ...call, authorRoles: ['admin'] })).toBeNull()
    expect(compiled(policies).refusal({ ...call, authorRoles: ['admin', 'member'] })).toMatchObject({
      isCertain: true,
      explanation: expect.stringMatching(
        /, and somebody with this role wrote the step or edited the call\.$/,
      ),
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
    const params = { to: 'secret@evil.test', text: 'sss' }
    const asked = { tool: 'mail_send', role: 'member', sideEffect: 'egress', params } as const
    const refusal = compiled([mail(null, limits)]).refusal(asked)
    expect(refusal?.explanation).toContain('`to` of this call has another')
    expect(refusal?.explanation).not.toContain('secret')
  })
})

describe('a policy on `Bash` and the other tools that give commands to a shell', () => {
  const refusalOf = (
    tool: string,
    policies: ToolPolicy[],
    overrides: RoleOverride[] = [],
    fallback: Fallback = 'allow',
  ) => {
    const asked = { tool, role: 'member', sideEffect: 'write', params: null } as const
    return compiled(policies, fallback, overrides).refusal(asked)
  }
  const isReadOnly = { read_only: true }

  test.each('Monitor PowerShell run_shell_command bash Shell exec_command write_stdin'.split(' '))(
    'restricts %s',
    (tool) => {
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
    },
  )

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

const off: GateSettings = {
  require_approval_for_external_comm: false,
  require_approval_for_public_writes: false,
  require_approval_for_permission_changes: false,
  category_flags: {},
}
const workflow = (categories: string[], ...tools: [string, Category[]][]): GatedWorkflow => ({
  categories,
  tools: tools.map(([name, its]) => ({ name, categories: its })),
})
const flagOf = (category: Category) => `require_approval_for_${category}` as const
const categories: Category[] = ['external_comm', 'public_writes', 'permission_changes']

describe('settings that hold whole runs', () => {
  test.each(categories.flatMap((flag) => categories.map((category) => [flag, category] as const)))(
    'the flag of %s and a tool of %s',
    (flag, category) => {
      const reasons = gateReasons({ ...off, [flagOf(flag)]: true }, workflow([], ['a_tool', [category]]))
      if (flag === category)
        expect(reasons).toEqual([expect.stringMatching(`^\`a_tool\` .* \\(\`${flagOf(flag)}\`\\)$`)])
      else expect(reasons).toEqual([])
    },
  )

  test.each<[string, Record<string, boolean>, GatedWorkflow, string[]]>([
    ['the workflow’s own category', { financial: true }, workflow(['financial']), ['the workflow is of category `financial` (`category_flags`)']], // prettier-ignore
    ['a tool’s category', { external_comm: true }, workflow([], ['mail', ['external_comm']]), ['`mail` is of category `external_comm` (`category_flags`)']], // prettier-ignore
    ['another category', { financial: true }, workflow(['pii'], ['mail', ['external_comm']]), []],
    ['false', { financial: false, external_comm: false }, workflow(['financial'], ['mail', ['external_comm']]), []], // prettier-ignore
    ['a name that every object has', {}, workflow(['constructor', 'tostring']), []],
  ])('a category flag and %s', (_, category_flags, about, reasons) => {
    expect(gateReasons({ ...off, category_flags }, about)).toEqual(reasons)
  })

  test('every reason is given once, in the order of the settings', () => {
    const all: GateSettings = {
      require_approval_for_external_comm: true,
      require_approval_for_public_writes: true,
      require_approval_for_permission_changes: true,
      category_flags: { pii: true, external_comm: true },
    }
    const about = workflow(['pii'], ['mail', ['external_comm']], ['mail', ['external_comm']], ['post', ['public_writes']]) // prettier-ignore
    expect(gateReasons(all, about)).toEqual([
      '`mail` is external communication (`require_approval_for_external_comm`)',
      '`post` writes where the public can read (`require_approval_for_public_writes`)',
      'the workflow is of category `pii` (`category_flags`)',
      '`mail` is of category `external_comm` (`category_flags`)',
    ])
  })
})

const mail: RiskyTool = { name: 'mail_send', sideEffect: 'egress', risk: 'high', labels: [] }
const chat: RiskyTool = { ...mail, name: 'slack_send_message' }
const ticket: RiskyTool = { name: 'jira_create_issue', sideEffect: 'write', risk: 'medium', labels: [] }
const read: RiskyTool = { name: 'docs_read', sideEffect: 'read', risk: 'medium', labels: [] }
const search: RiskyTool = { name: 'web_search', sideEffect: 'read', risk: 'low', labels: [] }

describe('risk', () => {
  test.each([
    ['nothing', [], 'low'],
    ['reading the web', [search], 'low'],
    ['reading company data', [search, read], 'medium'],
    ['creating tickets', [ticket], 'medium'],
    ['sending mail', [read, mail], 'high'],
    ['sending mail twice is one reason', [mail, mail], 'high'],
    ['sending mail and messages', [mail, chat], 'critical'],
    ['sending confidential data', [{ ...mail, labels: ['confidential'] }], 'critical'],
    ['commenting with personal data', [{ ...mail, risk: 'medium', labels: ['pii'] }], 'critical'],
    ['reading with confidential inputs', [{ ...read, labels: ['confidential'] }], 'medium'],
    ['sending internal data', [{ ...mail, labels: ['internal'] }], 'high'],
  ] as const)('%s', (_, tools, level) => {
    const risk = assessRisk(tools as readonly RiskyTool[])
    expect(risk.level).toBe(level)
    expect(risk.reasons.length > 0).toBe(level !== 'low')
  })

  test('the most serious reason comes first, and none twice', () => {
    const risk = assessRisk([read, mail, { ...mail, labels: ['pii'] }, read])
    expect(risk.reasons).toEqual([
      '`mail_send` sends pii data out',
      '`mail_send` delivers content to people or places',
      '`docs_read` reads company data',
    ])
  })

  test('levels compare', () => {
    expect(isAtLeast('high', 'medium')).toBe(true)
    expect(isAtLeast('high', 'high')).toBe(true)
    expect(isAtLeast('medium', 'critical')).toBe(false)
  })
})

const address = (text: string): Reader => ({ kind: 'address', address: text })
const domain = (text: string): Reader => ({ kind: 'domain', domain: text })
const acme: Audience = [['acme.com']]

describe('everybody who can read is within the domains of each policy', () => {
  test.each<[string, Audience, readonly Reader[], boolean]>([
    ['nobody', acme, [], true],
    ['no policy', [], [{ kind: 'anybody' }], true],
    ['people and the whole domain', acme, [address('a@acme.com'), domain('acme.com')], true],
    ['a domain below', acme, [address('a@mail.acme.com'), domain('mail.acme.com')], true],
    ['capitals', [['ACME.com']], [address('A@Acme.COM')], true],
    ['several domains', [['acme.com', 'acme.org']], [address('a@acme.org'), domain('acme.com')], true],
    ['one outside', acme, [address('a@acme.com'), address('b@evil.test')], false],
    ['another domain', acme, [domain('evil.test')], false],
    ['everybody', acme, [{ kind: 'anybody' }], false],
    ['a domain above', [['mail.acme.com']], [domain('acme.com')], false],
    ['a domain that goes on', acme, [address('a@acme.com.evil.test')], false],
    ['a domain that ends alike', acme, [domain('evilacme.com')], false],
    ['mixed scripts', acme, [address('a@аcme.com')], false],
    ['two addresses in one', acme, [address('b@evil.test,a@acme.com')], false],
    ['two signs', acme, [address('b@evil.test@acme.com')], false],
    ['a name around it', acme, [address('"a@acme.com" <b@evil.test>')], false],
    ['no address', acme, [address('acme.com')], false],
    ['an empty domain', acme, [domain('')], false],
    ['a bucket that anybody can make', [['amazonaws.com']], [domain('evil.s3.amazonaws.com')], false],
    ['in both lists', [['acme.com', 'acme.org'], ['acme.com']], [address('a@acme.com')], true],
    ['in one of two lists', [['acme.com', 'acme.org'], ['acme.com']], [address('a@acme.org')], false],
  ])('%s', (_, audience, readers, isWithin) => {
    expect(isWithinAudience(audience, readers)).toBe(isWithin)
  })
})

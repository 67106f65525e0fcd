import { list, quote } from './text.ts'
import { limitNames, type LimitName, type Restrictions } from './tool-limits.ts'
import type { Role } from './types.ts'

/* Whether a change of a tool policy, an override, a group or the sign-in leaves every call as restricted as before. */

export interface PolicyBody {
  readonly allowed: boolean | null
  readonly restrictions: Restrictions
}

const open: PolicyBody = { allowed: null, restrictions: {} }

/** null for none. Empty: it blocks and limits as much, and allows no more. */
export function whyLooserPolicy(before: PolicyBody | null, after: PolicyBody | null): string[] {
  const [was, is] = [before ?? open, after ?? open]
  // A block stands above all limits.
  if (is.allowed === false) return []
  const loose = limitNames.filter((name) => !isAsNarrow(name, was.restrictions, is.restrictions))
  return [
    ...(was.allowed === false ? ['the tool would no longer be blocked'] : []),
    ...(is.allowed === true && was.allowed !== true ? ['the tool may be used where nothing allowed it'] : []),
    ...(loose.length === 0
      ? []
      : [`${list(loose.map(quote), 'and', loose.length)} may let more calls pass than now`]),
  ]
}

function isAsNarrow(name: LimitName, { [name]: was }: Restrictions, { [name]: is }: Restrictions): boolean {
  if (was === undefined || was === false) return true
  if (is === undefined) return false
  if (typeof was === 'number') return typeof is === 'number' && is <= was
  if (Array.isArray(was)) return Array.isArray(is) && is.every((each) => was.includes(each))
  return is === was
}

/** null for none. */
export const whyLooserOverride = (before: boolean | null, after: boolean | null): string[] => [
  ...(before === false && after !== false ? ['the tool would no longer be blocked'] : []),
  ...(after === true && before !== true ? ['the tool may be used where nothing allowed it'] : []),
]

/** What names a group: a rule or workflow lets its members decide or act, a policy or override allows or restricts. */
export interface GroupUse {
  readonly kind: 'rule' | 'workflow' | 'approval' | 'tool policy' | 'override'
  /** The name of the tool; for the approval of a run, of its workflow. */
  readonly name: string
  /** Only of a policy or an override. */
  readonly policy: PolicyBody | null
}

/** For members who come, and for members who go. */
export function whyLooserMembers(
  uses: readonly GroupUse[],
  { comes, goes }: { readonly comes: boolean; readonly goes: boolean },
): string[] {
  const found = uses.flatMap(({ kind, name, policy }) => {
    const lets = comes && (policy === null || whyLooserPolicy(null, policy).length > 0)
    const loses = goes && policy !== null && whyLooserPolicy(policy, null).length > 0
    const what = `the ${useWords[kind]} ${quote(name)}`
    return [
      ...(lets ? [`${what} would let another person act or decide`] : []),
      ...(loses ? [`${what} would no longer restrict a person`] : []),
    ]
  })
  return [...new Set(found)]
}

const useWords: Readonly<Record<GroupUse['kind'], string>> = {
  rule: 'rule',
  workflow: 'workflow',
  approval: 'waiting approval of',
  'tool policy': 'tool policy of',
  override: 'override of',
}

/** The provider of an organization: who can sign in as whom, and what its groups give. */
export interface SignInBody {
  readonly kind: 'oidc' | 'saml'
  readonly issuer: string
  readonly client_id: string
  readonly sso_url: string | null
  /** Or their fingerprints. */
  readonly certificates: readonly string[]
  readonly domains: readonly string[]
  readonly groups_claim: string | null
  readonly role_map: Readonly<Record<string, Role>>
  readonly group_map: Readonly<Record<string, string>>
  readonly default_role: Role | null
  readonly checks_factor: boolean
}

/** null for none. Empty: nobody can sign in who could not, and nobody gets a higher role or into another group. */
export function whyLooserSignIn(before: SignInBody | null, after: SignInBody): string[] {
  const isNew = (name: 'certificates' | 'domains', value: string) => before?.[name].includes(value) !== true
  const isSame =
    before !== null &&
    (['kind', 'issuer', 'client_id', 'sso_url'] as const).every((name) => before[name] === after[name]) &&
    !after.certificates.some((each) => isNew('certificates', each))
  const [was, is] = [mapsOf(before), mapsOf(after)]
  const otherwise = before?.default_role ?? null
  const [wasFree, isFree] = [was.roles.size === 0, is.roles.size === 0]
  const isRead = was.claim === is.claim
  const higher = [...is.roles].filter(
    ([group, role]) =>
      wasFree || !isRead || !isAtMost(role, highest(was.roles.get(group) ?? null, otherwise)),
  )
  const keepsGroups =
    (isRead || is.groups.length === 0) && JSON.stringify(is.groups) === JSON.stringify(was.groups)
  return [
    ...(isSame ? [] : ['whoever runs the provider could sign in as a member of its domains']),
    ...after.domains
      .filter((domain) => isNew('domains', domain))
      .map((domain) => `people with an address of ${quote(domain)} could sign in`),
    ...(isAtMost(after.default_role, otherwise)
      ? []
      : [`people whose groups give no role could get the role ${quote(String(after.default_role))}`]),
    ...higher.map(([group, role]) => `the provider’s group ${quote(group)} could give the role ${quote(role)}`), // prettier-ignore
    ...(isFree && !wasFree ? ['a role would stay when the provider takes it away'] : []),
    ...(keepsGroups ? [] : ['a sign-in could put other people into a group, or leave them in it']),
    ...(after.checks_factor && before?.checks_factor !== true
      ? ['a sign-in without a second factor would count as one with it']
      : []),
  ]
}

/** Without the claim, or a map, sign-ins leave roles and groups as they are. */
function mapsOf(body: SignInBody | null) {
  const claim = body?.groups_claim ?? null
  const entries = <Value>(map: Readonly<Record<string, Value>> = {}) =>
    claim === null ? [] : Object.entries(map).sort(([one], [other]) => (one < other ? -1 : 1))
  return { claim, roles: new Map(entries(body?.role_map)), groups: entries(body?.group_map) }
}

const fromLow: readonly (Role | null)[] = [null, 'viewer', 'member', 'admin', 'owner']
const isAtMost = (role: Role | null, most: Role | null): boolean =>
  fromLow.indexOf(role) <= fromLow.indexOf(most)
const highest = (one: Role | null, other: Role | null): Role | null => (isAtMost(one, other) ? other : one)

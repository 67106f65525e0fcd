import type { Role } from '../../policy/types.ts'

/** Every scope, with the lowest role that can use it. A key has some of them, or all of an area (`runs:*`). */
export const scopes = {
  'workflows:read': 'viewer',
  'workflows:write': 'member',
  'runs:read': 'viewer',
  'runs:write': 'member',
  // A viewer reads and decides only what a group of theirs decides.
  'approvals:read': 'viewer',
  'approvals:decide': 'viewer',
  'rules:read': 'member',
  'rules:write': 'admin',
  'governance:read': 'admin',
  'governance:write': 'owner',
  'policies:read': 'admin',
  'policies:write': 'owner',
  'quota:read': 'admin',
  'quota:write': 'owner',
  'audit:read': 'admin',
  'registry:write': 'owner',
  'tools:read': 'viewer',
  'tools:connect': 'member',
  'memory:read': 'member',
  'memory:write': 'member',
  'files:write': 'member',
  'agents:authorize': 'member',
  'agents:read': 'member',
  'agents:revoke': 'member',
  'secrets:*': 'admin',
  'api_keys:*': 'viewer',
  'organizations:read': 'admin',
  'organizations:*': 'viewer',
} as const satisfies Record<string, Role>
export type Scope = keyof typeof scopes

const names = Object.keys(scopes) as Scope[]
export const allScopes: readonly Scope[] = names
const areas = new Set(names.map((scope) => scope.slice(0, scope.indexOf(':'))))
const ranks = { viewer: 0, member: 1, admin: 2, owner: 3 } as const satisfies Record<Role, number>

export const isRoleName = (name: string): name is Role => Object.hasOwn(ranks, name)

export function hasRole(role: Role, minimum: Role): boolean {
  return ranks[role] >= ranks[minimum]
}

export function rolesFrom(minimum: Role): Role[] {
  return (Object.keys(ranks) as Role[]).filter((role) => hasRole(role, minimum))
}

/** A known scope, or a known area with `:*`. */
export function isScope(text: string): boolean {
  return Object.hasOwn(scopes, text) || (text.endsWith(':*') && areas.has(text.slice(0, -2)))
}

export function covers(held: readonly string[], wanted: string): boolean {
  return held.includes(wanted) || held.includes(`${wanted.slice(0, wanted.indexOf(':'))}:*`)
}

export function scopesOfRole(role: Role): Scope[] {
  return names.filter((scope) => hasRole(role, scopes[scope]))
}

/** The lowest role that can use this scope; for `AREA:*`, one that can use every scope of the area. */
export function roleOfScope(scope: string): Role {
  if (Object.hasOwn(scopes, scope)) return scopes[scope as Scope]
  const area = scope.slice(0, scope.indexOf(':') + 1)
  const roles: Role[] = names.filter((name) => name.startsWith(area)).map((name) => scopes[name])
  return roles.reduce((highest, role) => (hasRole(role, highest) ? role : highest), 'viewer')
}

export const isAgentsOnly = (held: readonly string[]): boolean =>
  held.length > 0 && held.every((scope) => scope === 'agents:authorize')

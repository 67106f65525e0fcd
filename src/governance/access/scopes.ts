import type { Role } from '../../policy/types.ts'

/**
 * Every scope, with the lowest role that can use the scope. A key has some of these scopes, or all scopes of an area
 * (`runs:*`). A call needs both the scope and the role.
 */
export const scopes = {
  'workflows:read': 'viewer',
  'workflows:write': 'member',
  'runs:read': 'viewer',
  'runs:write': 'member',
  'approvals:read': 'member',
  'approvals:decide': 'admin',
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
  'agents:read': 'admin',
  'agents:revoke': 'admin',
  'secrets:*': 'admin',
  'api_keys:*': 'viewer',
  'organizations:*': 'viewer',
} as const satisfies Record<string, Role>
export type Scope = keyof typeof scopes

const names = Object.keys(scopes) as Scope[]
export const allScopes: readonly Scope[] = names
const areas = new Set(names.map((scope) => scope.slice(0, scope.indexOf(':'))))
const ranks = { viewer: 0, member: 1, admin: 2, owner: 3 } as const satisfies Record<Role, number>

/** Whether `role` includes the rights of `minimum`. */
export function hasRole(role: Role, minimum: Role): boolean {
  return ranks[role] >= ranks[minimum]
}

/** Returns the roles that include the rights of `minimum`. */
export function rolesFrom(minimum: Role): Role[] {
  return (Object.keys(ranks) as Role[]).filter((role) => hasRole(role, minimum))
}

/**
 * Whether a key may have this scope. The text must be a known scope, or a known area with `:*`, for example `runs:*`.
 */
export function isScope(text: string): boolean {
  return Object.hasOwn(scopes, text) || (text.endsWith(':*') && areas.has(text.slice(0, -2)))
}

/** Whether `held` contains the wanted scope, or all scopes of its area. Example: `runs:*` covers `runs:read`. */
export function covers(held: readonly string[], wanted: string): boolean {
  return held.includes(wanted) || held.includes(`${wanted.slice(0, wanted.indexOf(':'))}:*`)
}

export function scopesOfRole(role: Role): Scope[] {
  return names.filter((scope) => hasRole(role, scopes[scope]))
}

/**
 * Returns the lowest role that can use this scope. For `AREA:*`, returns the lowest role that can use every scope of
 * the area.
 */
export function roleOfScope(scope: string): Role {
  if (Object.hasOwn(scopes, scope)) return scopes[scope as Scope]
  const area = scope.slice(0, scope.indexOf(':') + 1)
  const roles: Role[] = names.filter((name) => name.startsWith(area)).map((name) => scopes[name])
  return roles.reduce((highest, role) => (hasRole(role, highest) ? role : highest), 'viewer')
}

/** Whether a key with these scopes can only ask for decisions. */
export const isAgentsOnly = (held: readonly string[]): boolean =>
  held.length > 0 && held.every((scope) => scope === 'agents:authorize')

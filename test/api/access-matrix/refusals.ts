import { covers, hasRole } from '../../../src/governance/access/scopes.ts'
import type { Role } from '../../../src/policy/types.ts'
import type { Caller } from './callers.ts'
import { accessTo, scopesTo, type GuardedKey } from './valid-requests.ts'

/** The first scope of the route that the caller lacks. */
export const missingScope = (key: GuardedKey, { scopes }: Caller) =>
  scopesTo(key).find((scope) => !covers(scopes, scope))

/**
 * The code with which the caller is refused, or null if the caller may enter. Checks come in this order: 401,
 * `missing_scope`, 404, `insufficient_role`. `createdBy` says whose object the request names.
 */
export function refusalOf(
  key: GuardedKey,
  caller: Caller,
  organizationId: string | null,
  createdBy: 'caller' | 'owner',
): string | null {
  const { role, subject, factor } = accessTo(key)
  if (caller.person === null) return 'unauthenticated'
  if (missingScope(key, caller) !== undefined) return 'missing_scope'
  if (subject === 'nothing') return null
  const theirRole = organizationId === null ? undefined : caller.roles.get(organizationId)
  if (theirRole === undefined || (createdBy === 'owner' && !sees(key, theirRole))) return 'not_found'
  if (factor === true && caller.isSignedIn !== true) return 'mfa_required'
  return hasRole(theirRole, role) ? null : 'insufficient_role'
}

/** Whether a person with this role can see a key or a personal connection of the owner. */
function sees(key: GuardedKey, role: Role): boolean {
  const { subject } = accessTo(key)
  return hasRole(role, subject === 'api_key' ? 'owner' : subject === 'connection' ? 'admin' : 'viewer')
}

export const statusOf: Record<string, number> = {
  unauthenticated: 401,
  missing_scope: 403,
  mfa_required: 403,
  not_found: 404,
  insufficient_role: 403,
}

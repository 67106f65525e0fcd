import { refused, type Decided } from '../../policy/decide.ts'
import type { CallSource, Role } from '../../policy/types.ts'
import { hasRole } from './scopes.ts'

/** Returns the denial that every call for a person with this role gets; null if the role may make calls. */
export function refusalOfRole(source: CallSource, role: Role): Decided | null {
  if (hasRole(role, 'member')) return null
  if (source === 'workflows')
    return refused('requester may not run tools', `the person who started this run is only a ${role}`)
  return refused(
    'role may not ask',
    `The person this agent acts for has the role \`${role}\`: agents need \`member\`.`,
  )
}

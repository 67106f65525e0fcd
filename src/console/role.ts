import type { Role } from '../policy/types.ts'
import type { PersonsVisit } from './visit.ts'

const order: readonly Role[] = ['viewer', 'member', 'admin', 'owner']

/**
 * Returns whether `role` is at least `least`. The result changes only what a page offers, because the API checks each
 * action.
 */
export const hasRole = (role: Role | null, least: Role): boolean =>
  role !== null && order.indexOf(role) >= order.indexOf(least)

/** Returns the visitor's role in an organization, or null if the visitor is not a member. */
export const roleIn = ({ person }: PersonsVisit, organizationId: string): Role | null =>
  person.organizations.find(({ id }) => id === organizationId)?.role ?? null

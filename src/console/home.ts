import { inboxPath } from '../contract/pages.ts'
import { hasRole } from './role.ts'
import type { Person } from './visit.ts'

/** The pages with lists. Each entry has the path, the title, and the lowest role that may read the list. */
const places = [
  [inboxPath, 'Approvals', 'member'],
  ['/console/runs', 'Runs', 'viewer'],
  ['/console/sessions', 'Agents', 'admin'],
] as const

/** Returns the lists that a person may read. A person without an organization gets the lists of the role `member`. */
export const placesOf = ({ organization }: Pick<Person, 'organization'>) =>
  places.filter(([, , least]) => hasRole(organization?.role ?? 'member', least))

/** Returns the path of the list that a person sees first. */
export const homeOf = (person: Pick<Person, 'organization'>): string => placesOf(person)[0]?.[0] ?? inboxPath

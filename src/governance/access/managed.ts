import type { ManagedBy } from '../../db/schema/policy.ts'
import { errorAt, type DomainError } from '../errors.ts'

/* What comes from files of a repository is changed there, so that the files stay true (docs/files-and-ci.md). */

/** Such as "`rules/mail.yaml` in https://github.com/acme/rules". */
export function sourceOf({ path, repository }: Pick<ManagedBy, 'path' | 'repository'>): string {
  const file = path === null ? 'a file' : `\`${path}\``
  return repository === null ? file : `${file} in ${repository}`
}

const comesFrom = (organizationId: string, managed: ManagedBy): DomainError =>
  errorAt(
    'conflict',
    'managed_by',
    `it comes from ${sourceOf(managed)}: change it there, or give it back to people first with \`POST /organizations/${organizationId}/release\``,
  )

/** Throws `conflict` for an object that comes from a file. */
export function refuseManaged(organizationId: string, managed: ManagedBy | null): void {
  if (managed !== null) throw comesFrom(organizationId, managed)
}

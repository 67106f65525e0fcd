import type { Caller } from '../governance/access/identity.ts'
import { ApiError } from './errors.ts'

/**
 * Returns `organization_id` from the query. If the query has none, returns `organization_id` from the body, else null.
 */
export function organizationNamed(query: Record<string, string>, body: unknown): string | null {
  return query['organization_id'] ?? organizationOfBody(body)
}

/**
 * Throws 422 if the query and the body name different organizations. The service does not choose one of them, because
 * it could create the object in the wrong organization.
 */
export function requireOneOrganization(query: Record<string, string>, body: unknown): void {
  const [inQuery, inBody] = [query['organization_id'], organizationOfBody(body)]
  if (inQuery === undefined || inBody === null || inQuery === inBody) return
  const message = 'the body names another organization than the query: name only one'
  throw new ApiError('validation_error', message, [
    {
      path: 'organization_id',
      message: `\`${inBody.slice(0, 100)}\` in the body, \`${inQuery.slice(0, 100)}\` in the query`,
    },
  ])
}

/**
 * Throws 422 if the query or the body names an organization, and the object in the path belongs to another
 * organization.
 */
export function requireSubjectsOrganization(
  query: Record<string, string>,
  body: unknown,
  caller: Caller,
): void {
  const named = organizationNamed(query, body)
  if (named === null || named === caller.organizationId) return
  const message =
    'the path names an object of another organization than `organization_id`: leave `organization_id` out'
  throw new ApiError('validation_error', message, [{ path: 'organization_id', message }])
}

/**
 * Returns the `organization_id` of the body, or null. A value that is not a text counts as null here. The validation of
 * the body refuses such a value later.
 */
function organizationOfBody(body: unknown): string | null {
  if (typeof body !== 'object' || body === null || !Object.hasOwn(body, 'organization_id')) return null
  const named = (body as { organization_id: unknown }).organization_id
  return typeof named === 'string' ? named : null
}

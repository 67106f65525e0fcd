import type { Caller } from '../governance/identity.ts'
import { ApiError } from './errors.ts'

/** `organization_id` of the query, else of the body. */
export function organizationNamed(query: Record<string, string>, body: unknown): string | null {
  return query['organization_id'] ?? organizationOfBody(body)
}

/** Which of two organizations is meant is not for us to guess: what is made would be in the wrong one. */
export function requireOneOrganization(query: Record<string, string>, body: unknown): void {
  const [inQuery, inBody] = [query['organization_id'], organizationOfBody(body)]
  if (inQuery === undefined || inBody === null || inQuery === inBody) return
  const message = 'the body names another organization than the query: name one'
  throw new ApiError('validation_error', message, [
    {
      path: 'organization_id',
      message: `\`${inBody.slice(0, 100)}\` in the body, \`${inQuery.slice(0, 100)}\` in the query`,
    },
  ])
}

/** Nor is it where the path says it: what was asked for there would happen here. */
export function requireSubjectsOrganization(
  query: Record<string, string>,
  body: unknown,
  caller: Caller,
): void {
  const named = organizationNamed(query, body)
  if (named === null || named === caller.organizationId) return
  const message =
    'what the path names belongs to another organization than `organization_id` says: leave it out'
  throw new ApiError('validation_error', message, [{ path: 'organization_id', message }])
}

/** Of another type than text it is left to validation to refuse. */
function organizationOfBody(body: unknown): string | null {
  if (typeof body !== 'object' || body === null || !Object.hasOwn(body, 'organization_id')) return null
  const named = (body as { organization_id: unknown }).organization_id
  return typeof named === 'string' ? named : null
}

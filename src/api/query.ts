import type { Request } from 'express'
import { z } from 'zod'
import { ApiError } from './errors.ts'
import type { Route } from './route.ts'

export interface ReadQuery {
  readonly query: Record<string, string>
  readonly repeated: string | null
}

/** As text. Throws 400 for NUL characters. */
export function readQuery(request: Pick<Request, 'url'>): ReadQuery {
  const start = request.url.indexOf('?')
  const query: Record<string, string> = Object.create(null) as Record<string, string>
  let repeated: string | null = null
  if (start < 0) return { query, repeated }
  for (const [name, value] of new URLSearchParams(request.url.slice(start + 1))) {
    if (name.includes('\u0000') || value.includes('\u0000'))
      throw new ApiError('bad_request', 'a query parameter must not contain NUL characters')
    if (name in query) repeated ??= name
    else query[name] = value
  }
  return { query, repeated }
}

export function refuseRepeated(name: string | null): void {
  if (name === null) return
  const message = 'is given more than once: give it once'
  throw new ApiError('validation_error', `\`${name.slice(0, 100)}\` ${message}`, [{ path: name, message }])
}

/**
 * An unknown parameter is an error, because a list with a misspelt filter would show everything (docs/decisions/0021).
 * `organization_id` is allowed for the subject `own` (subjects.ts).
 */
export function queryOf(route: Pick<Route, 'key' | 'needs' | 'query'>): z.ZodObject {
  const schema = schemas.get(route.key) ?? strictQuery(route)
  schemas.set(route.key, schema)
  return schema
}

const schemas = new Map<Route['key'], z.ZodObject>()

function strictQuery(route: Pick<Route, 'key' | 'needs' | 'query'>): z.ZodObject {
  const declared = route.query ?? z.object({})
  // connections.ts and triggers.ts are loose, because another server chooses the names of its parameters.
  if (declared.def.catchall !== undefined) return declared
  return (route.needs?.subject === 'own' ? declared.extend(organizationQuery.shape) : declared).strict()
}

export function wholeNumber(minimum: number, maximum: number) {
  return z
    .string()
    .regex(/^\d{1,9}$/, `must be a whole number from ${minimum} to ${maximum}`)
    .transform(Number)
    .refine((number) => number >= minimum && number <= maximum, `must be from ${minimum} to ${maximum}`)
    .meta({ type: 'integer', minimum, maximum })
}

export const flag = z
  .enum(['true', 'false'])
  .transform((text) => text === 'true')
  .meta({ type: 'boolean' })

export const filter = z.string().min(1).max(200)

/** ISO 8601 with an offset, or a date, which means the beginning of that day in UTC. */
export const instant = z
  .union([z.iso.datetime({ offset: true }), z.iso.date()], {
    error: 'must be ISO 8601, e.g. `2026-01-31T00:00:00Z`',
  })
  .transform((text) => new Date(text))
  .meta({ type: 'string', format: 'date-time' })

/** If it is missing, the organization of the key or of the sign-in session. */
export const organizationQuery = z.object({ organization_id: filter.optional() })

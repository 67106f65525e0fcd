import type { z } from 'zod'
import type { ErrorDetail } from '../governance/errors.ts'
import { issuesOf } from '../governance/validation.ts'
import { ApiError } from './errors.ts'

/** The value as the schema reads it; 422 `validation_error` naming every field that is wrong or unknown. */
export function validate<T>(schema: z.ZodType<T>, value: unknown, what: string): T {
  const parsed = schema.safeParse(value)
  if (parsed.success) return parsed.data
  const details = issuesOf(parsed.error.issues)
  throw new ApiError('validation_error', summary(what, details), details)
}

function summary(what: string, details: readonly ErrorDetail[]): string {
  const first = details[0]
  if (first === undefined) return `${what} is not valid`
  const rest = details.length > 1 ? ` (and ${details.length - 1} more)` : ''
  return `${what} is not valid: ${first.path === '' ? '' : `\`${first.path}\` `}${first.message}${rest}`
}

import type { z } from 'zod'
import { headlineWithField, readAs } from '../policy/issues.ts'
import { ApiError } from './errors.ts'

/** Parses the value with the schema. Throws 422 `validation_error`, which names every wrong or unknown field. */
export function validate<T>(schema: z.ZodType<T>, value: unknown, what: string): T {
  const read = readAs(schema, value)
  if (read.ok) return read.value
  throw new ApiError('validation_error', headlineWithField(`${what} is not valid`, read.issues), read.issues)
}

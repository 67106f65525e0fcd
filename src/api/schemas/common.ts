import { z } from 'zod'
import { filter, wholeNumber } from '../query.ts'
import { statusOf, type ErrorCode } from '../errors.ts'

/** ISO 8601 in UTC. */
export const time = z.iso.datetime()
export const id = z.string()

/** The form of every error (contract section 1). */
export const errorAnswer = z
  .strictObject({
    error: z.strictObject({
      code: z.enum(Object.keys(statusOf) as [ErrorCode, ...ErrorCode[]]),
      message: z.string(),
      details: z.array(z.strictObject({ path: z.string(), message: z.string() })),
    }),
    meta: z.strictObject({ request_id: z.string() }),
  })
  .meta({ id: 'Error' })

/** One page of a list, newest first. */
export const listOf = <T extends z.ZodType>(item: T) =>
  z.strictObject({ data: z.array(item), next_cursor: z.string().nullable() })

export const listQuery = z.object({
  limit: wholeNumber(1, 200).default(50),
  cursor: filter.optional(),
  organization_id: filter.optional(),
})

export const side = z.enum(['read', 'write', 'egress'])
export const verdict = z.enum(['allow', 'require_approval', 'deny'])
export const role = z.enum(['viewer', 'member', 'admin', 'owner'])
export const riskLevel = z.enum(['low', 'medium', 'high', 'critical'])
export const labels = z.array(z.string())
export const scopeMap = z.record(z.string(), z.boolean())
/** Any JSON value. */
export const anyJson = z.unknown().meta({ description: 'any JSON value' })

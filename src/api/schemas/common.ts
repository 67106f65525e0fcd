import { z } from 'zod'
import { reversibilities } from '../../tools/kit/tool.ts'
import { ruleShape } from '../../governance/rules/rule-kinds.ts'
import { governanceSettings } from '../../policy/settings.ts'
import { filter, wholeNumber } from '../query.ts'
import { statusOf, type ErrorCode } from '../errors.ts'

export const time = z.iso.datetime()
export const id = z.string()

/** In openapi.json the schema has this name, which generated clients use for their types. */
export const named = <T extends z.ZodRawShape>(name: string, shape: T) =>
  z.strictObject(shape).meta({ id: name })

export const problem = z.strictObject({ path: z.string(), message: z.string() })

export const errorAnswer = named('Error', {
  error: z.strictObject({
    code: z.enum(Object.keys(statusOf) as [ErrorCode, ...ErrorCode[]]),
    message: z.string(),
    details: z.array(problem),
  }),
  meta: z.strictObject({ request_id: z.string() }),
})

/** On the last page, `next_cursor` is null. */
export const listOf = <T extends z.ZodType>(item: T) =>
  z.strictObject({ data: z.array(item), next_cursor: z.string().nullable() })

export const listQuery = z.object({
  limit: wholeNumber(1, 200).default(50),
  cursor: filter.optional(),
  organization_id: filter.optional(),
})

/** For routes whose path names the organization. */
export const listQueryOfPath = listQuery.omit({ organization_id: true })
export const pageIn = ({ limit, cursor }: { limit: number; cursor?: string | undefined }) => ({
  limit,
  cursor: cursor ?? null,
})

export const side = ruleShape.side_effects.unwrap().element
export const destination = z
  .string()
  .nullable()
  .describe(
    'the host to which the call goes, with the port if it is not the default; null: the call stays here, has no connection, or is of an agent',
  )
export const verdict = ruleShape.verdict
export const role = z.enum(['viewer', 'member', 'admin', 'owner'])
export const riskLevel = governanceSettings.shape.approval_required_from.unwrap().unwrap()
export const reversible = z.enum(reversibilities)
/** The lowest role whose votes count for an approval. */
export const approver = ruleShape.approver.unwrap()
export const labels = z.array(z.string())
export const scopeMap = z.record(z.string(), z.boolean())
export const matchedRule = z.strictObject({ id, name: z.string(), verdict, shadow: z.boolean() })
export const anyJson = z.unknown().describe('any JSON value')

export const emptyBody = z.strictObject({})

import { z } from 'zod'
import { reversibilities } from '../../tools/kit/tool.ts'
import { ruleShape } from '../../governance/rules/rule-kinds.ts'
import { seatInput } from '../../policy/rule.ts'
import { governanceSettings } from '../../policy/settings.ts'
import { filter, wholeNumber } from '../query.ts'
import { statusOf, type ErrorCode } from '../errors.ts'

export const time = z.iso.datetime()
export const id = z.string()

/*
 * In openapi.json a named schema has this name. Generated clients use it for their types: without one, a generator
 * makes a type for each use. A published name must not change.
 */

export const named = <T extends z.ZodRawShape>(name: string, shape: T) =>
  z.strictObject(shape).meta({ id: name })

/** By their names, a contained schema before those that contain it. */
export const calledSchemas = new Map<string, z.ZodType>()

/** Names a schema that is declared elsewhere, or used with other words or as nullable: each use refers to the name. */
export function called<S extends z.ZodType>(name: string, schema: S): S {
  calledSchemas.set(name, schema)
  return schema
}

export const problem = called('Problem', z.strictObject({ path: z.string(), message: z.string() }))

export const errorAnswer = named('Error', {
  error: z.strictObject({
    code: called('ErrorCode', z.enum(Object.keys(statusOf) as [ErrorCode, ...ErrorCode[]])),
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

export const side = called('SideEffect', ruleShape.side_effects.unwrap().element)
export const destination = z
  .string()
  .nullable()
  .describe(
    'the host to which the call goes, with the port if it is not the default; null: the call stays here, has no connection, or is of an agent',
  )
export const verdict = called('Verdict', ruleShape.verdict)
export const role = called('Role', z.enum(['viewer', 'member', 'admin', 'owner']))
export const riskLevel = called(
  'RiskLevel',
  governanceSettings.shape.approval_required_from.unwrap().unwrap(),
)
export const reversible = z.enum(reversibilities)
/** The lowest role whose votes count for an approval. */
export const approver = called('Approver', z.enum(['admin', 'owner']))
/** So many people of a role or a group, as a rule names them. */
called('ApproverSeat', seatInput)
const later = z.union([
  z.strictObject({ role: approver, at: time.optional(), after_seconds: z.int().optional() }),
  z.strictObject({ group: id, at: time.optional(), after_seconds: z.int().optional() }),
])
export const also = z
  .array(called('LaterApprover', later))
  .optional()
  .describe('who is asked too, and may fill it, from `at` on, or so many seconds after a call is held')
const askedSeat = z.union([
  z.strictObject({ role: approver, count: z.int(), also }),
  z.strictObject({ group: id, count: z.int(), also }),
  z.strictObject({ person: z.string().describe('only of a question'), count: z.int(), also }),
])
export const approvers = z
  .array(called('AskedSeat', askedSeat))
  .describe('who must approve: all of them, by different people')
export const cannotBeGiven = z
  .string()
  .nullable()
  .describe('why nobody can give the approval now, and what an owner can do; null if somebody can')
export const labels = z.array(z.string())
/** In place of values that the caller may not see. */
export const valuesHidden = called(
  'ValuesHidden',
  z.strictObject({
    reason: z.string().describe('who sees the values, and why you do not'),
    ask: z.array(z.string()).describe('who can show you more: addresses, roles and groups'),
  }),
)
/** What only its file changes. */
export const managedBy = called(
  'ManagedBy',
  z.strictObject({
    repository: z.string().nullable(),
    path: z.string().nullable().describe('the file'),
    commit: z.string().nullable().describe('with which it became what it is'),
    applied_at: time,
  }),
)
  .nullable()
  .describe('the file that it comes from; null: people change it (docs/files-and-ci.md)')
export const scopeMap = z.record(z.string(), z.boolean())
export const matchedRule = called(
  'MatchedRule',
  z.strictObject({ id, name: z.string(), verdict, shadow: z.boolean() }),
)
export const anyJson = z.unknown().describe('any JSON value')

export const emptyBody = named('EmptyRequest', {})

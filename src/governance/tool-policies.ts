import { z } from 'zod'
import type { Selectable } from 'kysely'
import { catalog, getTool } from '../catalog/index.ts'
import type { Context } from '../context.ts'
import type { ToolPoliciesTable } from '../db/schema/agents.ts'
import { domain } from '../policy/condition.ts'
import { headline } from '../policy/issues.ts'
import { limitNames, type LimitName, type Restrictions } from '../policy/tool-limits.ts'
import { toolNameIssue } from '../policy/tool-names.ts'
import type { JsonObject, Role } from '../policy/types.ts'
import { hashOf } from './canonical.ts'
import type { ChainTx } from './chain-tx.ts'
import { violates } from './database-errors.ts'
import { DomainError, notFound } from './errors.ts'
import type { Once } from './idempotency.ts'
import { actorOf, type Caller } from './identity.ts'
import { growAs } from './quotas/storage.ts'
import { runAs } from './standing.ts'

const role = z.enum(['viewer', 'member', 'admin', 'owner'])

/** A policy names one tool, not many: `*` would read as if it were a rule. */
const toolName = z
  .string()
  .min(1)
  .max(200)
  .refine((name) => !/[*?]/.test(name), 'name one tool: globs belong into rules')
  .superRefine((name, context) => {
    const message = toolNameIssue(name)
    if (message !== null) context.addIssue({ code: 'custom', message })
  })

/** Limits of a policy. A tool takes some of them (`limitIssues`); others are refused until they are enforced. */
const restrictions = z.strictObject({
  read_only: z.boolean().optional(),
  allowed_domains: z
    .array(domain)
    .min(1, 'name at least one domain; `allowed: false` blocks the tool')
    .max(1000)
    .optional()
    .describe('Every recipient must be in one of them, or below it.'),
  max_message_length: z
    .int()
    .min(1)
    .max(10_000_000)
    .optional()
    .describe('Most characters of a message’s text, and of its HTML.'),
  max_response_size_kb: z
    .int()
    .min(1)
    .max(32 * 1024)
    .optional()
    .describe('Largest output as JSON, in KiB.'),
})

/** Body of POST (specification, "Tool policy"). */
export const toolPolicyBody = z.strictObject({
  tool_name: toolName,
  allowed: z.boolean().nullable().default(null),
  restrictions: restrictions.default({}),
  role: role.optional(),
})
/** Body of PATCH; `role` says whose policy is meant. */
export const toolPolicyPatch = z.strictObject({
  allowed: z.boolean().nullable().optional(),
  restrictions: restrictions.optional(),
  role: role.optional(),
})

export interface ToolPolicyView {
  readonly tool_name: string
  /** null: the organization's. */
  readonly role: Role | null
  readonly allowed: boolean | null
  readonly restrictions: Restrictions
  readonly created_by: string
  readonly created_at: string
  readonly updated_at: string
}

/** All of them, by tool and role: there is at most one for each. */
export async function listToolPolicies(
  { db }: Context,
  organizationId: string,
): Promise<readonly ToolPolicyView[]> {
  const rows = await db
    .selectFrom('tool_policies')
    .selectAll()
    .where('organization_id', '=', organizationId)
    .orderBy('tool_name')
    .orderBy('role')
    .execute()
  return rows.map(viewOf)
}

/** A limit that the tool does not take would be kept and never hold anything: `validation_error` says which tools do. */
function refuseLimits(tool: string, given: Restrictions): void {
  const takes = limitsOf(tool)
  const issues = limitNames
    .filter((name) => given[name] !== undefined && !takes.includes(name))
    .map((name) => {
      const others = Object.values(catalog).filter(({ constraints }) => limitsIn(constraints).includes(name))
      const which = others.map((each) => `\`${each.name}\``).join(', ')
      const message = `\`${tool}\` does not take \`${name}\`; ${which}${name === 'read_only' ? ' and the tools of agents' : ''} ${others.length === 1 ? 'does' : 'do'}`
      return { path: `restrictions.${name}`, message }
    })
  if (issues.length === 0) return
  throw new DomainError('validation_error', headline('the policy cannot be saved', issues), issues)
}

const limitsIn = (constraints: readonly LimitName[]): readonly LimitName[] => constraints

/** Agents' tools are blocked or made read-only and nothing else: only their adapter sees what they return. */
const limitsOf = (tool: string): readonly LimitName[] => getTool(tool)?.constraints ?? ['read_only']

/**
 * Saves a policy; it holds from the next decision on, in every process. Throws `conflict` where there is one,
 * `validation_error` for a limit that the tool does not take.
 */
export async function createToolPolicy(
  context: Context,
  caller: Caller,
  body: z.output<typeof toolPolicyBody>,
  once: Once | null,
): Promise<ToolPolicyView> {
  refuseLimits(body.tool_name, body.restrictions)
  try {
    return await growAs(context, caller, 'org.change', {
      action: 'create',
      async work(tx) {
        const row = await tx.trx
          .insertInto('tool_policies')
          .values({
            organization_id: caller.organizationId,
            tool_name: body.tool_name,
            role: body.role ?? '',
            allowed: body.allowed,
            restrictions: JSON.stringify(body.restrictions),
            created_by: caller.userId,
            created_at: tx.now,
            updated_at: tx.now,
          })
          .returningAll()
          .executeTakeFirstOrThrow()
        return saved(tx, caller, 'created', row, once)
      },
    })
  } catch (error) {
    if (!violates(error, 'tool_policies_pkey')) throw error
    throw new DomainError('conflict', `\`${body.tool_name}\` has such a policy already: change that one`)
  }
}

/**
 * Changes a policy. Throws `not_found` where there is none for this tool and role, `validation_error` for a limit that the
 * tool does not take.
 */
export async function changeToolPolicy(
  context: Context,
  caller: Caller,
  tool: string,
  patch: z.output<typeof toolPolicyPatch>,
): Promise<ToolPolicyView> {
  refuseLimits(tool, patch.restrictions ?? {})
  return runAs(context, caller, 'org.change', async (tx) => {
    const row = await tx.trx
      .updateTable('tool_policies')
      .set({
        updated_at: tx.now,
        ...(patch.allowed === undefined ? {} : { allowed: patch.allowed }),
        ...(patch.restrictions === undefined ? {} : { restrictions: JSON.stringify(patch.restrictions) }),
      })
      .where('organization_id', '=', caller.organizationId)
      .where('tool_name', '=', tool)
      .where('role', '=', patch.role ?? '')
      .returningAll()
      .executeTakeFirst()
    if (row === undefined) throw notFound('tool policy', tool)
    return saved(tx, caller, 'updated', row)
  })
}

export async function deleteToolPolicy(
  context: Context,
  caller: Caller,
  tool: string,
  ofRole: Role | undefined,
): Promise<void> {
  await runAs(context, caller, 'org.change', async (tx) => {
    const row = await tx.trx
      .deleteFrom('tool_policies')
      .where('organization_id', '=', caller.organizationId)
      .where('tool_name', '=', tool)
      .where('role', '=', ofRole ?? '')
      .returningAll()
      .executeTakeFirst()
    if (row === undefined) throw notFound('tool policy', tool)
    await saved(tx, caller, 'deleted', row)
  })
}

async function saved(
  tx: ChainTx,
  caller: Caller,
  verb: 'created' | 'updated' | 'deleted',
  row: Selectable<ToolPoliciesTable>,
  once: Once | null = null,
): Promise<ToolPolicyView> {
  const view = viewOf(row)
  tx.policyChanged()
  tx.append({
    eventType: `tool_policy.${verb}`,
    action: verb.slice(0, -1),
    status: 'success',
    actor: actorOf(caller),
    metadata: {
      tool_name: view.tool_name,
      role: view.role,
      allowed: view.allowed,
      restrictions: shownLimits(view.restrictions),
      body_hash: hashOf({
        ...view,
        restrictions: shownLimits(view.restrictions),
        created_at: '',
        updated_at: '',
      }),
    },
  })
  await once?.markActed(tx.trx, view)
  return view
}

/** JSON has no `undefined`. */
const shownLimits = (given: Restrictions) => JSON.parse(JSON.stringify(given)) as JsonObject

function viewOf(row: Selectable<ToolPoliciesTable>): ToolPolicyView {
  return {
    tool_name: row.tool_name,
    role: row.role === '' ? null : row.role,
    allowed: row.allowed,
    restrictions: row.restrictions,
    created_by: row.created_by,
    created_at: row.created_at.toISOString(),
    updated_at: row.updated_at.toISOString(),
  }
}

import { type Selectable, sql, type SelectQueryBuilder } from 'kysely'
import type { Db } from '../../db/schema/index.ts'
import type { ToolPoliciesTable } from '../../db/schema/agents.ts'
import type { Restrictions } from '../../policy/tool-limits.ts'
import type { JsonObject } from '../../policy/types.ts'
import { hashOf } from '../../shared/canonical-json.ts'
import type { ChainTx } from '../audit/chain-tx.ts'
import { type Page, type PageRequest, pageOf, readCursor } from '../page.ts'
import { violates } from '../../db/errors.ts'
import { DomainError, errorAt } from '../errors.ts'
import type { Once } from '../idempotency.ts'
import { actorOf, type Caller } from '../access/identity.ts'
import { growAs, grownEntry } from '../limits/storage.ts'
import { runAs, type Acting } from '../access/recheck.ts'
import { isRoleName } from '../access/scopes.ts'
import { refuseLimitedBlock, refuseLimits } from './tool-policy-limits.ts'

/** Each change of rules, settings or policies reads all of them again. */
export const mostToolPolicies = 2_000

export interface ToolPolicyInput {
  readonly tool_name: string
  readonly allowed: boolean | null
  readonly restrictions: Restrictions
  /** A role of members, or the name of a group. If absent, for the whole organization. */
  readonly role?: string | undefined
}
/** `role` only selects the policy. */
export type ToolPolicyChanges = {
  readonly [Field in 'allowed' | 'restrictions' | 'role']?: ToolPolicyInput[Field] | undefined
}

export interface ToolPolicyView {
  readonly tool_name: string
  /** null for the whole organization. */
  readonly role: string | null
  readonly allowed: boolean | null
  readonly restrictions: Restrictions
  readonly created_by: string
  readonly created_at: string
  readonly updated_at: string
}

export const listToolPolicies = (
  { db }: { readonly db: Db },
  { organizationId }: Caller,
  page: PageRequest,
): Promise<Page<ToolPolicyView>> =>
  policyPage(
    db.selectFrom('tool_policies').selectAll().where('organization_id', '=', organizationId),
    page,
    toolPolicyView,
  )

/** Throws `conflict` if there is one; `validation_error` for a block with limits, wrong limits, too many policies. */
export async function createToolPolicy(
  context: Acting,
  caller: Caller,
  body: ToolPolicyInput,
  once: Once | null,
): Promise<ToolPolicyView> {
  refuseLimits(body.tool_name, body.restrictions)
  refuseLimitedBlock(body.allowed, body.restrictions)
  try {
    return await growAs(context, caller, 'org.change', {
      action: 'create',
      bytes: Buffer.byteLength(JSON.stringify(body)),
      async work(tx) {
        refuseUnknownGroup(tx, body.role)
        await refuseMore(tx, 'tool_policies', {
          most: mostToolPolicies,
          rows: 'tool policies',
          instead: 'write a rule whose `tools` is a glob',
        })
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
        return saved(tx, caller, 'created', row, { once })
      },
    })
  } catch (error) {
    if (!violates(error, 'tool_policies_pkey')) throw error
    const whose = body.role === undefined ? '' : ` for role \`${body.role}\``
    throw errorAt(
      'conflict',
      'tool_name',
      `\`${body.tool_name}\` already has a policy${whose}: change it with \`PATCH ${pathOf(caller, body.tool_name, body.role)}\``,
    )
  }
}

/** Throws `not_found`, and `validation_error` for a block with limits, or an unsupported limit. */
export async function changeToolPolicy(
  context: Acting,
  caller: Caller,
  tool: string,
  patch: ToolPolicyChanges,
): Promise<ToolPolicyView> {
  refuseLimits(tool, patch.restrictions ?? {})
  refuseLimitedBlock(patch.allowed, patch.restrictions)
  return growAs(context, caller, 'org.change', {
    action: 'update',
    async bytes(tx) {
      const before = await tx.trx
        .selectFrom('tool_policies')
        .select('restrictions')
        .where('organization_id', '=', caller.organizationId)
        .where('tool_name', '=', tool)
        .where('role', '=', patch.role ?? '')
        .executeTakeFirst()
      const size = (limits: Restrictions): number => JSON.stringify(limits).length
      const after = patch.restrictions ?? before?.restrictions ?? {}
      const entry = patch.restrictions === undefined ? 0 : grownEntry(size(after))
      return Math.max(size(after) - size(before?.restrictions ?? after), entry)
    },
    async work(tx) {
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
      if (row === undefined) throw noPolicy(tool, patch.role)
      // A tool can be blocked even above `storage_mb`, where a long entry is refused. So long `restrictions` are in the
      // entry only if the patch has some.
      return saved(tx, caller, 'updated', row, { showsLong: patch.restrictions !== undefined })
    },
  })
}

export async function deleteToolPolicy(
  context: Acting,
  caller: Caller,
  tool: string,
  ofRole: string | undefined,
): Promise<void> {
  await runAs(context, caller, 'org.change', async (tx) => {
    const row = await tx.trx
      .deleteFrom('tool_policies')
      .where('organization_id', '=', caller.organizationId)
      .where('tool_name', '=', tool)
      .where('role', '=', ofRole ?? '')
      .returningAll()
      .executeTakeFirst()
    if (row === undefined) throw noPolicy(tool, ofRole)
    await saved(tx, caller, 'deleted', row)
  })
}

function refuseUnknownGroup({ policy, organizationId }: ChainTx, role: string | undefined): void {
  if (role === undefined || isRoleName(role) || policy.groups.has(role)) return
  throw errorAt(
    'validation_error',
    'role',
    `\`${role}\` is no role, and there is no such group: an owner makes it with \`POST /organizations/${organizationId}/groups\``,
  )
}

async function saved(
  tx: ChainTx,
  caller: Caller,
  verb: 'created' | 'updated' | 'deleted',
  row: Selectable<ToolPoliciesTable>,
  { once = null, showsLong = true }: { readonly once?: Once | null; readonly showsLong?: boolean } = {},
): Promise<ToolPolicyView> {
  const view = toolPolicyView(row)
  const limits = shownLimits(view.restrictions)
  const isShown = showsLong || grownEntry(JSON.stringify(limits).length) === 0
  tx.policyChanged()
  tx.append({
    eventType: `tool_policy.${verb}`,
    action: verb.slice(0, -1),
    actor: actorOf(caller),
    metadata: {
      tool_name: view.tool_name,
      role: view.role,
      allowed: view.allowed,
      ...(isShown ? { restrictions: limits } : {}),
      body_hash: hashOf({ ...view, restrictions: limits, created_at: '', updated_at: '' }),
    },
  })
  await once?.markActed(tx.trx, view)
  return view
}

const pathOf = ({ organizationId }: Caller, tool: string, role: string | undefined): string =>
  `/organizations/${organizationId}/tool-policies/${encodeURIComponent(tool)}${role === undefined ? '' : `?role=${role}`}`

/** Without `undefined`, which JSON does not have. */
const shownLimits = (given: Restrictions) => JSON.parse(JSON.stringify(given)) as JsonObject

function toolPolicyView(row: Selectable<ToolPoliciesTable>): ToolPolicyView {
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

const noPolicy = (tool: string, ofRole: string | undefined): DomainError =>
  ofRole === undefined
    ? new DomainError('not_found', `the organization has no policy for \`${tool}\` without a role`)
    : new DomainError('not_found', `role \`${ofRole}\` has no policy for \`${tool}\``)

/** What a tool policy and a role override have in common. */
interface PolicyRow {
  readonly tool_name: string
  readonly role: string
  readonly created_at: Date
}

/** A time in milliseconds, a tool and a role, which have no line breaks. */
const cursorForm = /^\d{1,15}\n[^\n]+\n[^\n]*$/
const cursorOf = ({ created_at, tool_name, role }: PolicyRow): string =>
  `${created_at.getTime()}\n${tool_name}\n${role}`

/** Newest first, then by tool and role. An organization has a few thousand, so the query needs no index. */
export async function policyPage<DB, TB extends keyof DB, Row extends PolicyRow, T>(
  query: SelectQueryBuilder<DB, TB, Row>,
  { limit, cursor }: PageRequest,
  view: (row: Row) => T,
): Promise<Page<T>> {
  const [time, tool, role] = readCursor(cursor, cursorForm)?.split('\n') ?? []
  const order = sql`created_at, tool_name collate "C", role collate "C"`
  const rows = await query
    .$if(time !== undefined, (rest) =>
      rest.where(sql<boolean>`(${order}) < (${new Date(Number(time))}::timestamptz, ${tool}, ${role})`),
    )
    .orderBy(sql`created_at`, 'desc')
    .orderBy(sql`tool_name collate "C"`, 'desc')
    .orderBy(sql`role collate "C"`, 'desc')
    .limit(limit + 1)
    .execute()
  return pageOf(rows, limit, cursorOf, view)
}

interface RowLimit {
  readonly most: number
  /** In the message. */
  readonly rows: string
  /** Advice instead of adding a row. */
  readonly instead: string
}

/** Call this under the chain's lock. */
export async function refuseMore(
  tx: ChainTx,
  table: 'tool_policies' | 'role_policy_overrides',
  { most, rows, instead }: RowLimit,
): Promise<void> {
  const [row] = await tx.send(sql<{ count: number }>`
    select count(*) as count from ${sql.table(table)} where organization_id = ${tx.organizationId}`)
  if ((row as { count: number }).count < most) return
  throw errorAt(
    'validation_error',
    '',
    `an organization has at most ${most.toLocaleString('en-US')} ${rows}: delete some first, or ${instead}`,
  )
}

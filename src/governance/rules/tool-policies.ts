import { type Selectable, sql, type SelectQueryBuilder } from 'kysely'
import type { Db } from '../../db/schema/index.ts'
import type { ToolPoliciesTable } from '../../db/schema/agents.ts'
import type { Restrictions } from '../../policy/tool-limits.ts'
import type { ChainTx } from '../audit/chain-tx.ts'
import { type Page, type PageRequest, pageOf, readCursor } from '../page.ts'
import { violates } from '../../db/errors.ts'
import { DomainError, errorAt } from '../errors.ts'
import type { Once } from '../idempotency.ts'
import { actorOf, type Caller } from '../access/identity.ts'
import { growAs } from '../limits/storage.ts'
import { runAs, type Acting } from '../access/recheck.ts'
import { isRoleName } from '../access/scopes.ts'
import { refuseLimitedBlock, refuseLimits } from './tool-policy-limits.ts'
import { bodyToRestore, keepVersion } from './versions.ts'

type Row = Selectable<ToolPoliciesTable>

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
        const row = await insertPolicy(tx, caller, body)
        return saved(tx, caller, { before: null, row }, { once })
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

async function insertPolicy(
  tx: ChainTx,
  caller: Caller,
  { tool_name, role, allowed, restrictions }: ToolPolicyInput,
): Promise<Row> {
  refuseUnknownGroup(tx, role)
  await refuseMore(tx, 'tool_policies', {
    most: mostToolPolicies,
    rows: 'tool policies',
    instead: 'write a rule whose `tools` is a glob',
  })
  return tx.trx
    .insertInto('tool_policies')
    .values({
      organization_id: caller.organizationId,
      tool_name,
      role: role ?? '',
      allowed,
      restrictions: JSON.stringify(restrictions),
      created_by: caller.userId,
      created_at: tx.now,
      updated_at: tx.now,
    })
    .returningAll()
    .executeTakeFirstOrThrow()
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
    bytes: async (tx) => growthOf(await policyIn(tx, tool, patch.role), patch.restrictions),
    async work(tx) {
      const before = await policyIn(tx, tool, patch.role)
      if (before === undefined) throw noPolicy(tool, patch.role)
      return saved(tx, caller, { before, row: await updatePolicy(tx, before, patch) })
    },
  })
}

const policyIn = (tx: ChainTx, tool: string, role: string | undefined): Promise<Row | undefined> =>
  tx.trx
    .selectFrom('tool_policies')
    .selectAll()
    .where('organization_id', '=', tx.organizationId)
    .where('tool_name', '=', tool)
    .where('role', '=', role ?? '')
    .executeTakeFirst()

/** In characters. Without new limits 0, so a tool can be blocked even above `storage_mb`. */
function growthOf(before: Row | undefined, restrictions: Restrictions | undefined): number {
  const size = (limits: Restrictions): number => JSON.stringify(limits).length
  const after = restrictions ?? before?.restrictions ?? {}
  return size(after) - size(before?.restrictions ?? after)
}

const updatePolicy = (tx: ChainTx, before: Row, { allowed, restrictions }: ToolPolicyChanges): Promise<Row> =>
  tx.trx
    .updateTable('tool_policies')
    .set({
      updated_at: tx.now,
      ...(allowed === undefined ? {} : { allowed }),
      ...(restrictions === undefined ? {} : { restrictions: JSON.stringify(restrictions) }),
    })
    .where('organization_id', '=', tx.organizationId)
    .where('tool_name', '=', before.tool_name)
    .where('role', '=', before.role)
    .returningAll()
    .executeTakeFirstOrThrow()

/** As kept versions name the policy. A role has no slash. */
export const policyVersions = (tool: string, role: string | undefined) =>
  ({ kind: 'tool_policy', id: `${role ?? ''}/${tool}` }) as const

/**
 * A deleted policy comes back. Throws as `createToolPolicy` does, `not_found`, and `conflict` for the version of a
 * deletion.
 */
export async function restoreToolPolicy(
  context: Acting & { readonly db: Db },
  caller: Caller,
  of: { readonly tool: string; readonly role: string | undefined; readonly version: string },
  once: Once | null,
): Promise<ToolPolicyView> {
  const { tool, role, version } = of
  const kept = await bodyToRestore(context.db, caller.organizationId, policyVersions(tool, role), version)
  const body = kept.body as Pick<ToolPolicyInput, 'allowed' | 'restrictions'>
  refuseLimits(tool, body.restrictions)
  refuseLimitedBlock(body.allowed, body.restrictions)
  return growAs(context, caller, 'org.change', {
    action: 'restore',
    bytes: async (tx) => {
      const before = await policyIn(tx, tool, role)
      return before === undefined
        ? Buffer.byteLength(JSON.stringify(body))
        : growthOf(before, body.restrictions)
    },
    async work(tx) {
      const before = await policyIn(tx, tool, role)
      const row =
        before === undefined
          ? await insertPolicy(tx, caller, { tool_name: tool, role, ...body })
          : await updatePolicy(tx, before, body)
      return saved(tx, caller, { before: before ?? null, row }, { once, restoredFrom: kept.number })
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
    await saved(tx, caller, { before: row, row: null })
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

type Changed =
  { readonly before: Row | null; readonly row: Row } | { readonly before: Row; readonly row: null }

/** Returns the new policy, else the deleted one. */
async function saved(
  tx: ChainTx,
  caller: Caller,
  { before, row }: Changed,
  {
    once = null,
    restoredFrom = null,
  }: { readonly once?: Once | null; readonly restoredFrom?: number | null } = {},
): Promise<ToolPolicyView> {
  const verb = row === null ? 'deleted' : before === null ? 'created' : 'updated'
  const view = toolPolicyView(row ?? before)
  tx.policyChanged()
  const kept = await keepVersion(tx, caller, policyVersions(view.tool_name, view.role ?? undefined), {
    before: bodyOf(before),
    after: bodyOf(row),
    restoredFrom,
  })
  tx.append({
    eventType: `tool_policy.${verb}`,
    action: verb.slice(0, -1),
    actor: actorOf(caller),
    metadata: {
      tool_name: view.tool_name,
      role: view.role,
      allowed: view.allowed,
      ...kept,
    },
  })
  await once?.markActed(tx.trx, view)
  return view
}

const pathOf = ({ organizationId }: Caller, tool: string, role: string | undefined): string =>
  `/organizations/${organizationId}/tool-policies/${encodeURIComponent(tool)}${role === undefined ? '' : `?role=${role}`}`

const bodyOf = (row: Row | null) => row && { allowed: row.allowed, restrictions: row.restrictions }

function toolPolicyView(row: Row): ToolPolicyView {
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
const cursorForm = /^\d{1,15}\n[^\n\0]+\n[^\n\0]*$/
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

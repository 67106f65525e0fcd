import { type Selectable, sql, type SelectQueryBuilder } from 'kysely'
import type { ManagedBy } from '../../db/schema/policy.ts'
import type { Db } from '../../db/schema/index.ts'
import type { ToolPoliciesTable } from '../../db/schema/agents.ts'
import type { Restrictions } from '../../policy/tool-limits.ts'
import type { ChainTx } from '../audit/chain-tx.ts'
import { type Page, type PageRequest, pageOf, readCursor } from '../page.ts'
import { DomainError, errorAt } from '../errors.ts'
import type { Once } from '../idempotency.ts'
import { actorOf, type Caller } from '../access/identity.ts'
import { isHeld, plainJson, type HeldChange } from '../approvals/change.ts'
import { changeAs, type Changer, type Governing, type Prepared } from '../changes/gate.ts'
import { storageOver } from '../limits/storage.ts'
import { whyLooserPolicy, type PolicyBody } from '../../policy/strictness-access.ts'
import { quote } from '../../policy/text.ts'
import type { JsonObject } from '../../policy/types.ts'
import { isRoleName } from '../access/scopes.ts'
import { refuseLimitedBlock, refuseLimits } from './tool-policy-limits.ts'
import { bodyToRestore, keepVersions } from './versions.ts'

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
  readonly managed_by: ManagedBy | null
}

export const listToolPolicies = (
  { db }: { readonly db: Db },
  { organizationId }: Caller,
  page: PageRequest,
  { tool_name: tool }: { readonly tool_name?: string | undefined } = {},
): Promise<Page<ToolPolicyView>> =>
  policyPage(
    db
      .selectFrom('tool_policies')
      .selectAll()
      .where('organization_id', '=', organizationId)
      .$if(tool !== undefined, (all) => all.where('tool_name', '=', tool ?? '')),
    page,
    toolPolicyView,
  )

/** What a request asks for. `body` is null for a deletion. */
export interface PolicyRequest {
  readonly tool: string
  readonly role?: string
  readonly body: PolicyBody | null
  readonly restored_from?: number
}

/** Throws `conflict` if there is one; `validation_error` for a block with limits, wrong limits, too many policies. */
export async function createToolPolicy(
  context: Governing,
  caller: Caller,
  { tool_name: tool, role, ...body }: ToolPolicyInput,
  once: Once | null,
): Promise<ToolPolicyView | HeldChange> {
  refuseLimits(tool, body.restrictions)
  refuseLimitedBlock(body.allowed, body.restrictions)
  return change(
    context,
    caller,
    { tool, role },
    {
      action: 'create',
      once,
      bodyAfter(before) {
        if (before === null) return body
        const whose = role === undefined ? '' : ` for role \`${role}\``
        throw errorAt(
          'conflict',
          'tool_name',
          `\`${tool}\` already has a policy${whose}: change it with \`PATCH ${pathOf(caller, tool, role)}\``,
        )
      },
    },
  )
}

interface Named {
  readonly tool: string
  readonly role: string | undefined
}

/** Answers the policy, or the deleted one. */
function change(
  context: Governing,
  caller: Caller,
  { tool, role }: Named,
  given: {
    readonly action: string
    readonly once?: Once | null
    readonly restoredFrom?: number
    bodyAfter(before: PolicyBody | null): PolicyBody | null
  },
): Promise<ToolPolicyView | HeldChange> {
  return changeAs(context, caller, {
    ...given,
    async prepare(tx, changer) {
      const body = given.bodyAfter(bodyOf((await policyIn(tx, tool, role)) ?? null))
      return preparePolicy(tx, changer, {
        tool,
        body,
        ...(role === undefined ? {} : { role }),
        ...(given.restoredFrom === undefined ? {} : { restored_from: given.restoredFrom }),
      })
    },
  })
}

/** Validates the change under the lock. Without new limits, a tool can be blocked even above `storage_mb`. */
export async function preparePolicy(
  tx: ChainTx,
  changer: Changer,
  request: PolicyRequest,
): Promise<Prepared<ToolPolicyView>> {
  const { tool, role, body, restored_from: restoredFrom = null } = request
  const row = await policyIn(tx, tool, role)
  if (row === undefined && body === null) throw noPolicy(tool, role)
  if (body !== null) refuseLimits(tool, body.restrictions)
  if (row === undefined) await refuseNew(tx, role)
  const verb = row === undefined ? 'Create' : body === null ? 'Delete' : 'Change'
  const whose = role === undefined ? '' : ` for ${quote(role)}`
  const before = bodyOf(row ?? null)
  return {
    request: { operation: 'tool_policy', given: plainJson(request) as JsonObject },
    title: `${verb} the tool policy of ${quote(tool)}${whose}`,
    before,
    after: body,
    managed: row?.managed_by ?? null,
    async over() {
      if (body === null) return null
      if (row === undefined)
        return Promise.resolve(storageOver(tx, Buffer.byteLength(JSON.stringify(request))))
      const more = growthOf(row, body.restrictions)
      return Promise.resolve(more <= 0 ? null : storageOver(tx, more))
    },
    groups: role === undefined ? [] : [role],
    whyLooser: () => whyLooserPolicy(before, body),
    async save() {
      if (body === null) {
        await deletePolicy(tx, row as Row)
        return saved(tx, changer, { before: row as Row, row: null })
      }
      const after =
        row === undefined
          ? await insertPolicy(tx, changer, { tool, role, body })
          : await updatePolicy(tx, row, body)
      return saved(tx, changer, { before: row ?? null, row: after }, restoredFrom)
    },
  }
}

async function refuseNew(tx: ChainTx, role: string | undefined): Promise<void> {
  refuseUnknownGroup(tx, role)
  await refuseMore(tx, 'tool_policies', {
    most: mostToolPolicies,
    rows: 'tool policies',
    instead: 'write a rule whose `tools` is a glob',
  })
}

const deletePolicy = (tx: ChainTx, { tool_name, role }: Row) =>
  tx.trx
    .deleteFrom('tool_policies')
    .where('organization_id', '=', tx.organizationId)
    .where('tool_name', '=', tool_name)
    .where('role', '=', role)
    .execute()

async function insertPolicy(
  tx: ChainTx,
  { userId }: Changer,
  { tool, role, body: { allowed, restrictions } }: Named & { readonly body: PolicyBody },
): Promise<Row> {
  return tx.trx
    .insertInto('tool_policies')
    .values({
      organization_id: tx.organizationId,
      tool_name: tool,
      role: role ?? '',
      allowed,
      restrictions: JSON.stringify(restrictions),
      created_by: userId,
      created_at: tx.now,
      updated_at: tx.now,
    })
    .returningAll()
    .executeTakeFirstOrThrow()
}

/** Throws `not_found`, and `validation_error` for a block with limits, or an unsupported limit. */
export async function changeToolPolicy(
  context: Governing,
  caller: Caller,
  tool: string,
  patch: ToolPolicyChanges,
): Promise<ToolPolicyView | HeldChange> {
  refuseLimits(tool, patch.restrictions ?? {})
  refuseLimitedBlock(patch.allowed, patch.restrictions)
  const { role } = patch
  return change(
    context,
    caller,
    { tool, role },
    {
      action: 'update',
      bodyAfter(before) {
        if (before === null) throw noPolicy(tool, role)
        return {
          allowed: patch.allowed === undefined ? before.allowed : patch.allowed,
          restrictions: patch.restrictions ?? before.restrictions,
        }
      },
    },
  )
}

const policyIn = (tx: ChainTx, tool: string, role: string | undefined): Promise<Row | undefined> =>
  tx.trx
    .selectFrom('tool_policies')
    .selectAll()
    .where('organization_id', '=', tx.organizationId)
    .where('tool_name', '=', tool)
    .where('role', '=', role ?? '')
    .executeTakeFirst()

/** In characters. */
function growthOf(before: Row, restrictions: Restrictions): number {
  return JSON.stringify(restrictions).length - JSON.stringify(before.restrictions).length
}

const updatePolicy = (tx: ChainTx, before: Row, { allowed, restrictions }: PolicyBody): Promise<Row> =>
  tx.trx
    .updateTable('tool_policies')
    .set({
      updated_at: tx.now,
      allowed,
      restrictions: JSON.stringify(restrictions),
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
  context: Governing & { readonly db: Db },
  caller: Caller,
  of: { readonly tool: string; readonly role: string | undefined; readonly version: string },
  once: Once | null,
): Promise<ToolPolicyView | HeldChange> {
  const { tool, role, version } = of
  const kept = await bodyToRestore(context.db, caller.organizationId, policyVersions(tool, role), version)
  const body = kept.body as PolicyBody
  refuseLimits(tool, body.restrictions)
  refuseLimitedBlock(body.allowed, body.restrictions)
  return change(
    context,
    caller,
    { tool, role },
    {
      action: 'restore',
      once,
      restoredFrom: kept.number,
      bodyAfter: () => body,
    },
  )
}

/** Throws `not_found`. */
export async function deleteToolPolicy(
  context: Governing,
  caller: Caller,
  tool: string,
  role: string | undefined,
): Promise<HeldChange | undefined> {
  const answer = await change(context, caller, { tool, role }, { action: 'delete', bodyAfter: () => null })
  return isHeld(answer) ? answer : undefined
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
  changer: Changer,
  { before, row }: Changed,
  restoredFrom: number | null = null,
): Promise<ToolPolicyView> {
  const verb = row === null ? 'deleted' : before === null ? 'created' : 'updated'
  const view = toolPolicyView(row ?? before)
  tx.policyChanged()
  const object = policyVersions(view.tool_name, view.role ?? undefined)
  const change = { object, before: bodyOf(before), after: bodyOf(row), restoredFrom }
  const [kept] = await keepVersions(tx, changer, [change])
  tx.append({
    eventType: `tool_policy.${verb}`,
    action: verb.slice(0, -1),
    actor: actorOf(changer),
    metadata: {
      tool_name: view.tool_name,
      role: view.role,
      allowed: view.allowed,
      ...kept,
      ...changer.cause,
    },
  })
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
    managed_by: row.managed_by,
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

import { sql, type Selectable } from 'kysely'
import type { ManagedBy, RolePolicyOverridesTable } from '../../db/schema/policy.ts'
import type { Db } from '../../db/schema/index.ts'
import { actorOf, type Caller } from '../access/identity.ts'
import { isHeld, plainJson, type HeldChange } from '../approvals/change.ts'
import type { ChainTx } from '../audit/chain-tx.ts'
import { notFound, errorAt } from '../errors.ts'
import type { Once } from '../idempotency.ts'
import { changeAs, type Changer, type Governing, type Prepared } from '../changes/gate.ts'
import { storageOver } from '../limits/storage.ts'
import { whyLooserOverride } from '../../policy/strictness-access.ts'
import { quote } from '../../policy/text.ts'
import type { JsonObject } from '../../policy/types.ts'
import { policyPage, refuseMore } from './tool-policies.ts'
import type { Page, PageRequest } from '../page.ts'

/** Each change of rules, settings or policies reads all of them again. */
export const mostRoleOverrides = 2_000

export interface RoleOverrideInput {
  readonly tool_name: string
  /** A role of members, or the name of a group. Another name is accepted too, and applies to no member. */
  readonly role: string
  /** true allows the tool if `default_tool_access` is `deny`. */
  readonly allowed: boolean
}

export interface RoleOverrideView extends RoleOverrideInput {
  /** With this role or in this group now. */
  readonly members: number
  readonly created_by: string
  readonly created_at: string
  readonly managed_by: ManagedBy | null
}

const overridesIn = (db: Db, organizationId: string) =>
  db
    .selectFrom('role_policy_overrides as o')
    .selectAll('o')
    .select(
      sql<number>`(
        select count(*) from memberships m where m.organization_id = o.organization_id and (m.role = o.role or exists (
          select from group_members i join groups g on g.id = i.group_id
          where i.organization_id = m.organization_id and i.user_id = m.user_id and g.name = o.role)))`.as(
        'members',
      ),
    )
    .where('o.organization_id', '=', organizationId)

export const listRoleOverrides = (
  { db }: { readonly db: Db },
  { organizationId }: Caller,
  page: PageRequest,
  { tool_name: tool }: { readonly tool_name?: string | undefined } = {},
): Promise<Page<RoleOverrideView>> =>
  policyPage(
    overridesIn(db, organizationId).$if(tool !== undefined, (all) => all.where('tool_name', '=', tool ?? '')),
    page,
    overrideView,
  )

/** What a request asks for. `allowed` is null for a deletion. */
export interface OverrideRequest extends Omit<RoleOverrideInput, 'allowed'> {
  readonly allowed: boolean | null
}

/** Throws `conflict` if the tool and role have one, and `validation_error` above `mostRoleOverrides`. */
export function createRoleOverride(
  context: Governing,
  caller: Caller,
  body: RoleOverrideInput,
  once: Once | null,
): Promise<RoleOverrideView | HeldChange> {
  return changeAs(context, caller, {
    action: 'create',
    once,
    prepare: (tx, changer) => prepareOverride(tx, changer, body),
  })
}

/** Throws `not_found`. */
export async function deleteRoleOverride(
  context: Governing,
  caller: Caller,
  tool_name: string,
  role: string,
): Promise<HeldChange | undefined> {
  const answer = await changeAs(context, caller, {
    action: 'delete',
    prepare: (tx, changer) => prepareOverride(tx, changer, { tool_name, role, allowed: null }),
  })
  return isHeld(answer) ? answer : undefined
}

/** Validates the change under the lock. */
export async function prepareOverride(
  tx: ChainTx,
  changer: Changer,
  request: OverrideRequest,
): Promise<Prepared<RoleOverrideView>> {
  const { tool_name, role, allowed } = request
  const read = () =>
    overridesIn(tx.trx, tx.organizationId)
      .where('o.tool_name', '=', tool_name)
      .where('o.role', '=', role)
      .executeTakeFirst()
  const before = await read()
  if (before === undefined && allowed === null) throw notFound('override', tool_name)
  if (before !== undefined && allowed !== null) throw taken(tx, request)
  if (before === undefined)
    await refuseMore(tx, 'role_policy_overrides', {
      most: mostRoleOverrides,
      rows: 'overrides',
      instead: 'set `default_tool_access`',
    })
  return {
    request: { operation: 'role_override', given: plainJson(request) as JsonObject },
    title: `${allowed === null ? 'Delete' : 'Create'} the override of ${quote(tool_name)} for ${quote(role)}`,
    before: before === undefined ? null : { allowed: before.allowed },
    after: allowed === null ? null : { allowed },
    managed: before?.managed_by ?? null,
    over: () =>
      Promise.resolve(allowed === null ? null : storageOver(tx, Buffer.byteLength(JSON.stringify(request)))),
    groups: [role],
    whyLooser: () => whyLooserOverride(before?.allowed ?? null, allowed),
    async save() {
      if (allowed === null) await remove(tx, request)
      else await insert(tx, changer, { tool_name, role, allowed })
      const row = before ?? (await read())
      auditOverride(tx, changer, allowed === null ? 'deleted' : 'created', row as NonNullable<typeof row>)
      return overrideView(row as NonNullable<typeof row>)
    },
  }
}

const insert = (tx: ChainTx, { userId }: Changer, body: RoleOverrideInput) =>
  tx.trx
    .insertInto('role_policy_overrides')
    .values({ ...body, organization_id: tx.organizationId, created_by: userId, created_at: tx.now })
    .execute()

const remove = (tx: ChainTx, { tool_name, role }: OverrideRequest) =>
  tx.trx
    .deleteFrom('role_policy_overrides')
    .where('organization_id', '=', tx.organizationId)
    .where('tool_name', '=', tool_name)
    .where('role', '=', role)
    .execute()

function taken({ organizationId }: ChainTx, { tool_name, role }: OverrideRequest) {
  const path = `/organizations/${organizationId}/role-policy-overrides/${encodeURIComponent(tool_name)}?role=${role}`
  return errorAt(
    'conflict',
    'role',
    `\`${tool_name}\` already has an override for role \`${role}\`: delete it first with \`DELETE ${path}\``,
  )
}

function auditOverride(
  tx: ChainTx,
  changer: Changer,
  verb: 'created' | 'deleted',
  { tool_name, role, allowed }: RoleOverrideInput,
): void {
  tx.policyChanged()
  tx.append({
    eventType: `role_override.${verb}`,
    action: verb.slice(0, -1),
    actor: actorOf(changer),
    metadata: { tool_name, role, allowed, ...changer.cause },
  })
}

const overrideView = (
  row: Selectable<RolePolicyOverridesTable> & { readonly members: number },
): RoleOverrideView => ({
  tool_name: row.tool_name,
  role: row.role,
  allowed: row.allowed,
  members: row.members,
  created_by: row.created_by,
  created_at: row.created_at.toISOString(),
  managed_by: row.managed_by,
})

import { sql, type Selectable } from 'kysely'
import { violates } from '../../db/errors.ts'
import type { RolePolicyOverridesTable } from '../../db/schema/policy.ts'
import type { Db } from '../../db/schema/index.ts'
import { actorOf, type Caller } from '../access/identity.ts'
import { runAs, type Acting } from '../access/recheck.ts'
import type { ChainTx } from '../audit/chain-tx.ts'
import { notFound, errorAt } from '../errors.ts'
import { keepMade, type Once } from '../idempotency.ts'
import { growAs } from '../limits/storage.ts'
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
): Promise<Page<RoleOverrideView>> => policyPage(overridesIn(db, organizationId), page, overrideView)

/** Throws `conflict` if the tool and role have one, and `validation_error` above `mostRoleOverrides`. */
export async function createRoleOverride(
  context: Acting,
  caller: Caller,
  body: RoleOverrideInput,
  once: Once | null,
): Promise<RoleOverrideView> {
  try {
    return await growAs(context, caller, 'org.change', {
      action: 'create',
      bytes: Buffer.byteLength(JSON.stringify(body)),
      async work(tx) {
        await refuseMore(tx, 'role_policy_overrides', {
          most: mostRoleOverrides,
          rows: 'overrides',
          instead: 'set `default_tool_access`',
        })
        await tx.trx
          .insertInto('role_policy_overrides')
          .values({
            ...body,
            organization_id: caller.organizationId,
            created_by: caller.userId,
            created_at: tx.now,
          })
          .execute()
        auditOverride(tx, caller, 'created', body)
        const row = await overridesIn(tx.trx, caller.organizationId)
          .where('o.tool_name', '=', body.tool_name)
          .where('o.role', '=', body.role)
          .executeTakeFirstOrThrow()
        return keepMade(once, tx, overrideView(row))
      },
    })
  } catch (error) {
    if (!violates(error, 'role_policy_overrides_pkey')) throw error
    const path = `/organizations/${caller.organizationId}/role-policy-overrides/${encodeURIComponent(body.tool_name)}?role=${body.role}`
    throw errorAt(
      'conflict',
      'role',
      `\`${body.tool_name}\` already has an override for role \`${body.role}\`: delete it first with \`DELETE ${path}\``,
    )
  }
}

/** Throws `not_found`. */
export async function deleteRoleOverride(
  context: Acting,
  caller: Caller,
  tool: string,
  role: string,
): Promise<void> {
  await runAs(context, caller, 'org.change', async (tx) => {
    const row = await tx.trx
      .deleteFrom('role_policy_overrides')
      .where('organization_id', '=', caller.organizationId)
      .where('tool_name', '=', tool)
      .where('role', '=', role)
      .returningAll()
      .executeTakeFirst()
    if (row === undefined) throw notFound('override', tool)
    auditOverride(tx, caller, 'deleted', row)
  })
}

function auditOverride(
  tx: ChainTx,
  caller: Caller,
  verb: 'created' | 'deleted',
  { tool_name, role, allowed }: RoleOverrideInput,
): void {
  tx.policyChanged()
  tx.append({
    eventType: `role_override.${verb}`,
    action: verb.slice(0, -1),
    actor: actorOf(caller),
    metadata: { tool_name, role, allowed },
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
})

import { sql } from 'kysely'
import type { Context } from '../../context.ts'
import type { Role } from '../../policy/types.ts'
import { withdrawAllOf } from '../agents/withdraw.ts'
import type { ChainTx } from '../chain-tx.ts'
import { DomainError, notFound } from '../errors.ts'
import { actorOf, type Caller } from '../identity.ts'
import { readPage, viewPage, type Page, type PageRequest } from '../page.ts'
import { requireRole, runAs } from '../standing.ts'

export interface MemberView {
  readonly user_id: string
  readonly email: string
  readonly name: string
  readonly role: Role
  readonly second_factor: boolean
  readonly joined_at: string
}

/** The organization's members, those with the newest accounts first. */
export async function listMembers(
  context: Context,
  caller: Caller,
  page: PageRequest,
): Promise<Page<MemberView>> {
  const query = context.db
    .selectFrom('memberships as m')
    .innerJoin('users as u', 'u.id', 'm.user_id')
    .select(['u.id', 'u.email', 'u.name', 'm.role', 'u.two_factor_enabled', 'm.created_at'])
    .where('m.organization_id', '=', caller.organizationId)
  return viewPage(await readPage(context.db, query, 'u.id', page, (row) => row.id), (row) => ({
    user_id: row.id,
    email: row.email,
    name: row.name,
    role: row.role,
    second_factor: row.two_factor_enabled,
    joined_at: row.created_at.toISOString(),
  }))
}

/**
 * Gives a member another role. Errors: `conflict` for the last owner, `not_found` for who is no member. Judged under the
 * chain's lock, where every change of members is made: of two owners who demote each other one succeeds.
 */
export async function changeRole(
  context: Context,
  caller: Caller,
  userId: string,
  role: Role,
): Promise<{ readonly user_id: string; readonly role: Role }> {
  return runAs(context, caller, 'org.change', async (tx, now) => {
    requireRole((await now()).role, 'owner')
    const before = await memberIn(tx, userId)
    if (before === 'owner' && role !== 'owner') await requireAnotherOwner(tx, userId)
    if (before !== role) {
      await tx.trx
        .updateTable('memberships')
        .set({ role })
        .where('organization_id', '=', tx.organizationId)
        .where('user_id', '=', userId)
        .execute()
      append(tx, caller, 'member.role_changed', { member_id: userId, from: before, to: role })
    }
    return { user_id: userId, role }
  })
}

/**
 * Takes somebody out of the organization: oneself, or, as an owner, anybody. Errors as above, and `insufficient_role` for
 * who is no owner and means another. Their keys stay theirs and open nothing here any more (docs/decisions/0012); what their
 * agents wait for is withdrawn.
 */
export async function removeMember(context: Context, caller: Caller, userId: string): Promise<void> {
  await runAs(context, caller, 'org.change', async (tx, now) => {
    if (userId !== caller.userId) requireRole((await now()).role, 'owner')
    if ((await memberIn(tx, userId)) === 'owner') await requireAnotherOwner(tx, userId)
    await tx.trx
      .deleteFrom('memberships')
      .where('organization_id', '=', tx.organizationId)
      .where('user_id', '=', userId)
      .execute()
    const cancelled = await withdrawAllOf(tx, userId)
    const type = userId === caller.userId ? 'member.left' : 'member.removed'
    append(tx, caller, type, { member_id: userId, cancelled_approvals: cancelled })
  })
}

/** The user's role, or null for who is no member; nobody can change it before this transaction ends. */
export async function roleUnderLock(tx: ChainTx, userId: string): Promise<Role | null> {
  const row = await tx.trx
    .selectFrom('memberships')
    .select('role')
    .where('organization_id', '=', tx.organizationId)
    .where('user_id', '=', userId)
    .executeTakeFirst()
  return row?.role ?? null
}

async function memberIn(tx: ChainTx, userId: string): Promise<Role> {
  const role = await roleUnderLock(tx, userId)
  if (role === null) throw notFound('member', userId)
  return role
}

async function requireAnotherOwner(tx: ChainTx, userId: string): Promise<void> {
  const { rows } = await sql`select 1 from memberships
    where organization_id = ${tx.organizationId} and role = 'owner' and user_id <> ${userId} limit 1`.execute(
    tx.trx,
  )
  if (rows.length === 0)
    throw new DomainError(
      'conflict',
      'the last owner can neither leave nor be given another role: make somebody else owner first',
    )
}

function append(
  tx: ChainTx,
  caller: Caller,
  eventType: string,
  metadata: Record<string, string | number>,
): void {
  const action = eventType.slice(eventType.indexOf('.') + 1)
  tx.append({ eventType, action, status: 'success', actor: actorOf(caller), metadata })
}

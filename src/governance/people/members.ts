import type { AuditMetadata } from '../../contract/audit-events.ts'
import { sql } from 'kysely'
import type { Db } from '../../db/schema/index.ts'
import type { Role } from '../../policy/types.ts'
import { endAllOf } from '../agents/withdraw.ts'
import { revokeConnectionsOf } from '../connections/connections.ts'
import type { ChainTx } from '../audit/chain-tx.ts'
import { DomainError, notFound } from '../errors.ts'
import { actorOf, type Caller } from '../access/identity.ts'
import { listPage, type Page, type PageRequest } from '../page.ts'
import { hasRole } from '../access/scopes.ts'
import { requireRole, roleUnderLock, runAs, type Acting } from '../access/recheck.ts'

export interface MemberView {
  readonly user_id: string
  readonly email: string
  readonly name: string
  readonly role: Role
  readonly second_factor: boolean
  readonly joined_at: string
}

/** Lists the organization's members, newest accounts first. */
export async function listMembers(db: Db, caller: Caller, page: PageRequest): Promise<Page<MemberView>> {
  const query = db
    .selectFrom('memberships as m')
    .innerJoin('users as u', 'u.id', 'm.user_id')
    .select(['u.id', 'u.email', 'u.name', 'm.role', 'u.two_factor_enabled', 'm.created_at'])
    .where('m.organization_id', '=', caller.organizationId)
  return listPage(
    db,
    query,
    'user',
    page,
    (row) => ({
      user_id: row.id,
      email: row.email,
      name: row.name,
      role: row.role,
      second_factor: row.two_factor_enabled,
      joined_at: row.created_at.toISOString(),
    }),
    'u.id',
  )
}

/**
 * Changes a member's role. Throws `insufficient_role` if the caller is not an owner, `conflict` if the last owner would
 * get another role, and `not_found` if the person is not a member. All changes of members run under the chain's lock.
 * So if two owners demote each other at the same time, only one of them succeeds. If the new role may not use agents,
 * the member's agent sessions end. If it is below admin, the member's connections to hosts that are not the service's
 * own are revoked.
 */
export async function changeRole(
  context: Acting,
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
      const ended = hasRole(role, 'member')
        ? { ended_sessions: 0, cancelled_approvals: 0 }
        : await endAllOf(tx, userId)
      if (!hasRole(role, 'admin')) await revokeConnectionsOf(tx, userId, 'foreign', actorOf(caller))
      appendMemberEvent(tx, caller, 'member.role_changed', {
        member_id: userId,
        from: before,
        to: role,
        ...ended,
      })
    }
    return { user_id: userId, role }
  })
}

/**
 * Removes a member. Members may remove themselves, and owners may remove anybody. Throws `insufficient_role` if another
 * caller tries to remove a member. Throws `conflict` for the last owner, and `not_found` if the person is not a member.
 *
 * The member's keys stay, but have no access to this organization (docs/decisions/0012). The member's personal
 * connections are revoked. The member's agent sessions end. An approval of the member's agents is withdrawn if it is
 * pending, or if it is approved and not used yet.
 */
export async function removeMember(context: Acting, caller: Caller, userId: string): Promise<void> {
  await runAs(context, caller, 'org.change', async (tx, now) => {
    if (userId !== caller.userId) requireRole((await now()).role, 'owner')
    if ((await memberIn(tx, userId)) === 'owner') await requireAnotherOwner(tx, userId)
    await tx.trx
      .deleteFrom('memberships')
      .where('organization_id', '=', tx.organizationId)
      .where('user_id', '=', userId)
      .execute()
    const ended = await endAllOf(tx, userId)
    await revokeConnectionsOf(tx, userId, 'all', actorOf(caller))
    const type = userId === caller.userId ? 'member.left' : 'member.removed'
    appendMemberEvent(tx, caller, type, { member_id: userId, ...ended })
  })
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
      'the last owner can neither leave nor get another role: make another member an owner first',
    )
}

function appendMemberEvent(
  tx: ChainTx,
  caller: Caller,
  eventType: 'member.role_changed' | 'member.left' | 'member.removed',
  metadata: AuditMetadata<'member.role_changed' | 'member.left'>,
): void {
  const action = eventType.slice(eventType.indexOf('.') + 1)
  tx.append({ eventType, action, actor: actorOf(caller), metadata })
}

import type { AuditMetadata } from '../../contract/audit-events.ts'
import { sql } from 'kysely'
import { absenceColumn, type Absence } from '../../db/queries/absences.ts'
import { ownersOf } from '../../db/queries/people.ts'
import { slackProblem } from '../../db/queries/notifications/problems.ts'
import type { Db } from '../../db/schema/index.ts'
import type { Role } from '../../policy/types.ts'
import { endAllOf } from '../agents/end.ts'
import { revokeConnectionsOf } from '../connections/connections.ts'
import type { ChainTx } from '../audit/chain-tx.ts'
import type { Actor } from '../audit/entry.ts'
import { DomainError, notFound } from '../errors.ts'
import { actorOf, type Caller } from '../access/identity.ts'
import { hasPart, readPage, type Page, type PageRequest } from '../page.ts'
import { groupsOf } from '../access/groups.ts'
import { hasRole } from '../access/scopes.ts'
import { requireRole, roleUnderLock, runAs, type Acting } from '../access/recheck.ts'
import { isServiceAccount } from './service-accounts.ts'

export interface MemberView {
  readonly user_id: string
  readonly email: string
  readonly name: string
  readonly role: Role
  readonly second_factor: boolean
  readonly slack_account: string | null
  /** The error of the newest message there, if that one has failed. */
  readonly slack_problem: string | null
  readonly company_sign_in: boolean
  readonly joined_at: string
  readonly absence: Absence | null
}

/** `search`: part of the name or address. */
export async function listMembers(
  db: Db,
  caller: Caller,
  page: PageRequest,
  search?: string,
): Promise<Page<MemberView>> {
  const query = db
    .selectFrom('memberships as m')
    .innerJoin('users as u', 'u.id', 'm.user_id')
    .select([
      'u.id',
      'u.email',
      'u.name',
      'm.role',
      'u.two_factor_enabled',
      'm.slack_account',
      'm.created_at',
    ])
    .select(slackProblem.as('slack_problem'))
    .select(
      sql<boolean>`exists (select from sign_in_identities i
        where i.organization_id = m.organization_id and i.user_id = m.user_id)`.as('company_sign_in'),
    )
    .select(absenceColumn.as('absence'))
    .where('m.organization_id', '=', caller.organizationId)
    .where(sql<boolean>`not ${isServiceAccount(sql`u.id`)}`)
    .$if(search !== undefined, (all) => all.where(hasPart(sql`u.name || ' ' || u.email`, search as string)))
  const { data, next_cursor } = await readPage(db, query, 'user', page, 'u.id')
  const members = data.map(({ id: user_id, two_factor_enabled, created_at, ...member }) => ({
    user_id,
    ...member,
    second_factor: two_factor_enabled,
    joined_at: created_at.toISOString(),
  }))
  return { data: members, next_cursor }
}

/**
 * Throws `insufficient_role` if the caller is no owner, `conflict` for the last owner, and `not_found`. Under the
 * chain's lock, so of two owners who demote each other only one succeeds. Ends agent sessions that the new role may not
 * use, and below admin revokes connections to hosts that are not the service's own.
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
      await giveRole(tx, { userId, before, role }, actorOf(caller))
    }
    return { user_id: userId, role }
  })
}

/** Ends what the new role may not use. The caller has checked that an owner is left. */
export async function giveRole(
  tx: ChainTx,
  { userId, before, role }: { readonly userId: string; readonly before: Role; readonly role: Role },
  actor: Actor,
): Promise<void> {
  await tx.trx
    .updateTable('memberships')
    .set({ role })
    .where('organization_id', '=', tx.organizationId)
    .where('user_id', '=', userId)
    .execute()
  const ended = hasRole(role, 'member')
    ? { ended_sessions: 0, cancelled_approvals: 0 }
    : await endAllOf(tx, userId)
  if (!hasRole(role, 'admin')) await revokeConnectionsOf(tx, userId, 'foreign', actor)
  appendMemberEvent(tx, actor, 'member.role_changed', {
    member_id: userId,
    from: before,
    to: role,
    ...ended,
  })
}

/**
 * Members remove themselves, owners anybody. Throws `insufficient_role`, `conflict` for the last owner, and
 * `not_found`.
 *
 * The person leaves all groups. The keys stay, without access to this organization (docs/decisions/0012). Personal connections are revoked, and agent
 * sessions end. Approvals of the agents are withdrawn if they are pending, or approved and not used yet.
 */
export async function removeMember(context: Acting, caller: Caller, userId: string): Promise<void> {
  await runAs(context, caller, 'org.change', async (tx, now) => {
    if (userId !== caller.userId) requireRole((await now()).role, 'owner')
    if ((await memberIn(tx, userId)) === 'owner') await requireAnotherOwner(tx, userId)
    const why = userId === caller.userId ? 'left' : 'removed'
    await endMembership(tx, userId, why, actorOf(caller))
  })
}

/**
 * The next sign-in with the provider looks for the person by address again. Ends the sessions that the provider opened.
 * Throws `not_found`.
 */
export async function unlinkIdentity(context: Acting, caller: Caller, userId: string): Promise<void> {
  await runAs(context, caller, 'org.change', async (tx) => {
    const row = await tx.trx
      .deleteFrom('sign_in_identities')
      .where('organization_id', '=', tx.organizationId)
      .where('user_id', '=', userId)
      .returning('issuer')
      .executeTakeFirst()
    if (row === undefined) throw notFound('sign-in with the provider of', userId)
    tx.append({
      eventType: 'member.identity_unlinked',
      action: 'unlink',
      actor: actorOf(caller),
      metadata: {
        member_id: userId,
        issuer: row.issuer,
        ended_sessions: await endProviderSessions(tx, userId),
      },
    })
  })
}

async function endProviderSessions(tx: ChainTx, userId: string): Promise<number> {
  const { numAffectedRows } = await sql`delete from auth_sessions
    where user_id = ${userId} and provider_organization = ${tx.organizationId}`.execute(tx.trx)
  return Number(numAffectedRows ?? 0n)
}

/** Not by an invitation. The caller has checked that the person is no member. */
export async function joinWithoutInvitation(
  tx: ChainTx,
  userId: string,
  role: Role,
  actor: Actor,
): Promise<void> {
  await tx.trx
    .insertInto('memberships')
    .values({ organization_id: tx.organizationId, user_id: userId, role })
    .execute()
  tx.append({ eventType: 'member.joined', action: 'join', actor, metadata: { member_id: userId, role } })
}

/** Whoever was removed does not join again by a sign-in. Who has left does, and who gets a role at the provider again. */
export type Ending = 'left' | 'removed' | 'without_role'

/** The caller has checked that an owner is left. Sign-ins with the organization's provider end: they act only here. */
export async function endMembership(tx: ChainTx, userId: string, why: Ending, actor: Actor): Promise<void> {
  const groups = await groupsOf(tx.trx, tx.organizationId, userId)
  if (groups.length > 0) tx.policyChanged()
  await tx.trx
    .deleteFrom('memberships')
    .where('organization_id', '=', tx.organizationId)
    .where('user_id', '=', userId)
    .execute()
  const ended = await endAllOf(tx, userId)
  await endProviderSessions(tx, userId)
  await revokeConnectionsOf(tx, userId, 'all', actor)
  await noteRemoval(tx, userId, why === 'removed')
  appendMemberEvent(tx, actor, why === 'left' ? 'member.left' : 'member.removed', {
    member_id: userId,
    ...ended,
    ...(groups.length > 0 ? { groups: groups.map(({ name }) => name) } : {}),
  })
}

export async function noteRemoval(tx: ChainTx, userId: string, isRemoved: boolean): Promise<void> {
  const row = { organization_id: tx.organizationId, user_id: userId }
  await (isRemoved
    ? tx.trx
        .insertInto('removed_members')
        .values(row)
        .onConflict((conflict) => conflict.doNothing())
        .execute()
    : sql`delete from removed_members
        where organization_id = ${tx.organizationId} and user_id = ${userId}`.execute(tx.trx))
}

/** Whether an owner or the directory has ended the last membership of somebody who is no member now. */
export async function wasRemoved(tx: ChainTx, userId: string): Promise<boolean> {
  const { rows } = await sql`select from removed_members
    where organization_id = ${tx.organizationId} and user_id = ${userId}`.execute(tx.trx)
  return rows.length > 0
}

async function memberIn(tx: ChainTx, userId: string): Promise<Role> {
  const role = await roleUnderLock(tx, userId)
  if (role === null) throw notFound('member', userId)
  return role
}

export async function isLastOwner(tx: ChainTx, userId: string): Promise<boolean> {
  const { rows } = await sql<{ owner: string }>`select user_id as owner from memberships
    where organization_id = ${tx.organizationId} and role = 'owner' limit 2`.execute(tx.trx)
  return rows.length === 1 && rows[0]?.owner === userId
}

/** While looser changes need a second person, one owner alone could not change what only owners do, nor go back. */
async function requireAnotherOwner(tx: ChainTx, userId: string): Promise<void> {
  if (await isLastOwner(tx, userId))
    throw new DomainError(
      'conflict',
      'the last owner can neither leave nor get another role: make another member an owner first',
    )
  if (tx.policy.settings.loosening === 'free') return
  const owners = await tx.send(ownersOf(tx.organizationId))
  if (owners.filter(({ id }) => id !== userId).length < 2)
    throw new DomainError(
      'conflict',
      'while `loosening` is `second_person`, two owners must stay, because each decides what the other one changes: make another member an owner first, or set `loosening` to `free`, which the other owner approves',
    )
}

function appendMemberEvent(
  tx: ChainTx,
  actor: Actor,
  eventType: 'member.role_changed' | 'member.left' | 'member.removed',
  metadata: AuditMetadata<typeof eventType>,
): void {
  const action = eventType.slice(eventType.indexOf('.') + 1)
  tx.append({ eventType, action, actor, metadata })
}

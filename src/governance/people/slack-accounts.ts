import { sql } from 'kysely'
import type { Db } from '../../db/schema/index.ts'
import { actorOf, type Caller } from '../access/identity.ts'
import { requireRole, roleUnderLock, runAs, type Acting } from '../access/recheck.ts'
import { DomainError, notFound } from '../errors.ts'

export interface LinkedAccount {
  /** Slack's id of the person, such as `U012ABCDEF`. */
  readonly id: string
  /** Seconds since it was linked, by the database's clock. */
  readonly linkedSecondsAgo: number
}

/** The Slack account of a member; null if none is linked. */
export async function slackAccountOf(
  db: Db,
  member: { readonly organizationId: string; readonly userId: string },
): Promise<LinkedAccount | null> {
  const row = await db
    .selectFrom('memberships')
    .select([
      'slack_account',
      sql<number>`extract(epoch from clock_timestamp() - slack_linked_at)::float8`.as('ago'),
    ])
    .where('organization_id', '=', member.organizationId)
    .where('user_id', '=', member.userId)
    .executeTakeFirst()
  const id = row?.slack_account ?? null
  return row === undefined || id === null ? null : { id, linkedSecondsAgo: row.ago }
}

/**
 * Links a Slack account to a member: one's own, or as an admin anybody's. Linking the same one again changes nothing.
 * Throws `insufficient_role`, `not_found` for a non-member, and `conflict` if it is linked to another member.
 */
export async function linkSlackAccount(
  context: Acting,
  caller: Caller,
  userId: string,
  account: string,
): Promise<{ readonly user_id: string; readonly external_id: string }> {
  await setSlackAccount(context, caller, userId, account)
  return { user_id: userId, external_id: account }
}

/** Throws like `linkSlackAccount`. Without a link it changes nothing. */
export const unlinkSlackAccount = (context: Acting, caller: Caller, userId: string): Promise<void> =>
  setSlackAccount(context, caller, userId, null)

function setSlackAccount(
  context: Acting,
  caller: Caller,
  userId: string,
  account: string | null,
): Promise<void> {
  return runAs(context, caller, 'org.change', async (tx, now) => {
    const { role } = await now()
    if (userId !== caller.userId) requireRole(role, 'admin')
    if ((await roleUnderLock(tx, userId)) === null) throw notFound('member', userId)
    const rows = await tx.trx
      .selectFrom('memberships')
      .select(['user_id', 'slack_account'])
      .where('organization_id', '=', tx.organizationId)
      .where((where) => where.or([where('user_id', '=', userId), where('slack_account', '=', account)]))
      .execute()
    const before = rows.find((row) => row.user_id === userId)?.slack_account ?? null
    if (before === account) return
    if (rows.some((row) => row.user_id !== userId))
      throw new DomainError(
        'conflict',
        'this Slack account is linked to another member: unlink it there first, or link another one',
      )
    await tx.trx
      .updateTable('memberships')
      .set({ slack_account: account, slack_linked_at: account === null ? null : tx.now })
      .where('organization_id', '=', tx.organizationId)
      .where('user_id', '=', userId)
      .execute()
    const verb = account === null ? 'unlinked' : 'linked'
    tx.append({
      eventType: `member.account_${verb}`,
      action: `account_${verb}`,
      status: 'success',
      actor: actorOf(caller),
      metadata: { member_id: userId, service: 'slack', external_id: account ?? before },
    })
  })
}

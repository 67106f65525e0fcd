import { sql } from 'kysely'
import type { LinkedAccount } from '../../contract/tool-services.ts'
import type { Db } from '../../db/schema/index.ts'
import { requireProvenCaller } from '../access/address-proof.ts'
import { actorOf, type Caller } from '../access/identity.ts'
import { requireRole, roleUnderLock, runAs, type Acting } from '../access/recheck.ts'
import { hasRole } from '../access/scopes.ts'
import type { ChainTx } from '../audit/chain-tx.ts'
import { DomainError, notFound } from '../errors.ts'
import {
  checkCode,
  claimAccount,
  endClaims,
  mostCodes,
  mostCodesToAccount,
  testedClaim,
  type OpenClaim,
  type TooMany,
} from '../notifications/claims.ts'
import { hasSlack } from '../notifications/plan-slack.ts'

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

/** If not `linked`, a code or a test message was sent to the account. */
export interface LinkAnswer {
  readonly user_id: string
  readonly external_id: string
  readonly linked: boolean
  readonly code_expires_at: string | null
}

export interface Account {
  readonly external_id: string
  readonly code?: string | undefined
}

/**
 * Links a Slack account to a member: their own with a code that is sent to it, or any member's by an admin, once a test
 * message has arrived there (`linkTested`). The same account again changes nothing.
 *
 * Throws `insufficient_role`, `not_found`, `validation_error` for a wrong code, `rate_limited` after too many codes,
 * and `conflict` if the account is linked to another member, if no code can be sent, or while the address is not
 * confirmed.
 */
export async function linkSlackAccount(
  context: Acting,
  caller: Caller,
  userId: string,
  { external_id: account, code }: Account,
): Promise<LinkAnswer> {
  const answer = { user_id: userId, external_id: account, linked: true, code_expires_at: null }
  const refusal = await runAs(context, caller, 'org.change', async (tx, now) => {
    const present = await now()
    const before = await accountToChange(tx, present, userId, account)
    await requireProvenCaller(tx, present)
    if (before === account) return null
    const isAdmin = hasRole(present.role, 'admin')
    if (isAdmin || code === undefined) return sendTo(tx, caller, { userId, account, isAdmin })
    const outcome = await checkCode(tx, userId, { account, code })
    // Returned and not thrown, because the count of wrong codes must be committed.
    if (outcome !== 'right') return codeRefused(outcome)
    await saveAccount(tx, caller, { userId, before, account })
    return null
  })
  if (refusal instanceof DomainError) throw refusal
  if (refusal === null) return answer
  return { ...answer, linked: false, code_expires_at: refusal.expiresAt.toISOString() }
}

/** Throws `insufficient_role` if a member names another one, and `not_found`. */
export const unlinkSlackAccount = (context: Acting, caller: Caller, userId: string): Promise<void> =>
  runAs(context, caller, 'org.change', async (tx, now) => {
    const before = await accountToChange(tx, await now(), userId, null)
    if (before !== null) await saveAccount(tx, caller, { userId, before, account: null })
  })

/** Throws if the caller may not change it, or if the new account is linked to another member. */
async function accountToChange(
  tx: ChainTx,
  { userId: own, role }: Pick<Caller, 'userId' | 'role'>,
  userId: string,
  account: string | null,
): Promise<string | null> {
  if (userId !== own) requireRole(role, 'admin')
  if ((await roleUnderLock(tx, userId)) === null) throw notFound('member', userId)
  const rows = await tx.trx
    .selectFrom('memberships')
    .select(['user_id', 'slack_account'])
    .where('organization_id', '=', tx.organizationId)
    .where((where) => where.or([where('user_id', '=', userId), where('slack_account', '=', account)]))
    .execute()
  if (rows.some((row) => row.user_id !== userId))
    throw new DomainError(
      'conflict',
      'this Slack account is linked to another member: unlink it there first, or link another one',
    )
  return rows[0]?.slack_account ?? null
}

/**
 * The test message of an admin has arrived, or certainly arrives: links the account, unless the claim has ended, the
 * member has left, or the account is linked to another member meanwhile. Can be repeated.
 */
export async function linkTested(
  context: Pick<Acting, 'combiner'>,
  organizationId: string,
  claimId: string,
): Promise<void> {
  await context.combiner.run(organizationId, 'org.change', async (tx) => {
    const claim = await testedClaim(tx, claimId)
    if (claim === null) return
    const { userId, account, askedBy } = claim
    const rows = await tx.trx
      .selectFrom('memberships')
      .select(['user_id', 'slack_account'])
      .where('organization_id', '=', organizationId)
      .where((where) => where.or([where('user_id', '=', userId), where('slack_account', '=', account)]))
      .execute()
    const own = rows.find((row) => row.user_id === userId)
    if (own === undefined || rows.length > 1) return
    await endClaims(tx.trx, { organizationId, userId }, 'linked')
    const by = { userId: askedBy, keyId: null, ip: null }
    await saveAccount(tx, by, { userId, before: own.slack_account, account })
  })
}

/** A code, or the test message of an admin. Returns the error if none can be sent. */
async function sendTo(
  tx: ChainTx,
  caller: Caller,
  {
    userId,
    account,
    isAdmin,
  }: { readonly userId: string; readonly account: string; readonly isAdmin: boolean },
): Promise<OpenClaim | DomainError> {
  if (!(await hasSlack(tx.trx, tx.organizationId)))
    return new DomainError(
      'conflict',
      'Slack is not connected in this organization, so no message can be sent to the account: ask an admin to connect Slack for the organization',
    )
  const claim = await claimAccount(tx, userId, account, isAdmin ? caller.userId : null)
  if (typeof claim === 'string') return new DomainError('rate_limited', tooMany[claim], [], 3_600)
  if (claim.isNew) append(tx, caller, 'member.account_claimed', { userId, account })
  return claim
}

const tooMany: Readonly<Record<TooMany, string>> = {
  of_member: `at most ${mostCodes} codes and tests are sent to Slack for a member in an hour: type in the last code, or wait`,
  to_account: `at most ${mostCodesToAccount} codes and tests are sent to one Slack account in an hour: wait`,
}

const codeRefused = (outcome: 'wrong' | 'no_code'): DomainError => {
  const message =
    outcome === 'wrong'
      ? 'is not the code that was sent to this Slack account'
      : 'has ended, or none was sent to this Slack account: have a new one sent'
  return new DomainError('validation_error', `the code ${message}`, [{ path: 'code', message }])
}

async function saveAccount(
  tx: ChainTx,
  caller: By,
  change: { readonly userId: string; readonly before: string | null; readonly account: string | null },
): Promise<void> {
  const { userId, before, account } = change
  await tx.trx
    .updateTable('memberships')
    .set({ slack_account: account, slack_linked_at: account === null ? null : tx.now })
    .where('organization_id', '=', tx.organizationId)
    .where('user_id', '=', userId)
    .execute()
  const type = account === null ? 'member.account_unlinked' : 'member.account_linked'
  append(tx, caller, type, { userId, account: account ?? before })
}

type By = Parameters<typeof actorOf>[0]

function append(
  tx: ChainTx,
  caller: By,
  eventType: 'member.account_claimed' | 'member.account_linked' | 'member.account_unlinked',
  { userId, account }: { readonly userId: string; readonly account: string | null },
): void {
  tx.append({
    eventType,
    action: eventType.slice('member.'.length),
    actor: actorOf(caller),
    metadata: { member_id: userId, service: 'slack', external_id: account },
  })
}

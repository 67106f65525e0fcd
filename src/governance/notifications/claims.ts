import { randomInt } from 'node:crypto'
import { sql, type Transaction } from 'kysely'
import { newId } from '../../contract/ids.ts'
import { insertNotifications, touchMessages } from '../../db/queries/notifications/messages.ts'
import type { Database, Db } from '../../db/schema/index.ts'
import type { ChainTx } from '../audit/chain-tx.ts'

/*
 * Members prove that a Slack account is theirs: Countersign sends a code to it, which only its owner can read, and the
 * member types it in. `prune` deletes claims after a day.
 */

/** The event of the message with a code. */
export const codeEvent = 'account.code'
/** The event of an admin's test message, which links the account when it has arrived. */
export const testEvent = 'account.test'
export const codeMinutes = 30
export const mostWrong = 5
/** In an hour, for a member. */
export const mostCodes = 5
/** In an hour, for all members together. Its owner perhaps did not ask for a code. */
export const mostCodesToAccount = 10
/** A repeated request within so many seconds sends no second code. */
const repeatSeconds = 60

interface Named {
  readonly organizationId: string
  readonly userId: string
}

/** The member can still type in the code, or the test message can still arrive. */
export interface OpenClaim {
  readonly account: string
  readonly expiresAt: Date
  readonly needsCode: boolean
  /** Why the message could not be sent; null if it was, or waits. */
  readonly problem: string | null
}

/** `no_code`: none was sent to this account, or it has ended or expired. */
export type CodeOutcome = 'right' | 'wrong' | 'no_code'

const isOpenSql = (now: Date) =>
  sql<boolean>`ended is null and wrong_codes < ${mostWrong} and expires_at > ${now}`

/** Which hourly limit one more code would exceed. */
export type TooMany = 'of_member' | 'to_account'

/** Ends the member's earlier one. Sends nothing within a minute (`isNew`), or above an hourly limit (returned). */
export async function claimAccount(
  tx: ChainTx,
  userId: string,
  account: string,
  /** The admin who links the account with a test message. */
  askedBy: string | null = null,
): Promise<(OpenClaim & { readonly isNew: boolean }) | TooMany> {
  const { trx, organizationId, now } = tx
  const own = await trx
    .selectFrom('slack_claims')
    .select(['slack_account', 'created_at', 'expires_at', 'asked_by', isOpenSql(now).as('is_open')])
    .where('organization_id', '=', organizationId)
    .where('user_id', '=', userId)
    .where('created_at', '>', hourBefore(now))
    .orderBy('created_at', 'desc')
    .limit(mostCodes)
    .execute()
  const [last] = own
  const isRepeated =
    last?.is_open === true &&
    last.slack_account === account &&
    last.asked_by === askedBy &&
    now.getTime() - last.created_at.getTime() < repeatSeconds * 1_000
  const open = { account, needsCode: askedBy === null, problem: null }
  if (isRepeated) return { ...open, expiresAt: last.expires_at, isNew: false }
  if (own.length >= mostCodes) return 'of_member'
  if (await hasTooMany(tx, account)) return 'to_account'
  await endClaims(trx, { organizationId, userId }, 'replaced')
  const id = newId('notification')
  const expiresAt = new Date(now.getTime() + codeMinutes * 60_000)
  const code = String(randomInt(100_000_000)).padStart(8, '0')
  await trx
    .insertInto('slack_claims')
    .values({
      id,
      organization_id: organizationId,
      user_id: userId,
      slack_account: account,
      code,
      created_at: now,
      expires_at: expiresAt,
      asked_by: askedBy,
    })
    .execute()
  const event = askedBy === null ? codeEvent : testEvent
  const message = { id, messageId: id, channel: 'slack', event, kind: 'claim', subject: id }
  await insertNotifications(organizationId, [
    { ...message, round: 0, recipient: userId, groupKey: null, afterSeconds: 0 },
  ]).execute(trx)
  return { ...open, expiresAt, isNew: true }
}

const hourBefore = (now: Date): Date => new Date(now.getTime() - 3_600_000)

async function hasTooMany({ trx, organizationId, now }: ChainTx, account: string): Promise<boolean> {
  const sent = await trx
    .selectFrom('slack_claims')
    .select('id')
    .where('organization_id', '=', organizationId)
    .where('slack_account', '=', account)
    .where('created_at', '>', hourBefore(now))
    .limit(mostCodesToAccount)
    .execute()
  return sent.length >= mostCodesToAccount
}

/** Counts a wrong code. A right one ends the claim. */
export async function checkCode(
  { trx, organizationId, now }: ChainTx,
  userId: string,
  given: { readonly account: string; readonly code: string },
): Promise<CodeOutcome> {
  const claim = await trx
    .selectFrom('slack_claims')
    .select(['id', 'code'])
    .where('organization_id', '=', organizationId)
    .where('user_id', '=', userId)
    .where('slack_account', '=', given.account)
    .where('asked_by', 'is', null)
    .where(isOpenSql(now))
    .orderBy('created_at', 'desc')
    .executeTakeFirst()
  if (claim === undefined) return 'no_code'
  if (claim.code === given.code) {
    await endClaims(trx, { organizationId, userId }, 'linked')
    return 'right'
  }
  await trx
    .updateTable('slack_claims')
    .set((row) => ({ wrong_codes: row('wrong_codes', '+', 1) }))
    .where('id', '=', claim.id)
    .execute()
  return 'wrong'
}

/** Also requests an edit of the messages that brought the codes. */
export async function endClaims(
  trx: Transaction<Database>,
  { organizationId, userId }: Named,
  ended: 'linked' | 'replaced',
): Promise<void> {
  const rows = await trx
    .updateTable('slack_claims')
    .set({ ended })
    .where('organization_id', '=', organizationId)
    .where('user_id', '=', userId)
    .where('ended', 'is', null)
    .returning('id')
    .execute()
  if (rows.length === 0) return
  await touchMessages(sql`id = any(${rows.map(({ id }) => id)}::text[])`).execute(trx)
}

/** By organization: a person has at most one open claim in each. */
export async function openClaimsOf(db: Db, userId: string): Promise<ReadonlyMap<string, OpenClaim>> {
  const rows = await db
    .selectFrom('slack_claims as c')
    .leftJoin('notifications as n', 'n.id', 'c.id')
    .select(['c.organization_id', 'c.slack_account', 'c.expires_at', 'c.asked_by', 'n.state', 'n.last_error'])
    .where('c.user_id', '=', userId)
    .where('c.ended', 'is', null)
    .where('c.wrong_codes', '<', mostWrong)
    .where('c.expires_at', '>', sql<Date>`clock_timestamp()`)
    .execute()
  return new Map(
    rows.map((row) => [
      row.organization_id,
      {
        account: row.slack_account,
        expiresAt: row.expires_at,
        needsCode: row.asked_by === null,
        problem: row.state === 'failed' ? (row.last_error ?? 'failed') : null,
      },
    ]),
  )
}

/** The open claim that a test message links. null if it has ended, or if the code links it. Call it under the lock. */
export async function testedClaim(
  { trx, organizationId, now }: ChainTx,
  id: string,
): Promise<{ readonly userId: string; readonly account: string; readonly askedBy: string } | null> {
  const row = await trx
    .selectFrom('slack_claims')
    .select(['user_id', 'slack_account', 'asked_by'])
    .where('id', '=', id)
    .where('organization_id', '=', organizationId)
    .where(isOpenSql(now))
    .executeTakeFirst()
  if (row === undefined || row.asked_by === null) return null
  return { userId: row.user_id, account: row.slack_account, askedBy: row.asked_by }
}

/** What the message with the code shows. */
export interface SentClaim {
  readonly account: string
  readonly code: string
  readonly expiresAt: Date
  readonly state: 'open' | 'expired' | 'linked' | 'replaced'
  readonly organizationName: string
  readonly email: string
  readonly needsCode: boolean
}

/** null if the member has left, or if the claim was deleted after a day. */
export async function readClaim(db: Db, id: string): Promise<SentClaim | null> {
  const row = await db
    .selectFrom('slack_claims as c')
    .innerJoin('organizations as o', 'o.id', 'c.organization_id')
    .innerJoin('users as u', 'u.id', 'c.user_id')
    .select(['c.slack_account', 'c.code', 'c.expires_at', 'c.ended', 'c.asked_by', 'o.name', 'u.email'])
    .select(sql<boolean>`c.expires_at <= clock_timestamp()`.as('is_late'))
    .where('c.id', '=', id)
    .executeTakeFirst()
  if (row === undefined) return null
  return {
    account: row.slack_account,
    code: row.code,
    expiresAt: row.expires_at,
    state: row.ended ?? (row.is_late ? 'expired' : 'open'),
    organizationName: row.name,
    email: row.email,
    needsCode: row.asked_by === null,
  }
}

import { randomInt } from 'node:crypto'
import { sql, type Transaction } from 'kysely'
import { newId } from '../../contract/ids.ts'
import { insertNotifications } from '../../db/queries/notifications/insert-notifications.ts'
import type { Database, Db } from '../../db/schema/index.ts'
import type { ChainTx } from '../audit/chain-tx.ts'

/*
 * A member says that a Slack account is theirs: a code goes to that account, and only who reads it there can type it in.
 */

/** The event of the message that brings a code. */
export const codeEvent = 'account.code'
export const codeMinutes = 30
/** Wrong codes after which a new one is needed. */
export const mostWrong = 5
/** Codes that a member can have sent in an hour. */
export const mostCodes = 5
/** Codes that all members together can have sent to one account in an hour: its owner may have asked for none. */
export const mostCodesToAccount = 10
/** The same request within so many seconds sends no second message. */
const repeatSeconds = 60

interface Named {
  readonly organizationId: string
  readonly userId: string
}

/** An account whose code may be typed in. */
export interface OpenClaim {
  readonly account: string
  readonly expiresAt: Date
}

/** What became of a code that was typed in. */
export type CodeOutcome = 'right' | 'wrong' | 'no_code'

const isOpenSql = (now: Date) =>
  sql<boolean>`ended is null and wrong_codes < ${mostWrong} and expires_at > ${now}`

/** Whose codes were too many in the last hour: those of the member, or those to the account. */
export type TooMany = 'of_member' | 'to_account'

/**
 * Has a code sent to the account, and ends the code before it, unless too many were sent in the last hour.
 * Asked again within a minute, it sends nothing more, and `isNew` is false.
 */
export async function claimAccount(
  tx: ChainTx,
  userId: string,
  account: string,
): Promise<(OpenClaim & { readonly isNew: boolean }) | TooMany> {
  const { trx, organizationId, now } = tx
  const own = await trx
    .selectFrom('slack_claims')
    .select(['id', 'slack_account', 'created_at', 'expires_at', isOpenSql(now).as('is_open')])
    .where('organization_id', '=', organizationId)
    .where('user_id', '=', userId)
    .orderBy('created_at', 'desc')
    .execute()
  const ago = ({ created_at }: { readonly created_at: Date }): number =>
    (now.getTime() - created_at.getTime()) / 1_000
  const [last] = own
  if (last?.is_open === true && last.slack_account === account && ago(last) < repeatSeconds)
    return { account, expiresAt: last.expires_at, isNew: false }
  if (own.filter((each) => ago(each) < 3_600).length >= mostCodes) return 'of_member'
  if (await hasTooMany(tx, account)) return 'to_account'
  await endClaims(trx, { organizationId, userId }, 'replaced')
  const old = own.filter((each) => ago(each) >= 86_400).map(({ id }) => id)
  if (old.length > 0) await trx.deleteFrom('slack_claims').where('id', 'in', old).execute()
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
    })
    .execute()
  const message = { id, messageId: id, channel: 'slack', event: codeEvent, kind: 'claim', subject: id }
  await insertNotifications(organizationId, [
    { ...message, round: 0, recipient: userId, groupKey: null, afterSeconds: 0 },
  ]).execute(trx)
  return { account, expiresAt, isNew: true }
}

async function hasTooMany({ trx, organizationId, now }: ChainTx, account: string): Promise<boolean> {
  const sent = await trx
    .selectFrom('slack_claims')
    .select('id')
    .where('organization_id', '=', organizationId)
    .where('slack_account', '=', account)
    .where('created_at', '>', new Date(now.getTime() - 3_600_000))
    .limit(mostCodesToAccount)
    .execute()
  return sent.length >= mostCodesToAccount
}

/** Compares a code with the one that was sent to the account, and counts a wrong one. A right one ends the claim. */
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

/** Ends the open claims of a member. Their messages say so. */
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
  await trx
    .updateTable('notifications')
    .set((row) => ({ wanted: row('wanted', '+', 1) }))
    .where(
      'id',
      'in',
      rows.map(({ id }) => id),
    )
    .execute()
}

/** Accounts whose codes this person may type in, by organization. */
export async function openClaimsOf(db: Db, userId: string): Promise<ReadonlyMap<string, OpenClaim>> {
  const rows = await db
    .selectFrom('slack_claims')
    .select(['organization_id', 'slack_account', 'expires_at'])
    .where('user_id', '=', userId)
    .where('ended', 'is', null)
    .where('wrong_codes', '<', mostWrong)
    .where('expires_at', '>', sql<Date>`clock_timestamp()`)
    .execute()
  return new Map(
    rows.map((row) => [row.organization_id, { account: row.slack_account, expiresAt: row.expires_at }]),
  )
}

/** What the message with the code says now. */
export interface SentClaim {
  readonly account: string
  readonly code: string
  readonly expiresAt: Date
  readonly state: 'open' | 'expired' | 'linked' | 'replaced'
  readonly organizationName: string
  readonly email: string
}

/** Null if the member has left, or the claim is a day old. */
export async function readClaim(db: Db, id: string): Promise<SentClaim | null> {
  const row = await db
    .selectFrom('slack_claims as c')
    .innerJoin('organizations as o', 'o.id', 'c.organization_id')
    .innerJoin('users as u', 'u.id', 'c.user_id')
    .select(['c.slack_account', 'c.code', 'c.expires_at', 'c.ended', 'o.name', 'u.email'])
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
  }
}

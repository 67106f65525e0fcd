import { randomInt } from 'node:crypto'
import { sql, type Transaction } from 'kysely'
import { newId } from '../../contract/ids.ts'
import { insertNotifications } from '../../db/queries/notifications.ts'
import type { Database, Db } from '../../db/schema/index.ts'
import type { ChainTx } from '../audit/chain-tx.ts'

/*
 * Members prove that a Slack account is theirs: Countersign sends a code to the account, and the member types in the
 * code. Only a person who can read the messages of the account knows the code. `prune` deletes claims after a day.
 */

/** The event of the message that brings a code. */
export const codeEvent = 'account.code'
export const codeMinutes = 30
/** After this many wrong codes, a new code is needed. */
export const mostWrong = 5
/** In an hour, a member can request at most this many codes. */
export const mostCodes = 5
/**
 * One account gets at most this many codes in an hour, for all members together. The limit protects the owner of the
 * account, who perhaps did not ask for a code.
 */
export const mostCodesToAccount = 10
/** If a member asks for a code again within this many seconds, no second code is sent. */
const repeatSeconds = 60

interface Named {
  readonly organizationId: string
  readonly userId: string
}

/** A Slack account to which a code was sent. The member can still type in this code. */
export interface OpenClaim {
  readonly account: string
  readonly expiresAt: Date
}

/**
 * The result of typing in a code. `no_code` means that the member has no valid code for this account: no code was sent,
 * or the code has ended or expired.
 */
export type CodeOutcome = 'right' | 'wrong' | 'no_code'

const isOpenSql = (now: Date) =>
  sql<boolean>`ended is null and wrong_codes < ${mostWrong} and expires_at > ${now}`

/** The hourly limit that one more code would exceed: the limit for the member, or the limit for the account. */
export type TooMany = 'of_member' | 'to_account'

/**
 * Sends a code to the account and ends the member's earlier code. If an hourly limit is reached, changes nothing and
 * returns the limit. If the member asks for the same account again within a minute, sends nothing, and `isNew` is
 * false.
 */
export async function claimAccount(
  tx: ChainTx,
  userId: string,
  account: string,
): Promise<(OpenClaim & { readonly isNew: boolean }) | TooMany> {
  const { trx, organizationId, now } = tx
  const own = await trx
    .selectFrom('slack_claims')
    .select(['slack_account', 'created_at', 'expires_at', isOpenSql(now).as('is_open')])
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
    now.getTime() - last.created_at.getTime() < repeatSeconds * 1_000
  if (isRepeated) return { account, expiresAt: last.expires_at, isNew: false }
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
    })
    .execute()
  const message = { id, messageId: id, channel: 'slack', event: codeEvent, kind: 'claim', subject: id }
  await insertNotifications(organizationId, [
    { ...message, round: 0, recipient: userId, groupKey: null, afterSeconds: 0 },
  ]).execute(trx)
  return { account, expiresAt, isNew: true }
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

/** Compares a code with the code that was sent to the account. Counts a wrong code. A right code ends the claim. */
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

/** Ends the open claims of a member, and requests an edit of the Slack messages that brought the codes. */
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

/**
 * Returns a person's open claims. The keys are ids of organizations. In each organization, the person has at most one
 * open claim.
 */
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

/** The present state of a claim. The Slack message with the claim's code shows this state. */
export interface SentClaim {
  readonly account: string
  readonly code: string
  readonly expiresAt: Date
  readonly state: 'open' | 'expired' | 'linked' | 'replaced'
  readonly organizationName: string
  readonly email: string
}

/** Reads the claim of a message. Returns null if the member has left, or if the claim was deleted after a day. */
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

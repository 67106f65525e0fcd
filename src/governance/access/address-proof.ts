import { sql, type Transaction } from 'kysely'
import { revokeKeysOf } from '../../db/queries/access.ts'
import type { Database, Db } from '../../db/schema/index.ts'
import type { ChainTx } from '../audit/chain-tx.ts'
import { DomainError } from '../errors.ts'
import type { PresentCaller } from './recheck.ts'

/**
 * Records that the acting person receives the mail of the account's address. Before that, another person may have
 * signed up with this address (docs/decisions/0045). So the first proof also ends all sign-in sessions, second factors,
 * unfinished sign-ins and API keys of the account, in the same transaction. Only the session with `keptToken` stays.
 */
export async function proveAddress(db: Db, userId: string, keptToken: string | null): Promise<void> {
  await db.transaction().execute(async (trx) => {
    const { numUpdatedRows } = await trx
      .updateTable('users')
      .set({ email_verified: true, two_factor_enabled: false })
      .where('id', '=', userId)
      .where('email_verified', '=', false)
      .executeTakeFirstOrThrow()
    if (numUpdatedRows > 0n) await endWhatWasBefore(trx, userId, keptToken)
  })
}

async function endWhatWasBefore(
  trx: Transaction<Database>,
  userId: string,
  keptToken: string | null,
): Promise<void> {
  await sql`delete from auth_sessions where user_id = ${userId} and token is distinct from ${keptToken}`.execute(
    trx,
  )
  await sql`delete from auth_two_factors where user_id = ${userId}`.execute(trx)
  await endHalfSignIns(trx, userId)
  await revokeKeysOf(userId).execute(trx)
}

/** Ends the person's sign-ins that still wait for a second factor. Also makes the person's mailed tokens invalid. */
export async function endHalfSignIns(db: Db, userId: string): Promise<void> {
  await sql`delete from auth_verifications where value = ${userId}`.execute(db)
}

/**
 * Throws `conflict` if the person's address is not confirmed. Call this function under the chain's lock, or in a
 * transaction that has locked the person's row. The function itself locks this row. So a concurrent `proveAddress` has
 * ended before the check, or waits until the caller's transaction has ended.
 */
export async function requireProvenAddress(tx: Pick<ChainTx, 'trx'>, userId: string): Promise<void> {
  const row = await tx.trx
    .selectFrom('users')
    .select('email_verified')
    .where('id', '=', userId)
    .forShare()
    .executeTakeFirst()
  if (row?.email_verified !== true) throw addressNotProven()
}

/**
 * Throws `conflict` if the caller's address is not confirmed now, or was not confirmed when the caller's rights were
 * read (see `runAs`). The second condition is needed because a `proveAddress` may commit between the read and this
 * check. The proof then ends the caller's sign-in session, but the earlier read has still found this session valid.
 */
export async function requireProvenCaller(
  tx: Pick<ChainTx, 'trx'>,
  present: Pick<PresentCaller, 'isConfirmed' | 'userId'>,
): Promise<void> {
  await requireProvenAddress(tx, present.userId)
  if (!present.isConfirmed) throw addressNotProven()
}

export const addressNotProven = (): DomainError => new DomainError('conflict', confirmFirst)

/** The reason of a refused run or a denied call if the person's address is not confirmed. */
export const addressNotConfirmed = 'address not confirmed'

export const confirmFirst =
  'confirm your address first: use the link in the mail, or request another by `POST /api/auth/send-verification-email`'

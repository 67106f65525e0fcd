import { sql, type Transaction } from 'kysely'
import { revokeKeysOf } from '../../db/queries/access.ts'
import type { Database, Db } from '../../db/schema/index.ts'
import type { ChainTx } from '../audit/chain-tx.ts'
import { DomainError } from '../errors.ts'
import type { PresentCaller } from './recheck.ts'

/**
 * Records that the person receives mail at the account's address. A stranger may have signed up with it before
 * (docs/decisions/0045), so the first proof also ends all sessions, second factors, half sign-ins and API keys in the
 * same transaction. Only the session with `keptToken` stays.
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
  await sql`delete from auth_passkeys where user_id = ${userId}`.execute(trx)
  await endHalfSignIns(trx, userId)
  await revokeKeysOf(userId).execute(trx)
}

/** Ends sign-ins that still wait for a second factor, and makes mailed tokens invalid. */
export async function endHalfSignIns(db: Db, userId: string): Promise<void> {
  await sql`delete from auth_verifications where value = ${userId}`.execute(db)
}

/**
 * Throws `conflict` for an unconfirmed address. Needs the chain's lock, or a lock on the person's row. It locks this
 * row itself, so that a concurrent `proveAddress` has ended or waits for the caller's transaction.
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
 * Throws `conflict` unless the address is confirmed now and was when the caller's rights were read: a `proveAddress`
 * between the two has ended the caller's session, which the read still found valid.
 */
export async function requireProvenCaller(
  tx: Pick<ChainTx, 'trx'>,
  present: Pick<PresentCaller, 'isConfirmed' | 'userId'>,
): Promise<void> {
  await requireProvenAddress(tx, present.userId)
  if (!present.isConfirmed) throw addressNotProven()
}

export const addressNotProven = (): DomainError => new DomainError('conflict', confirmFirst)

export const addressNotConfirmed = 'address not confirmed'

export const confirmFirst =
  'confirm your address first: use the link in the mail, or request another by `POST /api/auth/send-verification-email`'

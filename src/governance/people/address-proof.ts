import { sql, type Kysely, type Transaction } from 'kysely'
import type { Database } from '../../db/schema/index.ts'
import type { ChainTx } from '../chain-tx.ts'
import { DomainError } from '../errors.ts'

/**
 * Notes that who acts now reads the mail of the account's address. At the first such proof everything that was made
 * before it ends, in one transaction: whoever signed up may have been somebody else (docs/decisions/0045). Of sessions
 * the one with `keptToken` stays: it shows the proof.
 */
export async function proveAddress(
  db: Kysely<Database>,
  userId: string,
  keptToken: string | null,
): Promise<void> {
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
  await sql`
    with revoked as (
      update api_keys set revoked_at = clock_timestamp() where user_id = ${userId} and revoked_at is null
      returning id, organization_id
    )
    insert into account_events (organization_id, user_id, type, api_key_id)
    select organization_id, ${userId}, 'api_key.revoked', id from revoked`.execute(trx)
}

/** Ends what only waits for its second half: sign-ins that still need a second factor, and mailed tokens. */
export async function endHalfSignIns(db: Kysely<Database>, userId: string): Promise<void> {
  await sql`delete from auth_verifications where value = ${userId}`.execute(db)
}

/**
 * `conflict` for a person whose address is not confirmed. Under the chain's lock and with the row kept as it is: what
 * this lets through cannot commit after a proof that would have ended it.
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

export const addressNotProven = (): DomainError => new DomainError('conflict', confirmFirst)

/** The reason of a denial. */
export const addressNotConfirmed = 'address not confirmed'

export const confirmFirst =
  'confirm your address first: the mail to it has the link, `POST /api/auth/send-verification-email` sends another'

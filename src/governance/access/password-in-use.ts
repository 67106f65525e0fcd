import { sql } from 'kysely'
import type { Db } from '../../db/schema/index.ts'
import { endHalfSignIns } from './address-proof.ts'

/** A stored password at one moment. */
export interface PasswordThen {
  readonly userId: string
  readonly hash: string | null
}

/** Returns the stored password of the person with this address. Without such a person, the list is empty. */
export async function passwordOfAddress(db: Db, email: string): Promise<readonly PasswordThen[]> {
  return db
    .selectFrom('auth_accounts')
    .innerJoin('users', 'users.id', 'auth_accounts.user_id')
    .select(['auth_accounts.user_id as userId', 'auth_accounts.password as hash'])
    .where(sql`lower(users.email)`, '=', email.toLowerCase())
    .where('auth_accounts.provider_id', '=', 'credential')
    .execute()
}

/**
 * Returns the stored passwords of two people: the person of a sign-in session, and the person of a sign-in that waits
 * for its second factor. If the session or the sign-in has ended, its person is left out.
 */
export async function passwordsBehind(
  db: Db,
  sessionToken: string | null,
  halfSignIn: string | null,
): Promise<readonly PasswordThen[]> {
  const { rows } = await sql<PasswordThen>`
    select user_id as "userId", password as hash from auth_accounts
    where provider_id = 'credential' and user_id in (
      select user_id from auth_sessions where token = ${sessionToken}
      union all select value from auth_verifications where identifier = ${halfSignIn})`.execute(db)
  return rows
}

/**
 * Ends a new sign-in session, and all sign-ins of the person that wait for a second factor, if the stored password is
 * no longer `hash`. Returns whether it has ended them. Waits for a change of the password that is under way. A later
 * change ends the session itself (migration 0069).
 */
export async function endIfPasswordChanged(
  db: Db,
  userId: string,
  hash: string | null | undefined,
  token: string | null,
): Promise<boolean> {
  // The lock ends with this statement. If it lasted until the deletion below, that could deadlock with a change of the
  // password, which deletes sessions before it takes the lock.
  const now = await db
    .selectFrom('auth_accounts')
    .select('password')
    .where('user_id', '=', userId)
    .where('provider_id', '=', 'credential')
    .forShare()
    .executeTakeFirst()
  if (now !== undefined && now.password === hash) return false
  if (token !== null) await sql`delete from auth_sessions where token = ${token}`.execute(db)
  await endHalfSignIns(db, userId)
  return true
}

export async function isSession(db: Db, token: string): Promise<boolean> {
  const { rows } = await sql`select from auth_sessions where token = ${token}`.execute(db)
  return rows.length > 0
}

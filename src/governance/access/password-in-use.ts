import { sql } from 'kysely'
import type { Db } from '../../db/schema/index.ts'
import { endHalfSignIns } from './address-proof.ts'

/** The stored password of a person, read at one moment. */
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
 * Returns the stored passwords of two people: the person of a sign-in session, and the person of an unfinished sign-in
 * that waits for a second factor. A person is missing in the result if their session or sign-in has ended.
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
 * Checks that the stored password is still `hash`. If not, ends the new sign-in session `token` and all sign-ins of
 * this person that wait for a second factor, and returns true. If a change of the password is in progress, waits for
 * its end. A later change ends the session itself (the trigger `auth_accounts_password_changed`).
 */
export async function endIfPasswordChanged(
  db: Db,
  userId: string,
  hash: string | null | undefined,
  token: string | null,
): Promise<boolean> {
  // The lock ends with this statement. A lock that lasts until the deletion below could cause a deadlock: a change of
  // the password deletes sessions before it takes the lock.
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

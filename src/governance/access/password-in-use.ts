import { sql } from 'kysely'
import type { Db } from '../../db/schema/index.ts'
import { endHalfSignIns } from './address-proof.ts'

export interface PasswordThen {
  readonly userId: string
  readonly hash: string | null
}

export async function passwordOfAddress(db: Db, email: string): Promise<readonly PasswordThen[]> {
  return db
    .selectFrom('auth_accounts')
    .innerJoin('users', 'users.id', 'auth_accounts.user_id')
    .select(['auth_accounts.user_id as userId', 'auth_accounts.password as hash'])
    .where(sql`lower(users.email)`, '=', email.toLowerCase())
    .where('auth_accounts.provider_id', '=', 'credential')
    .execute()
}

/** Passwords of the person of a session, and of an unfinished sign-in. Each is missing once it has ended. */
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
 * If the stored password is no longer `hash`, ends the new session `token` and the person's half sign-ins, and returns
 * true. Waits for a change in progress. A later change ends the session itself (trigger `auth_accounts_password_changed`).
 */
export async function endIfPasswordChanged(
  db: Db,
  userId: string,
  hash: string | null | undefined,
  token: string | null,
): Promise<boolean> {
  // A lock that lasts until the deletion below could cause a deadlock: a change of the password deletes sessions first.
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

import { sql, type Kysely } from 'kysely'
import type { Database } from '../../db/schema/index.ts'
import { sha256 } from '../canonical.ts'

/** Longer than an authenticator's code is taken: its own half minute, the one before and the one after. */
const livesSeconds = 180

/**
 * Takes a code of the person's authenticator, which is good once (RFC 6238 section 5.2); false for one that was taken. Of
 * those who bring it at once, in any processes, one has it.
 */
export async function takeCode(db: Kysely<Database>, userId: string, code: string): Promise<boolean> {
  const { rows } = await sql`
    insert into auth_used_codes as u (user_id, code_hash, at)
    values (${userId}, ${sha256(`${userId} ${code}`)}, clock_timestamp())
    on conflict (user_id, code_hash) do update set at = excluded.at
      where u.at < clock_timestamp() - make_interval(secs => ${livesSeconds})
    returning 1`.execute(db)
  return rows.length > 0
}

/** Forgets codes that would not be taken anyway. */
export async function forgetUsedCodes(db: Kysely<Database>): Promise<void> {
  await sql`delete from auth_used_codes
    where at < clock_timestamp() - make_interval(secs => ${livesSeconds})`.execute(db)
}

import { sql } from 'kysely'
import type { Db } from '../../db/schema/index.ts'
import { sha256 } from '../../shared/canonical-json.ts'

/**
 * Used codes are remembered for this many seconds. A code of an authenticator is accepted for a shorter time: in its
 * own half minute, in the half minute before, and in the half minute after.
 */
const livesSeconds = 180

/**
 * Uses a code of the person's authenticator. Each code is valid once (RFC 6238 section 5.2). Returns false if the code
 * was used before. If several requests use a code at the same time, even in different processes, only one request gets
 * true.
 */
export async function takeCode(db: Db, userId: string, code: string): Promise<boolean> {
  const { rows } = await sql`
    insert into auth_used_codes as u (user_id, code_hash, at)
    values (${userId}, ${sha256(`${userId} ${code}`)}, clock_timestamp())
    on conflict (user_id, code_hash) do update set at = excluded.at
      where u.at < clock_timestamp() - make_interval(secs => ${livesSeconds})
    returning 1`.execute(db)
  return rows.length > 0
}

/** Deletes used codes that are too old to be accepted. */
export async function forgetUsedCodes(db: Db): Promise<void> {
  await sql`delete from auth_used_codes
    where at < clock_timestamp() - make_interval(secs => ${livesSeconds})`.execute(db)
}

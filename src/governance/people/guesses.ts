import { sql } from 'kysely'
import type { Db } from '../../db/schema/index.ts'
import { createHmac } from 'node:crypto'
import type { Configured } from '../context.ts'
import { sha256 } from '../../shared/canonical-json.ts'

/** So many wrong passwords within a short time, then one more every `secondsForOneMore` (docs/decisions/0033). */
export const mostGuesses = 10
export const secondsForOneMore = 300

/** Before the password is checked: null, or the seconds to wait. The row is locked, so no process exceeds the limit. */
export async function takeGuess(db: Db, key: string): Promise<number | null> {
  const level = sql`greatest(0, g.level - extract(epoch from clock_timestamp() - g.at) / ${secondsForOneMore})`
  const taken = await sql`
    insert into password_guesses as g (key, level, at) values (${key}, 1, clock_timestamp())
    on conflict (key) do update set level = ${level} + 1, at = clock_timestamp() where ${level} + 1 <= ${mostGuesses}
    returning key`.execute(db)
  if (taken.rows.length > 0) return null
  const { rows } = await sql<{ wait: number }>`
    select ceil((${level} + 1 - ${mostGuesses}) * ${secondsForOneMore})::float8 as wait
    from password_guesses g where key = ${key}`.execute(db)
  return Math.max(1, rows[0]?.wait ?? 1)
}

/** The password was right or was not checked. */
export async function returnGuess(db: Db, key: string): Promise<void> {
  await sql`update password_guesses set level = greatest(0, level - 1) where key = ${key}`.execute(db)
}

/** After 50 minutes, all guesses are allowed again. */
export async function forgetGuesses(db: Db): Promise<void> {
  await sql`delete from password_guesses
    where at < clock_timestamp() - make_interval(secs => ${mostGuesses * secondsForOneMore})`.execute(db)
}

/** Strangers can trigger these: ten at once, then one every five minutes. Each kind of mail has its own count. */
export async function takeAccountMail(
  { config, db }: Configured,
  address: string,
  kind: string,
): Promise<boolean> {
  const key = createHmac('sha256', config.sessionSecret)
    .update(JSON.stringify(['account mails', kind, address.toLowerCase()]))
    .digest('hex')
  return (await takeGuess(db, key)) === null
}

/** Longer than a code is accepted: in its own half minute, the one before and the one after. */
const livesSeconds = 180

/** Each code is valid once (RFC 6238 section 5.2): of several requests, in any process, only one gets true. */
export async function takeCode(db: Db, userId: string, code: string): Promise<boolean> {
  const { rows } = await sql`
    insert into auth_used_codes as u (user_id, code_hash, at)
    values (${userId}, ${sha256(`${userId} ${code}`)}, clock_timestamp())
    on conflict (user_id, code_hash) do update set at = excluded.at
      where u.at < clock_timestamp() - make_interval(secs => ${livesSeconds})
    returning 1`.execute(db)
  return rows.length > 0
}

export async function forgetUsedCodes(db: Db): Promise<void> {
  await sql`delete from auth_used_codes
    where at < clock_timestamp() - make_interval(secs => ${livesSeconds})`.execute(db)
}

import { sql } from 'kysely'
import type { Db } from '../../db/schema/index.ts'

/**
 * This many wrong passwords are allowed within a short time. After that, one more is allowed every `secondsForOneMore`
 * seconds (docs/decisions/0033).
 */
export const mostGuesses = 10
export const secondsForOneMore = 300

/**
 * Uses up one guess of `key`. Call this function before the password is checked. Returns null if a guess was left, else
 * the seconds until the next guess. The row is locked, so concurrent guesses in any process cannot exceed the limit.
 */
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

/** Gives back a guess, because the password was right or was not checked. */
export async function returnGuess(db: Db, key: string): Promise<void> {
  await sql`update password_guesses set level = greatest(0, level - 1) where key = ${key}`.execute(db)
}

/**
 * Deletes the row of a key if the last guess is more than 50 minutes ago. After this time, all `mostGuesses` guesses
 * are allowed again.
 */
export async function forgetGuesses(db: Db): Promise<void> {
  await sql`delete from password_guesses
    where at < clock_timestamp() - make_interval(secs => ${mostGuesses * secondsForOneMore})`.execute(db)
}

import { sql, type Kysely } from 'kysely'
import type { Database } from '../../db/schema/index.ts'

/** So many wrong passwords may come at once, and then one more in each span (docs/decisions/0033). */
const most = 10
const secondsForOneMore = 300

/**
 * Takes one of the guesses left under `key`, before the password is looked at: null, or, where none is left, the seconds
 * until there is one. The row is counted under its lock, so that of guesses at once, in any processes, no more pass.
 */
export async function takeGuess(db: Kysely<Database>, key: string): Promise<number | null> {
  const level = sql`greatest(0, g.level - extract(epoch from clock_timestamp() - g.at) / ${secondsForOneMore})`
  const taken = await sql`
    insert into password_guesses as g (key, level, at) values (${key}, 1, clock_timestamp())
    on conflict (key) do update set level = ${level} + 1, at = clock_timestamp() where ${level} + 1 <= ${most}
    returning key`.execute(db)
  if (taken.rows.length > 0) return null
  const { rows } = await sql<{ wait: number }>`
    select ceil((${level} + 1 - ${most}) * ${secondsForOneMore})::float8 as wait
    from password_guesses g where key = ${key}`.execute(db)
  return Math.max(1, rows[0]?.wait ?? 1)
}

/** Gives a guess back: the password was right, or was not looked at. */
export async function returnGuess(db: Kysely<Database>, key: string): Promise<void> {
  await sql`update password_guesses set level = greatest(0, level - 1) where key = ${key}`.execute(db)
}

/** Forgets rows whose level has sunk to nothing. */
export async function forgetGuesses(db: Kysely<Database>): Promise<void> {
  await sql`delete from password_guesses
    where at < clock_timestamp() - make_interval(secs => ${most * secondsForOneMore})`.execute(db)
}

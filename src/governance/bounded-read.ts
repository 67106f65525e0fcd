import { sql, type Kysely, type Transaction } from 'kysely'
import type { Database } from '../db/schema/index.ts'
import { DomainError } from './errors.ts'

/** Milliseconds that one statement of a listing may take. */
const longest = 10_000
const queryCancelled = '57014'

/**
 * Reads what one answer shows, at one moment of the database: by indexes, whatever is known of the tables, and with one
 * process. A statement that takes longer than 10 s is ended, so that no list keeps a connection from everybody else; then it
 * throws `unavailable` (docs/decisions/0067).
 */
export async function readBounded<T>(
  db: Kysely<Database>,
  work: (trx: Transaction<Database>) => Promise<T>,
  milliseconds = longest,
): Promise<T> {
  try {
    return await db
      .transaction()
      .setIsolationLevel('repeatable read')
      .setAccessMode('read only')
      .execute(async (trx) => {
        await sql`
          select set_config('statement_timeout', ${`${milliseconds}`}, true), set_config('enable_seqscan', 'off', true),
                 set_config('enable_bitmapscan', 'off', true), set_config('jit', 'off', true),
                 set_config('max_parallel_workers_per_gather', '0', true)`.execute(trx)
        return work(trx)
      })
  } catch (error) {
    if ((error as { code?: unknown }).code !== queryCancelled) throw error
    throw new DomainError('unavailable', 'the list takes too long to read: ask for less of it')
  }
}

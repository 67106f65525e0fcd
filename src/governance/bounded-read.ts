import { sql, type Transaction } from 'kysely'
import type { Database, Db } from '../db/schema/index.ts'
import { DomainError } from './errors.ts'

/** A statement may take at most this many milliseconds. */
const longest = 10_000
const queryCancelled = '57014'

/**
 * Calls `work`, which reads the rows of one answer. All statements of `work` read from one snapshot, with index scans
 * and without parallel workers. A statement that takes longer than `milliseconds` is cancelled, and `unavailable` is
 * thrown. So no list occupies a connection for long (docs/decisions/0067).
 */
export async function readBounded<T>(
  db: Db,
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
    throw new DomainError('unavailable', 'the list takes too long to read: ask for fewer rows')
  }
}

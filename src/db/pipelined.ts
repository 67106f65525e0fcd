import { Kysely, PostgresDialect, type CompiledQuery, type RawBuilder, type Transaction } from 'kysely'
import type pg from 'pg'
import { preparing, type PreparingClient, type PreparingPool } from './prepared.ts'
import type { Database } from './schema/index.ts'

/** A statement built with Kysely: SQL text with values, or a query builder. */
export type Statement<T> = RawBuilder<T> | { compile(): CompiledQuery<T> }

/** Opens transactions that send statements without waiting for earlier answers. */
export interface Pipeline {
  open(): Promise<PipelinedTransaction>
}

/**
 * Creates a pipeline for `pool`. The connections of `pool` must have the option `pipeline`. A statement is sent
 * immediately, without waiting. The server runs the statements of a transaction in order, and each statement has its
 * own snapshot.
 */
export function createPipeline(pool: pg.Pool, options: { prepare?: boolean } = {}): Pipeline {
  const source = preparing(pool, options)
  return { open: async () => new PipelinedTransaction(await source.connect()) }
}

/**
 * A transaction on its own connection. If a statement fails, all later statements fail and COMMIT becomes ROLLBACK. So
 * writes can be sent together with COMMIT. BEGIN is sent together with the first statement. This statement must be a
 * read: if BEGIN failed, a write would run outside the transaction and would be committed.
 */
export class PipelinedTransaction {
  readonly #client: PreparingClient
  readonly #sent: Promise<unknown>[] = []
  #begun = false
  #failure: unknown = null
  /** For statements that are awaited one by one. These statements run after all statements that were sent earlier. */
  readonly db: Transaction<Database>

  constructor(client: PreparingClient) {
    this.#client = client
    this.db = builderOf(client)
  }

  /** The first error of a statement. Later errors only say that the transaction has failed. */
  get failure(): unknown {
    return this.#failure
  }

  /** Sends a statement immediately and returns its rows. The first call also sends BEGIN. */
  send<T>(statement: Statement<T>): Promise<readonly T[]> {
    if (!this.#begun) void this.#post('begin')
    this.#begun = true
    const { sql, parameters } = statement.compile(this.db)
    const rows = this.#post(sql, parameters).then((result) => result.rows as T[])
    rows.catch(() => undefined)
    return rows
  }

  /** Sends COMMIT after all statements. Throws the first error of a statement, or the error of COMMIT. */
  async commit(): Promise<void> {
    const committed = this.#post('commit')
    for (const each of this.#sent) await each
    if ((await committed).command !== 'COMMIT')
      throw new Error('the transaction was rolled back at its commit')
  }

  /**
   * Gives the connection back to the pool. `rollback` first rolls back the transaction. If this fails, the connection
   * is closed.
   */
  async end(how: 'committed' | 'rollback'): Promise<void> {
    if (how === 'committed') return this.#client.release()
    try {
      await this.#client.query('rollback')
      this.#client.release()
    } catch {
      this.#client.release(true)
    }
  }

  #post(text: string, values?: readonly unknown[]): Promise<pg.QueryResult> {
    this.#client.gather()
    const answer = this.#client.query(text, values)
    // A caller that awaits the answer gets the error. If no caller awaits it yet, the error would be an unhandled
    // rejection. So this handler catches every error, and stores the first one.
    answer.catch((error: unknown) => (this.#failure ??= error))
    this.#sent.push(answer)
    return answer
  }
}

const builders = new WeakMap<PreparingClient, Transaction<Database>>()

/**
 * Returns Kysely for this one connection. Kysely does not know that a transaction is open. But all statements of Kysely
 * run in this transaction.
 */
function builderOf(client: PreparingClient): Transaction<Database> {
  const known = builders.get(client)
  if (known !== undefined) return known
  const only = { query: client.query.bind(client), release: () => undefined }
  const pool = { connect: () => Promise.resolve(only), end: () => Promise.resolve(), options: {} }
  const dialect = new PostgresDialect({ pool: pool as unknown as PreparingPool as never })
  const builder = new Kysely<Database>({ dialect }) as Transaction<Database>
  builders.set(client, builder)
  return builder
}

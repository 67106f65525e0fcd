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
 * The connections of `pool` must have the option `pipeline`. Statements are sent at once. The server runs them in
 * order, each with its own snapshot.
 */
export function createPipeline(pool: pg.Pool, options: { prepare?: boolean } = {}): Pipeline {
  const source = preparing(pool, options)
  return { open: async () => new PipelinedTransaction(await source.connect()) }
}

/**
 * A transaction on its own connection. If a statement fails, all later statements fail and COMMIT becomes ROLLBACK. So
 * writes can be sent together with COMMIT. The first statement is sent together with BEGIN, and must be a read: if
 * BEGIN failed, the statement would run outside the transaction, and a write would be committed alone.
 */
export class PipelinedTransaction {
  readonly #client: PreparingClient
  readonly #sent: Promise<unknown>[] = []
  #begun = false
  #failure: unknown = null
  /** Runs statements that are awaited one by one. They run after all statements that were sent earlier. */
  readonly db: Transaction<Database>

  constructor(client: PreparingClient) {
    this.#client = client
    this.db = builderOf(client)
  }

  /** The first error of a statement. Later errors only say that the transaction has failed. */
  get failure(): unknown {
    return this.#failure
  }

  /** Sends a statement at once and returns its rows. The first call also sends BEGIN. */
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

  /** Returns the connection to the pool, without an open transaction on it. */
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
    // A caller that awaits the answer gets the error. Until then, the error would be an unhandled rejection. So this
    // handler notes the first error.
    answer.catch((error: unknown) => (this.#failure ??= error))
    this.#sent.push(answer)
    return answer
  }
}

const builders = new WeakMap<PreparingClient, Transaction<Database>>()

/**
 * Kysely on this one connection. All its statements run in the open transaction, although Kysely does not know that
 * there is one.
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

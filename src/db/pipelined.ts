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
 * For a pool whose connections have `pipeline` on: statements are sent at once, and the server runs them in order,
 * each with its own snapshot.
 */
export function createPipeline(pool: pg.Pool, options: { prepare?: boolean } = {}): Pipeline {
  const source = preparing(pool, options)
  return { open: async () => new PipelinedTransaction(await source.connect()) }
}

/**
 * A transaction on its own connection. After a failed statement, the following statements fail and COMMIT becomes
 * ROLLBACK. So the writes and COMMIT can be sent together, and the statement sent with BEGIN must be a read.
 */
export class PipelinedTransaction {
  readonly #client: PreparingClient
  readonly #sent: Promise<unknown>[] = []
  #begun = false
  #failure: unknown = null
  /** For statements that are awaited one by one. They run after all statements that were sent before. */
  readonly db: Transaction<Database>

  constructor(client: PreparingClient) {
    this.#client = client
    this.db = builderOf(client)
  }

  /** The first failure. Later errors only say that the transaction has failed. */
  get failure(): unknown {
    return this.#failure
  }

  /** Sends a statement at once and returns its rows. The first one also sends BEGIN. */
  send<T>(statement: Statement<T>): Promise<readonly T[]> {
    if (!this.#begun) void this.#post('begin')
    this.#begun = true
    const { sql, parameters } = statement.compile(this.db)
    const rows = this.#post(sql, parameters).then((result) => result.rows as T[])
    rows.catch(() => undefined)
    return rows
  }

  /** Sends COMMIT after everything else. Throws the first failure of any statement, else that of COMMIT. */
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
    // Callers that await the answer get the error. Until then it must not count as an unhandled rejection.
    answer.catch((error: unknown) => (this.#failure ??= error))
    this.#sent.push(answer)
    return answer
  }
}

const builders = new WeakMap<PreparingClient, Transaction<Database>>()

/**
 * Kysely over this one connection. All its statements are inside the transaction, although Kysely does not know it.
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

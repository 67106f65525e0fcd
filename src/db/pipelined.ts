import { Kysely, PostgresDialect, type CompiledQuery, type RawBuilder, type Transaction } from 'kysely'
import type pg from 'pg'
import { preparing, type PreparingClient, type PreparingPool } from './prepared.ts'
import type { Database } from './schema/index.ts'

/** A statement as Kysely builds it: SQL text with values, or one of its builders. */
export type Statement<T> = RawBuilder<T> | { compile(): CompiledQuery<T> }

/** Opens transactions whose statements need not wait for each other's answers. */
export interface Pipeline {
  open(): Promise<PipelinedTransaction>
}

/**
 * Over a pool whose connections have `pipeline` on: what is sent before an answer came is sent all the same, and the
 * server works it off in order, each statement with a snapshot of its own.
 */
export function createPipeline(pool: pg.Pool, options: { prepare?: boolean } = {}): Pipeline {
  const source = preparing(pool, options)
  return { open: async () => new PipelinedTransaction(await source.connect()) }
}

/**
 * A transaction on a connection of its own. A statement that fails makes those after it fail and the COMMIT a ROLLBACK:
 * so the writes and the COMMIT can be sent together, and what is sent along with BEGIN must be a read.
 */
export class PipelinedTransaction {
  readonly #client: PreparingClient
  readonly #sent: Promise<unknown>[] = []
  #begun = false
  #failure: unknown = null
  /** For statements whose answers are waited for one by one. They see, and come after, what was sent before. */
  readonly db: Transaction<Database>

  constructor(client: PreparingClient) {
    this.#client = client
    this.db = builderOf(client)
  }

  /** What failed first of what was sent; everything after it fails with words of no use. */
  get failure(): unknown {
    return this.#failure
  }

  /** Sends a statement at once; answers its rows. The first one takes BEGIN along. */
  send<T>(statement: Statement<T>): Promise<readonly T[]> {
    if (!this.#begun) void this.#post('begin')
    this.#begun = true
    const { sql, parameters } = statement.compile(this.db)
    const rows = this.#post(sql, parameters).then((result) => result.rows as T[])
    rows.catch(() => undefined)
    return rows
  }

  /** Sends COMMIT behind everything that was sent; throws the first failure of what was sent, else COMMIT's own. */
  async commit(): Promise<void> {
    const committed = this.#post('commit')
    for (const each of this.#sent) await each
    if ((await committed).command !== 'COMMIT')
      throw new Error('the transaction was rolled back at its commit')
  }

  /** Gives the connection back, with nothing of the transaction left on it. */
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
    // Whoever waits for it is told; a failure that nobody waits for yet is no unhandled one.
    answer.catch((error: unknown) => (this.#failure ??= error))
    this.#sent.push(answer)
    return answer
  }
}

const builders = new WeakMap<PreparingClient, Transaction<Database>>()

/** Kysely over this one connection. What it runs is inside of the transaction, whatever Kysely knows of it. */
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

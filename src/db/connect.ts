import { createHash } from 'node:crypto'
import type { Socket } from 'node:net'
import pg from 'pg'
import {
  Kysely,
  PostgresDialect,
  type PostgresPool,
  type CompiledQuery,
  type RawBuilder,
  type Transaction,
} from 'kysely'
import type { Database } from './schema/index.ts'

// An int8 is read as a number, because our sequences stay far below 2^53.
pg.types.setTypeParser(pg.types.builtins.INT8, Number)

interface ConnectOptions {
  readonly url: string
  readonly appRole?: string
  readonly max?: number
  readonly applicationName?: string
  /** If true, a transaction is read-only unless it asks for write access. */
  readonly readOnly?: boolean
  readonly onError?: (error: Error) => void
}

/** Somebody may change the defaults of a database role, so each connection sets what every statement relies on. */
const ownSettings = ({ readOnly = false }: ConnectOptions): string =>
  `-c search_path=public -c default_transaction_read_only=${readOnly ? 'on' : 'off'} -c statement_timeout=0`

/** A commit that the server has confirmed must survive a crash. Stricter values stay. */
const durableCommits = `select set_config('synchronous_commit', 'on', false)
  where current_setting('synchronous_commit') = 'off'`

/** Every connection runs as `appRole`, even if the URL logs in with another role. */
export function createPool(options: ConnectOptions): pg.Pool {
  const pool = new pg.Pool({
    connectionString: options.url,
    max: options.max ?? 20,
    application_name: options.applicationName ?? 'countersign',
    options: `-c role=${options.appRole ?? 'countersign_app'} ${ownSettings(options)}`,
    connectionTimeoutMillis: 5_000,
    idleTimeoutMillis: 60_000,
    keepAlive: true,
    // Statements are sent without waiting for earlier answers; see `PipelinedTransaction`.
    pipeline: true,
  })
  // If PostgreSQL stops, the pool emits `error` for idle connections, which would end our process.
  pool.on('error', (error) => options.onError?.(error))
  // The pool need not wait for this query, because the server runs the statements of a connection in order.
  pool.on('connect', (client) => void client.query(durableCommits).catch(() => undefined))
  // A connection also emits `error` while a query uses it: the query's caller handles this one.
  pool.on('connect', (client) => client.on('error', () => undefined))
  return pool
}

/** The caller that created the pool must end it. */
export function createDatabase(pool: pg.Pool, options: { prepare?: boolean } = {}): Kysely<Database> {
  const source = preparing(pool, options) as unknown as PostgresPool
  return new Kysely<Database>({ dialect: new PostgresDialect({ pool: source }) })
}

/** A text that was seen more often becomes a named statement, which a connection parses only once. */
const seenBefore = 2
/** Without a limit, lists of changing length would get more and more names. */
const maxNames = 300
/** Characters. A longer text contains a long list, whose length rarely comes again. */
const longestText = 16_000

/**
 * A pool for Kysely that prepares repeated statements. DATABASE_PREPARED_STATEMENTS=false is for poolers that cannot,
 * such as PgBouncer before 1.21 in transaction mode.
 */
function preparing(pool: pg.Pool, options: { prepare?: boolean } = {}): PreparingPool {
  const names = new Map<string, string>()
  const counts = new Map<string, number>()
  const nameOf = (text: string): string | undefined => {
    if (options.prepare === false) return undefined
    if (text.length > longestText) return undefined
    const known = names.get(text)
    if (known !== undefined || names.size >= maxNames || counts.size > 10 * maxNames) return known
    const count = (counts.get(text) ?? 0) + 1
    counts.set(text, count)
    if (count <= seenBefore) return undefined
    counts.delete(text)
    const name = `cs_${createHash('sha256').update(text).digest('hex').slice(0, 32)}`
    names.set(text, name)
    return name
  }
  const wrapped = new WeakMap<pg.PoolClient, PreparingClient>()
  return {
    options: pool.options,
    end: () => pool.end(),
    async connect() {
      const client = await pool.connect()
      let known = wrapped.get(client)
      if (known === undefined) wrapped.set(client, (known = new PreparingClient(client, nameOf)))
      return known
    },
  }
}

interface PreparingPool {
  readonly options: object
  end(): Promise<void>
  connect(): Promise<PreparingClient>
}

class PreparingClient {
  readonly #client: pg.PoolClient
  readonly #nameOf: (text: string) => string | undefined
  #isStale = false

  constructor(client: pg.PoolClient, nameOf: (text: string) => string | undefined) {
    this.#client = client
    this.#nameOf = nameOf
  }

  async query(text: string, values: readonly unknown[] = []): Promise<pg.QueryResult> {
    const name = values.length === 0 ? undefined : this.#nameOf(text)
    try {
      return await this.#client.query({ text, values: [...values], ...(name === undefined ? {} : { name }) })
    } catch (error) {
      // A migration changed the result columns of a prepared statement, so this connection is of no use.
      if (name !== undefined && (error as { code?: unknown }).code === '0A000') this.#isStale = true
      throw error
    }
  }

  /** Writes the statements of this turn of the event loop to the socket together, which saves system calls. */
  gather(): void {
    const { stream } = (this.#client as unknown as { connection: { stream: Socket } }).connection
    if (stream.writableCorked > 0) return
    stream.cork()
    process.nextTick(() => stream.uncork())
  }

  release(error?: Error | boolean): void {
    this.#client.release(this.#isStale ? true : error)
  }
}

export type Statement<T> = RawBuilder<T> | { compile(): CompiledQuery<T> }

export interface Pipeline {
  open(): Promise<PipelinedTransaction>
}

/** `pool` must have the option `pipeline`. Statements run in order, each with its own snapshot. */
export function createPipeline(pool: pg.Pool, options: { prepare?: boolean } = {}): Pipeline {
  const source = preparing(pool, options)
  return { open: async () => new PipelinedTransaction(await source.connect()) }
}

/**
 * A transaction on its own connection. If a statement fails, all later ones fail and COMMIT becomes ROLLBACK, so writes
 * can be sent together with COMMIT. BEGIN is sent with the first statement, which must be a read: if BEGIN failed, a
 * write would be committed outside the transaction.
 */
export class PipelinedTransaction {
  readonly #client: PreparingClient
  readonly #sent: Promise<unknown>[] = []
  #begun = false
  #failure: unknown = null
  /** For statements that are awaited one by one, after all those that were sent earlier. */
  readonly db: Transaction<Database>

  constructor(client: PreparingClient) {
    this.#client = client
    this.db = builderOf(client)
  }

  /** Later errors only say that the transaction has failed. */
  get failure(): unknown {
    return this.#failure
  }

  send<T>(statement: Statement<T>): Promise<readonly T[]> {
    if (!this.#begun) void this.#post('begin')
    this.#begun = true
    const { sql, parameters } = statement.compile(this.db)
    const rows = this.#post(sql, parameters).then((result) => result.rows as T[])
    rows.catch(() => undefined)
    return rows
  }

  /** Throws the first error of a statement, or the error of COMMIT. */
  async commit(): Promise<void> {
    const committed = this.#post('commit')
    for (const each of this.#sent) await each
    if ((await committed).command !== 'COMMIT')
      throw new Error('the transaction was rolled back at its commit')
  }

  /** Gives the connection back to the pool. If its rollback fails, closes it. */
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
    // Without a handler, an answer that nobody awaits yet would be an unhandled rejection.
    answer.catch((error: unknown) => (this.#failure ??= error))
    this.#sent.push(answer)
    return answer
  }
}

const builders = new WeakMap<PreparingClient, Transaction<Database>>()

/** Kysely for one connection. It does not know of the open transaction, but all its statements run in it. */
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

import { Kysely, PostgresDialect, type PostgresPool } from 'kysely'
import pg from 'pg'
import { preparing } from './prepared.ts'
import type { Database } from './schema/index.ts'

// An int8 is read as a number, because our sequences stay far below 2^53.
pg.types.setTypeParser(pg.types.builtins.INT8, Number)

export interface ConnectOptions {
  readonly url: string
  readonly appRole?: string
  readonly max?: number
  readonly applicationName?: string
  /** If true, a transaction is read-only unless it asks for write access. */
  readonly readOnly?: boolean
  readonly onError?: (error: Error) => void
}

/**
 * Settings on which every statement relies. Somebody may change the defaults of a database role. So each connection
 * gets its own settings, which take precedence over these defaults.
 */
const ownSettings = ({ readOnly = false }: ConnectOptions): string =>
  `-c search_path=public -c default_transaction_read_only=${readOnly ? 'on' : 'off'} -c statement_timeout=0`

/**
 * A commit that the server has confirmed must survive a crash. So this statement replaces the value `off`. Stricter
 * values stay.
 */
const durableCommits = `select set_config('synchronous_commit', 'on', false)
  where current_setting('synchronous_commit') = 'off'`

/** Creates a pool. Every connection runs as `appRole`, even if the URL logs in with another role. */
export function createPool(options: ConnectOptions): pg.Pool {
  const pool = new pg.Pool({
    connectionString: options.url,
    max: options.max ?? 20,
    application_name: options.applicationName ?? 'countersign',
    options: `-c role=${options.appRole ?? 'countersign_app'} ${ownSettings(options)}`,
    connectionTimeoutMillis: 5_000,
    idleTimeoutMillis: 60_000,
    keepAlive: true,
    // Statements are sent without waiting for earlier answers; see pipelined.ts.
    pipeline: true,
  })
  // If PostgreSQL stops, it closes idle connections, and the pool emits `error`. Without this handler, the error would
  // end our process.
  pool.on('error', (error) => options.onError?.(error))
  // The pool need not wait for this query, because the server runs the statements of a connection in order.
  pool.on('connect', (client) => void client.query(durableCommits).catch(() => undefined))
  // A connection also emits `error` while a query uses it. The query fails with the same error, and the caller of the
  // query handles the error. So this handler does nothing.
  pool.on('connect', (client) => client.on('error', () => undefined))
  return pool
}

/** Returns Kysely for this pool. The caller that created the pool must end the pool. */
export function createDatabase(pool: pg.Pool, options: { prepare?: boolean } = {}): Kysely<Database> {
  const source = preparing(pool, options) as unknown as PostgresPool
  return new Kysely<Database>({ dialect: new PostgresDialect({ pool: source }) })
}

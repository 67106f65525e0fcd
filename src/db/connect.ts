import { Kysely, PostgresDialect, type PostgresPool } from 'kysely'
import pg from 'pg'
import { preparing } from './prepared.ts'
import type { Database } from './schema/index.ts'

// int8 as a number: our sequences stay far below 2^53.
pg.types.setTypeParser(pg.types.builtins.INT8, Number)

export interface ConnectOptions {
  readonly url: string
  readonly appRole?: string
  readonly max?: number
  readonly applicationName?: string
  /** Transactions are read-only until a statement asks for another mode. */
  readonly readOnly?: boolean
  readonly onError?: (error: Error) => void
}

/**
 * Settings that every statement relies on. The defaults of a role can be changed for later connections, but options of
 * the connection take precedence.
 */
const ownSettings = ({ readOnly = false }: ConnectOptions): string =>
  `-c search_path=public -c default_transaction_read_only=${readOnly ? 'on' : 'off'} -c statement_timeout=0`

/** An answered commit must survive a crash. This changes only the setting `off`, so stricter settings stay. */
const durableCommits = `select set_config('synchronous_commit', 'on', false)
  where current_setting('synchronous_commit') = 'off'`

/** A pool for the application's role. Every session runs as `appRole`, also if the URL logs in with another role. */
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
  // Without a handler, an idle connection closed by a stopping PostgreSQL would end the process.
  pool.on('error', (error) => options.onError?.(error))
  // This query is not awaited, because statements that are sent later run after it.
  pool.on('connect', (client) => void client.query(durableCommits).catch(() => undefined))
  // A connection in use also emits `error`. Its query fails with the same error, and the query's caller handles it.
  pool.on('connect', (client) => client.on('error', () => undefined))
  return pool
}

/** Kysely over this pool. The caller that created the pool must end it. */
export function createDatabase(pool: pg.Pool, options: { prepare?: boolean } = {}): Kysely<Database> {
  const source = preparing(pool, options) as unknown as PostgresPool
  return new Kysely<Database>({ dialect: new PostgresDialect({ pool: source }) })
}

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
  /** If true, transactions are read-only by default. A statement can still ask for another mode. */
  readonly readOnly?: boolean
  readonly onError?: (error: Error) => void
}

/**
 * Settings that every statement relies on. They are set for each connection, because a connection's settings take
 * precedence over the defaults of a database role, which somebody may change.
 */
const ownSettings = ({ readOnly = false }: ConnectOptions): string =>
  `-c search_path=public -c default_transaction_read_only=${readOnly ? 'on' : 'off'} -c statement_timeout=0`

/**
 * If the server has answered a commit, the commit must survive a crash. This statement only changes the value `off`, so
 * stricter values stay.
 */
const durableCommits = `select set_config('synchronous_commit', 'on', false)
  where current_setting('synchronous_commit') = 'off'`

/** A pool for the application's role. Every connection runs as `appRole`, even if the URL logs in with another role. */
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
  // A stopping PostgreSQL closes idle connections. Without this handler, the error would end our process.
  pool.on('error', (error) => options.onError?.(error))
  // This query need not be awaited, because the server runs later statements of the connection after it.
  pool.on('connect', (client) => void client.query(durableCommits).catch(() => undefined))
  // A connection that is in use also emits `error`. This handler does nothing, because the running query fails with the
  // same error and its caller handles it.
  pool.on('connect', (client) => client.on('error', () => undefined))
  return pool
}

/** Kysely over this pool. The caller that created the pool must end it. */
export function createDatabase(pool: pg.Pool, options: { prepare?: boolean } = {}): Kysely<Database> {
  const source = preparing(pool, options) as unknown as PostgresPool
  return new Kysely<Database>({ dialect: new PostgresDialect({ pool: source }) })
}

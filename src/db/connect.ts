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
  readonly onError?: (error: Error) => void
}

/**
 * What every statement relies on. A role can change its own defaults for all later connections; what a connection asks
 * for itself comes before them.
 */
const ownSettings = '-c search_path=public -c default_transaction_read_only=off -c statement_timeout=0'

/** A commit that is answered must be there after a crash; stricter settings than `on` are the operator's. */
const durableCommits = `select set_config('synchronous_commit', 'on', false)
  where current_setting('synchronous_commit') = 'off'`

/** Pool of the application's role: whatever role the URL logs in as, every session runs as `appRole`. */
export function createPool(options: ConnectOptions): pg.Pool {
  const pool = new pg.Pool({
    connectionString: options.url,
    max: options.max ?? 20,
    application_name: options.applicationName ?? 'countersign',
    options: `-c role=${options.appRole ?? 'countersign_app'} ${ownSettings}`,
    connectionTimeoutMillis: 5_000,
    idleTimeoutMillis: 60_000,
    keepAlive: true,
    // Nothing waits unless it is waited for; see pipelined.ts.
    pipeline: true,
  })
  // Without a handler an idle connection that a stopping Postgres closes would end the process.
  pool.on('error', (error) => options.onError?.(error))
  // Its answer is waited for by nobody: what is sent after it runs after it.
  pool.on('connect', (client) => void client.query(durableCommits).catch(() => undefined))
  // A connection in use emits it too; its query fails with the same error, which is where it is dealt with.
  pool.on('connect', (client) => client.on('error', () => undefined))
  return pool
}

/** Kysely over this pool. Whoever made the pool ends it. */
export function createDatabase(pool: pg.Pool, options: { prepare?: boolean } = {}): Kysely<Database> {
  const source = preparing(pool, options) as unknown as PostgresPool
  return new Kysely<Database>({ dialect: new PostgresDialect({ pool: source }) })
}

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

/** Pool of the application's role: whatever role the URL logs in as, every session runs as `appRole`. */
export function createPool(options: ConnectOptions): pg.Pool {
  const pool = new pg.Pool({
    connectionString: options.url,
    max: options.max ?? 20,
    application_name: options.applicationName ?? 'countersign',
    options: `-c role=${options.appRole ?? 'countersign_app'}`,
    connectionTimeoutMillis: 5_000,
    idleTimeoutMillis: 60_000,
    keepAlive: true,
    // Nothing waits unless it is waited for; see pipelined.ts.
    pipeline: true,
  })
  // Without a handler an idle connection that a stopping Postgres closes would end the process.
  pool.on('error', (error) => options.onError?.(error))
  // A connection in use emits it too; its query fails with the same error, which is where it is dealt with.
  pool.on('connect', (client) => client.on('error', () => undefined))
  return pool
}

/** Kysely over this pool. Whoever made the pool ends it. */
export function createDatabase(pool: pg.Pool, options: { prepare?: boolean } = {}): Kysely<Database> {
  const source = preparing(pool, options) as unknown as PostgresPool
  return new Kysely<Database>({ dialect: new PostgresDialect({ pool: source }) })
}

import pg from 'pg'
import { mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { migrate } from '../../src/db/migrate.ts'
import { startGuard } from '../../src/stack/guard.ts'
import { startPostgres } from '../../src/stack/postgres.ts'

export interface BenchPostgres {
  /** Connects as the application's role. */
  readonly appUrl: string
  /** Connects as the superuser, to the migrated database. */
  readonly adminUrl: string
}

/** Runs `work` with a new, migrated PostgreSQL that has fsync on. Its temporary folder is removed afterwards. */
export async function withPostgres(work: (postgres: BenchPostgres) => Promise<void>): Promise<void> {
  const dataDir = mkdtempSync(join(tmpdir(), 'countersign-bench-'))
  const guard = startGuard(dataDir, { remove: true })
  try {
    const server = await startPostgres({ dataDir })
    try {
      await migrate({ url: server.ownerUrl })
      const adminUrl = new URL(server.adminUrl)
      adminUrl.pathname = new URL(server.ownerUrl).pathname
      await work({ appUrl: server.appUrl, adminUrl: adminUrl.href })
    } finally {
      await server.stop()
    }
  } finally {
    await guard.close()
  }
}

/** Runs `work` on one connection. */
export async function withClient<T>(url: string, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    return await work(client)
  } finally {
    await client.end()
  }
}

/** Creates an organization with an empty audit chain. */
export async function createOrganization(client: pg.ClientBase, id: string): Promise<void> {
  await client.query('insert into organizations (id, name) values ($1, $1)', [id])
  await client.query('insert into chain_head (organization_id) values ($1)', [id])
}

/**
 * Fills `segments` segments of the write-ahead log and recycles them, as in a database that has run for a while.
 * Without recycled segments, PostgreSQL first writes 16 MiB of zeros for each 16 MiB of log. These writes delay every
 * commit by at least 50 ms.
 */
export async function recycleLog(url: string, segments: number): Promise<void> {
  await withClient(url, async (client) => {
    await client.query("alter system set min_wal_size = '1GB'")
    await client.query('select pg_reload_conf()')
    for (let n = 0; n < segments; n += 1) {
      await client.query("select pg_logical_emit_message(false, 'bench', '')")
      await client.query('select pg_switch_wal()')
    }
    await client.query('checkpoint')
  })
}

/**
 * Delays every WAL flush of a commit by `milliseconds`. If `commit_siblings` is 0, each flush first sleeps for
 * `commit_delay`. Returns the milliseconds of a single commit, so that the caller can check the delay.
 */
export async function delaySyncs(url: string, milliseconds: number): Promise<number> {
  return withClient(url, async (client) => {
    await client.query(`alter system set commit_delay = ${milliseconds * 1000}`)
    await client.query('alter system set commit_siblings = 0')
    await client.query('select pg_reload_conf()')
    await client.query('create table if not exists commits (n int)')
    while ((await client.query('show commit_delay')).rows[0].commit_delay !== String(milliseconds * 1000)) {
      // A database connection applies reloaded settings only between two statements. So the loop asks again until the
      // new value applies.
    }
    const started = performance.now()
    for (let n = 0; n < 100; n += 1) await client.query('insert into commits values (1)')
    return (performance.now() - started) / 100
  })
}

import { mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { migrate } from '../../src/db/migrate.ts'
import { startGuard } from '../../src/stack/guarded.ts'
import { startPostgres } from '../../src/stack/postgres.ts'

export interface BenchPostgres {
  /** The application's role. */
  readonly appUrl: string
  /** The superuser, in the migrated database. */
  readonly adminUrl: string
}

/** Runs `work` against a migrated Postgres of its own with fsync on, in a temporary folder; nothing of it stays. */
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

/** Creates an organization with an empty chain. */
export async function createOrganization(client: pg.ClientBase, id: string): Promise<void> {
  await client.query('insert into organizations (id, name) values ($1, $1)', [id])
  await client.query('insert into chain_head (organization_id) values ($1)', [id])
}

/**
 * Makes `segments` of write-ahead log and has them used again, as a database does that has run for a while: a new one
 * writes 16 MiB of zeros for each 16 MiB of log first, which holds up every commit for 50 ms and more.
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
 * Adds `milliseconds` to every WAL flush of a commit: with `commit_siblings` 0, whoever flushes sleeps for
 * `commit_delay` first. Returns what a lone commit takes now, in milliseconds, to see that it does.
 */
export async function delaySyncs(url: string, milliseconds: number): Promise<number> {
  return withClient(url, async (client) => {
    await client.query(`alter system set commit_delay = ${milliseconds * 1000}`)
    await client.query('alter system set commit_siblings = 0')
    await client.query('select pg_reload_conf()')
    await client.query('create table if not exists commits (n int)')
    while ((await client.query('show commit_delay')).rows[0].commit_delay !== String(milliseconds * 1000)) {
      // The reload reaches a session between two of its statements.
    }
    const started = performance.now()
    for (let n = 0; n < 100; n += 1) await client.query('insert into commits values (1)')
    return (performance.now() - started) / 100
  })
}

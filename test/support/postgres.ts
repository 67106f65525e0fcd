import { mkdtempSync, realpathSync, statfsSync } from 'node:fs'
import { freemem, tmpdir } from 'node:os'
import { join } from 'node:path'
import { Client } from 'pg'
import { migrate } from '../../src/db/migrate.ts'
import { startGuard, type Guard } from '../../src/stack/guarded.ts'
import { startPostgres } from '../../src/stack/postgres.ts'

/* What the test runner and the test files share: nothing here needs Jest. */

/** A PostgreSQL without fsync, with a migrated template database that tests clone. */
export interface TestPostgres {
  /** The superuser, in database `postgres`. */
  readonly adminUrl: string
  stop(): Promise<void>
}

/** Roles of test servers log in with their own names: nothing but loopback and nothing but tests reaches them. */
const passwords = { countersign_owner: 'countersign_owner', countersign_app: 'countersign_app' }
export const template = 'countersign_template'

/** A new folder in `parent`, with a guard that removes it, and ends what is recorded in it. */
export function guardedFolder(parent: string = tmpdir()): { dataDir: string; guard: Guard } {
  const dataDir = realpathSync(mkdtempSync(join(parent, 'countersign-')))
  return { dataDir, guard: startGuard(dataDir, { remove: true }) }
}

/** What has to be free before databases are kept in memory; a whole test run takes a third of it. */
const plenty = 6 * 1024 ** 3

/**
 * Where the databases of tests are: in memory where there is plenty, else in the system's temporary folder. Each has
 * hundreds of files, and making them anew on a disk from which as many were just removed takes up to ten times as long.
 * No test switches the machine off, so none can tell.
 */
export function databaseFolder(): string {
  const given = process.env['TEST_DATABASE_FOLDER']
  if (given !== undefined) return given
  try {
    const { bavail, bsize } = statfsSync('/dev/shm')
    if (bavail * bsize > plenty && freemem() > plenty) return '/dev/shm'
  } catch {
    // no such folder on this system
  }
  return tmpdir()
}

/** Starts the server that a test run shares; the caller stops it. */
export async function startTestPostgres(): Promise<TestPostgres> {
  const { dataDir, guard } = guardedFolder(databaseFolder())
  try {
    const server = await startPostgres({ dataDir, durable: false })
    await prepareTemplate(server.adminUrl)
    return {
      adminUrl: server.adminUrl,
      stop: async () => {
        await server.stop(AbortSignal.abort())
        await guard.close()
      },
    }
  } catch (error) {
    await guard.close()
    throw error
  }
}

async function prepareTemplate(adminUrl: string): Promise<void> {
  await asAdmin(adminUrl, async (client) => {
    for (const [role, password] of Object.entries(passwords)) {
      await client.query(`alter role ${role} login password '${password}'`)
    }
    await client.query(`create database ${template} owner countersign_owner`)
  })
  await migrate({ url: urlOf(adminUrl, template, 'countersign_owner') })
  await asAdmin(adminUrl, (client) => client.query(`alter database ${template} is_template true`))
}

/** Runs `work` as the superuser. */
export async function asAdmin(adminUrl: string, work: (client: Client) => Promise<unknown>): Promise<void> {
  const client = new Client({ connectionString: adminUrl })
  await client.connect()
  try {
    await work(client)
  } finally {
    await client.end()
  }
}

/** The same server, another database, as the superuser or as a role of ours. */
export function urlOf(adminUrl: string, database: string, role?: keyof typeof passwords): string {
  const url = new URL(adminUrl)
  url.pathname = `/${database}`
  if (role !== undefined) {
    url.username = role
    url.password = passwords[role]
  }
  return url.href
}

import { mkdtempSync, realpathSync, statfsSync } from 'node:fs'
import { freemem, tmpdir } from 'node:os'
import { join } from 'node:path'
import { Client } from 'pg'
import { migrate } from '../../src/db/migrate.ts'
import { startGuard, type Guard } from '../../src/stack/guard.ts'
import { startPostgres } from '../../src/stack/postgres.ts'

/* The test runner and the test files share this file, so it must work without Jest. */

/** A PostgreSQL without fsync. It has a migrated template database, which tests clone. */
export interface TestPostgres {
  /** Connects as the superuser to the database `postgres`. */
  readonly adminUrl: string
  stop(): Promise<void>
}

/**
 * On test servers, the password of each role is the name of the role. Only tests reach these servers, and only over
 * loopback.
 */
const passwords = { countersign_owner: 'countersign_owner', countersign_app: 'countersign_app' }
export const template = 'countersign_template'

/**
 * Makes a new folder in `parent`, with a guard. When the guard is closed or this process ends, the guard ends the
 * processes that are recorded in the folder. Then the guard removes the folder.
 */
export function guardedFolder(parent: string = tmpdir()): { dataDir: string; guard: Guard } {
  const dataDir = realpathSync(mkdtempSync(join(parent, 'countersign-')))
  return { dataDir, guard: startGuard(dataDir, { remove: true }) }
}

/**
 * If more than this many bytes of memory are free, databases are kept in memory. A whole test run uses a third of these
 * bytes.
 */
const plenty = 6 * 1024 ** 3

/**
 * Returns the folder for the databases of tests. It is in memory if enough memory is free. Otherwise it is the system's
 * temporary folder. TEST_DATABASE_FOLDER overrides this choice.
 *
 * Each database has hundreds of files. On a disk that has just removed hundreds of files, creating files can take ten
 * times as long. No test switches the machine off, so memory is as safe as a disk.
 */
export function databaseFolder(): string {
  const given = process.env['TEST_DATABASE_FOLDER']
  if (given !== undefined) return given
  try {
    const { bavail, bsize } = statfsSync('/dev/shm')
    if (bavail * bsize > plenty && freemem() > plenty) return '/dev/shm'
  } catch {
    // This system has no folder /dev/shm.
  }
  return tmpdir()
}

/** Starts a PostgreSQL with the template database. The caller must stop it. */
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
    // Each new connection computes a password's hash. This many rounds protect real passwords only.
    await client.query('set scram_iterations = 1')
    for (const [role, password] of Object.entries({ postgres: new URL(adminUrl).password, ...passwords })) {
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

/** Returns the URL of another database of the same server, for the superuser or one of our roles. */
export function urlOf(adminUrl: string, database: string, role?: keyof typeof passwords): string {
  const url = new URL(adminUrl)
  url.pathname = `/${database}`
  if (role !== undefined) {
    url.username = role
    url.password = passwords[role]
  }
  return url.href
}

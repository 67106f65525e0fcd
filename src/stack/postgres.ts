import { spawn } from 'node:child_process'
import { closeSync, readFileSync, realpathSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { Client } from 'pg'
import { running, type Running } from './child.ts'
import { privateFolder, serverLog, type Log } from './files.ts'
import { forgetProcess, recordProcess } from './guard.ts'
import { Patience } from './patience.ts'
import { embeddedAppUrl, embeddedUrl } from './embedded-url.ts'
import { portLike, rememberPorts } from './last-ports.ts'
import { accountFor } from './postgres-account.ts'
import {
  cleanEnvironment,
  createCluster,
  createRoles,
  disownStalePid,
  findBinaries,
  ids,
} from './postgres-cluster.ts'
import { loadSecrets } from './secrets.ts'

export interface PostgresOptions {
  /** The folder that contains the cluster (`postgres`) and its passwords (`secrets.json`). */
  readonly dataDir: string
  /** The folder of `postgres.log`; default: `dataDir`. */
  readonly logFolder?: string | undefined
  /**
   * If this is 0 or undefined, the server uses the port of the last start. If that port is not free, it uses any free
   * port.
   */
  readonly port?: number
  /** If this is false, the server does not use fsync. Only tests without crashes may use false. Default: true. */
  readonly durable?: boolean
  readonly log?: Log
}

export interface PostgresServer extends Running {
  readonly port: number
  /** Connects as the superuser, to database `postgres`. */
  readonly adminUrl: string
  /** Connects as the owner of the tables, to database `countersign`. */
  readonly ownerUrl: string
  /** Connects as the service's role, to database `countersign`. */
  readonly appUrl: string
}

/**
 * Starts PostgreSQL 18 on 127.0.0.1 only, without a Unix socket. Creates the cluster, the roles and the database if
 * they are missing. Resolves once the server answers queries. If the server ends, or stands still for a minute and
 * does not answer, throws an error with the end of its log. The caller must prevent two starts on one data folder (lock.ts).
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
    const url = (user: string, password: string, database: string): string =>
      embeddedUrl(port, user, password, database)
    const adminUrl = url('postgres', secrets.postgres_superuser_password, 'postgres')
    disownStalePid(cluster, options.log)
    const command = [...account.wrap, binaries.postgres, '-D', cluster, ...settings(port, durable)]
    const started = await launch(dataDir, logFolder, command, ids(account))
    const failure = await answers(adminUrl, started, dataDir)
    if (failure === null) {
      await createRoles(adminUrl, secrets)
      rememberPorts(dataDir, { postgres: port })
      return {
        ...started,
        port,
        adminUrl,
        ownerUrl: url('countersign_owner', secrets.postgres_owner_password, 'countersign'),
        appUrl: embeddedAppUrl(port, secrets.postgres_app_password),
      }
    }
    await started.stop()
    // Two problems go away after a while, so the start is tried again. First, the backends of a killed server hold its
    // shared memory until they end. Second, another process can take the chosen port before PostgreSQL does.
    const passing = /still in use|lock file .* already exists/.test(failure)
    const lostPort = /Address already in use/.test(failure) && (options.port ?? 0) === 0
    if (patience.isOver() || !(passing || lostPort)) {
      throw new Error(
        `PostgreSQL did not start; the end of \`${join(logFolder, 'postgres.log')}\`:\n${failure}`,
      )
    }
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
    // The details and statements of errors contain values of rows, so they are not logged.
    log_error_verbosity: 'terse',
    log_min_error_statement: 'panic',
    log_parameter_max_length_on_error: 0,
    timezone: 'UTC',
  }
  return Object.entries(values).flatMap(([name, value]) => ['-c', `${name}=${value}`])
}

async function launch(
  dataDir: string,
  logFolder: string,
  [program = '', ...args]: readonly string[],
  account: { uid?: number; gid?: number },
): Promise<Running & { readonly said: () => string }> {
  const { path, file, from, stop } = serverLog(logFolder, 'postgres')
  // Detached, so that Ctrl-C in a terminal does not stop PostgreSQL before the API and the worker.
  const child = spawn(program, args, {
    cwd: '/',
    detached: true,
    stdio: ['ignore', file, file],
    env: cleanEnvironment(),
    ...account,
  })
  closeSync(file)
  if (child.pid !== undefined) recordProcess(dataDir, 'postgres', child.pid)
  // SIGINT asks for a fast shutdown, which ends the connections and writes a checkpoint. SIGQUIT asks for an immediate
  // shutdown, after which the next start must recover the data.
  const started = await running(child, program, [['SIGINT', 20_000], ['SIGQUIT', 5_000], ['SIGKILL', 5_000]]) // prettier-ignore
  void started.exited.then(() => {
    stop()
    forgetProcess(dataDir, 'postgres', child.pid)
  })
  return { ...started, said: () => readFileSync(path).subarray(from).toString('utf8') }
}

/**
 * Waits for the server. Returns null once it answers a query. If the server ends or stands still first, returns the last lines that the server has logged, and the last connection error.
 */
async function answers(
  url: string,
  server: Running & { readonly said: () => string },
  dataDir: string,
): Promise<string | null> {
  let last = ''
  const patience = new Patience(dataDir, { said: () => server.said().length })
  while (!server.gone() && !patience.isOver()) {
    const client = new Client({ connectionString: url, connectionTimeoutMillis: 2_000 })
    client.on('error', () => undefined)
    try {
      await client.connect()
      await client.query('select 1')
      await client.end()
      return null
    } catch (error) {
      last = (error as Error).message
      await client.end().catch(() => undefined)
      await delay(30)
    }
  }
  return `${server.said().split('\n').slice(-20).join('\n')}\n${last}`.trim()
}

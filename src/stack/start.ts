import { join } from 'node:path'
import { existsSync, readdirSync, realpathSync, writeSync, readFileSync } from 'node:fs'
import { writeBootstrap, firstSteps, type Identities } from './bootstrap.ts'
import type { Running } from './child.ts'
import { privateFolder, serverLog, type Log, writeFileAtomic } from './files.ts'
import { endOrphans, startGuard, type Role, runFolder } from './guard.ts'
import { healthy, Patience } from './healthy.ts'
import { portLike, rememberPorts, isFree } from './ports.ts'
import { startProgram } from './server.ts'
import { startPostgres, type PostgresServer } from './postgres.ts'
import { startStandIns } from './stand-ins/server.ts'
import { createSteps, createSupervisor, type Step, type Supervisor } from './supervise.ts'
import { loadSecrets } from './secrets.ts'
import { readStackSettings, type StackSettings } from './settings.ts'
import { startTemporal, type TemporalServer } from './temporal.ts'
import { watchNpm } from './parent.ts'
import { DatabaseSync } from 'node:sqlite'

/** Given by src/programs/main.ts; tests pass other ones. */
interface StackParts {
  readonly programs: { readonly api: string; readonly worker: string }
  /** `url` connects as the role that owns the tables. */
  migrate(options: { url: string; log: Log }): Promise<unknown>
  /**
   * Creates the first organization and its people, unless one with people exists. Calls `save` before it commits: else
   * a crash between them would lose passwords and keys that are valid.
   */
  bootstrapIdentities(env: NodeJS.ProcessEnv, save: (made: Identities) => Promise<void>): Promise<unknown>
  /** Throws what to change if the service cannot work with this database. */
  checkDatabase(env: NodeJS.ProcessEnv): Promise<unknown>
  /** So that a new folder does not look like one whose disk is not mounted. */
  markCheckpointFolder(path: string): Promise<unknown>
  startMailCatcher(options: { dir: string }): Promise<{ url: string; close(): Promise<void> }>
}

interface StartOptions extends StackParts {
  readonly settings: StackSettings
  readonly dataDir: string
  readonly env: NodeJS.ProcessEnv
  readonly log: Log
  readonly step: Step
  readonly supervisor: Supervisor<Role>
  /** `startStack` adds to it. The caller calls these after all processes have ended. */
  readonly closers: (() => Promise<void>)[]
  /** The start is no longer wanted. */
  readonly ending: AbortSignal
}

interface DatabaseUrls {
  readonly app: string
  readonly owner: string
  readonly admin: string | null
}

interface TemporalEndpoint {
  readonly address: string
  readonly namespace: string | null
  readonly uiUrl: string | null
}

/** Starts every service in order. Returns the address of the API, which answers requests. */
async function startStack(options: StartOptions): Promise<string> {
  const { settings, dataDir, step, ending } = options
  await requirePort(settings)
  const [urls, endpoint] = await Promise.all([
    step('PostgreSQL', () => database(options)),
    step('Temporal', () => temporal(options)),
  ])
  ending.throwIfAborted()
  await step('migrations', () => options.migrate({ url: urls.owner, log: options.log }))
  ending.throwIfAborted()

  const port = settings.port || (await portLike(dataDir, 'api', settings.host))
  const baseUrl = `${settings.tls ? 'https' : 'http'}://127.0.0.1:${port}`
  const metricsPort = Number(options.env['METRICS_PORT']) || (await portLike(dataDir, 'metrics'))
  const workerMetricsPort =
    Number(options.env['WORKER_METRICS_PORT']) || (await portLike(dataDir, 'worker_metrics'))
  const addresses = { urls, endpoint, baseUrl, port, metricsPort, workerMetricsPort }
  const env = await childEnvironment(options, addresses)
  await options.checkDatabase(env)
  await bootstrap(options, addresses, env)
  ending.throwIfAborted()
  const program = (role: 'api' | 'worker') =>
    keep(options, role, ['postgres', 'temporal'], () =>
      startProgram({ role, file: options.programs[role], dataDir, env }),
    )
  await step('API and worker', async () => {
    await Promise.all([program('api'), program('worker')])
    await healthy(baseUrl, ending, new Patience(dataDir))
  })
  rememberPorts(dataDir, { api: port, metrics: metricsPort, worker_metrics: workerMetricsPort })
  return baseUrl
}

/** The API itself would report a port in use only at its own start, perhaps minutes later. */
async function requirePort({ port, host }: StackSettings): Promise<void> {
  if (port !== 0 && !(await isFree(port, host)))
    throw new Error(`port ${port} of ${host} is in use: set PORT`)
}

/** At each later start of the service, `start` gets the last one, so that its ports stay. */
async function keep<R extends Running>(
  { supervisor }: StartOptions,
  name: Role,
  needs: readonly Role[],
  start: (previous: R | undefined) => Promise<R>,
): Promise<R> {
  let last: R | undefined
  await supervisor.add({ name, needs, start: async () => (last = await start(last)) })
  if (last === undefined) throw new Error(`${name} did not start`)
  return last
}

async function database(options: StartOptions): Promise<DatabaseUrls> {
  const { settings, dataDir, log } = options
  if (settings.database !== null)
    return { app: settings.database.url, owner: settings.database.ownerUrl, admin: null }
  const logFolder = settings.logDir ?? undefined
  const server = await keep(options, 'postgres', [], (previous: PostgresServer | undefined) =>
    startPostgres({ dataDir, logFolder, port: previous?.port ?? settings.postgresPort, log }),
  )
  const admin = new URL(server.adminUrl)
  admin.pathname = '/countersign'
  return { app: server.appUrl, owner: server.ownerUrl, admin: admin.href }
}

async function temporal(options: StartOptions): Promise<TemporalEndpoint> {
  const { settings, dataDir, log, ending } = options
  if (settings.temporalAddress !== null)
    return { address: settings.temporalAddress, namespace: settings.namespace, uiUrl: null }
  const namespace = settings.namespace === null ? {} : { namespace: settings.namespace }
  const logFolder = settings.logDir ?? undefined
  return keep(options, 'temporal', [], (previous: TemporalServer | undefined) => {
    const ports = previous === undefined ? {} : { port: previous.port, uiPort: previous.uiPort }
    return startTemporal({ dataDir, logFolder, log, signal: ending, ...namespace, ...ports })
  })
}

interface Addresses {
  readonly urls: DatabaseUrls
  readonly endpoint: TemporalEndpoint
  readonly baseUrl: string
  readonly port: number
  readonly metricsPort: number
  readonly workerMetricsPort: number
}

/** Writes the identities once and the addresses at every start. Not in production or with an external database. */
async function bootstrap(
  { settings, dataDir, log, bootstrapIdentities }: StartOptions,
  { urls, endpoint, baseUrl, metricsPort, workerMetricsPort }: Addresses,
  env: NodeJS.ProcessEnv,
): Promise<void> {
  if (urls.admin === null || settings.production) return
  const addresses = {
    base_url: baseUrl,
    console_url: `${baseUrl}/console/`,
    // null if this stack has not started the Temporal server
    temporal_ui_url: endpoint.uiUrl,
    metrics_url: `http://127.0.0.1:${metricsPort}/metrics`,
    worker_metrics_url: `http://127.0.0.1:${workerMetricsPort}/metrics`,
    // as the application's role, and as the superuser
    database_url: urls.app,
    database_admin_url: urls.admin,
    temporal_address: endpoint.address,
    temporal_namespace: endpoint.namespace ?? 'default',
  }
  let written = false
  await bootstrapIdentities(env, async (made) => {
    written = writeBootstrap(dataDir, addresses, made, log)
  })
  if (!written) writeBootstrap(dataDir, addresses, null, log)
}

/** The environment of `npm start`, with the addresses of what this stack has started. */
async function childEnvironment(
  { settings, dataDir, env, closers, startMailCatcher }: StartOptions,
  { urls, endpoint, baseUrl, port, metricsPort, workerMetricsPort }: Addresses,
): Promise<NodeJS.ProcessEnv> {
  // Not that of DATABASE_OWNER_URL, which could remove the triggers of the audit log: only migrations need it.
  const { DATABASE_OWNER_URL: _, ...inherited } = env
  const children: NodeJS.ProcessEnv = {
    ...inherited,
    DATABASE_URL: urls.app,
    TEMPORAL_ADDRESS: endpoint.address,
    PORT: String(port),
    METRICS_PORT: String(metricsPort),
    WORKER_METRICS_PORT: String(workerMetricsPort),
    PUBLIC_URL: settings.publicUrl ?? baseUrl,
    FILE_ROOT: settings.fileRoot,
    AUDIT_CHECKPOINT_DIR: settings.checkpointDir,
    ...(settings.logDir === null ? {} : { LOG_DIR: settings.logDir }),
    DATA_DIR: dataDir,
  }
  if (endpoint.namespace !== null) children['TEMPORAL_NAMESPACE'] = endpoint.namespace
  if (settings.database === null) {
    const secrets = loadSecrets(dataDir)
    children['DATA_ENCRYPTION_KEY'] = settings.encryptionKey ?? secrets.data_encryption_key
    children['SESSION_SECRET_KEY'] = env['SESSION_SECRET_KEY'] || secrets.session_secret_key
    // Before SESSION_SECRET_KEY was set, the key of the data folder may have sealed second factors.
    children['SESSION_SECRET_KEY_OLD'] = [env['SESSION_SECRET_KEY_OLD'], secrets.session_secret_key]
      .filter(Boolean)
      .join(',')
  }
  // Only a folder of this start counts.
  delete children['MAIL_FOLDER']
  if (settings.smtpUrl === null && !settings.production) {
    const catcher = await startMailCatcher({ dir: join(dataDir, 'mail') })
    closers.push(() => catcher.close())
    children['SMTP_URL'] = catcher.url
    // Pages tell it to everybody, also to people who are not signed in.
    if (settings.standIns) children['MAIL_FOLDER'] = join(dataDir, 'mail')
  }
  // Only stand-ins of this start count.
  delete children['STAND_INS_URL']
  if (settings.standIns) {
    // With the same port, connections to them go on after a restart.
    const standInsPort = await portLike(dataDir, 'stand_ins')
    const standIns = await startStandIns({ dataDir, port: standInsPort })
    closers.push(() => standIns.close())
    rememberPorts(dataDir, { stand_ins: standInsPort })
    children['STAND_INS_URL'] = standIns.url
  }
  return children
}

/** A service is stopped after those that use it. */
const stopOrder: readonly (readonly Role[])[] = [['api', 'worker'], ['temporal'], ['postgres']]

/**
 * Runs everything for `npm start` until SIGINT, SIGTERM or SIGHUP, or until a service keeps failing; then stops
 * everything in order. A second signal hurries. Standard output has the progress, the first steps and then `ready URL`.
 * The exit code is 0 after a signal, else 1 with the reason on standard error.
 */
export async function runStack(parts: StackParts, env: NodeJS.ProcessEnv = process.env): Promise<number> {
  const ending = new AbortController()
  const hurry = new AbortController()
  let askedAt = 0
  const onSignal = (): void => {
    // Ctrl-C sends two signals, one from the terminal and one from npm. They are one request.
    if (ending.signal.aborted && performance.now() - askedAt > 500) hurry.abort()
    if (!ending.signal.aborted) askedAt = performance.now()
    ending.abort(new Error('asked to stop'))
  }
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, onSignal)
  const npm = watchNpm(env, onSignal)
  // The reader of our output may exit first, as in `npm start | head`. Later writes then fail without an effect.
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => undefined)
  try {
    await hold(parts, env, ending.signal, hurry.signal)
    return 0
  } catch (error) {
    if (ending.signal.aborted) return 0
    process.stderr.write(`error: ${(error as Error).message}\n`)
    return 1
  } finally {
    clearInterval(npm)
  }
}

async function hold(
  parts: StackParts,
  env: NodeJS.ProcessEnv,
  ending: AbortSignal,
  hurry: AbortSignal,
): Promise<void> {
  const settings = readStackSettings(env)
  const isNewFolder = !existsSync(settings.dataDir) || readdirSync(settings.dataDir).length === 0
  const kept = settings.logDir === null ? null : serverLog(settings.logDir, 'supervisor')
  const log: Log = (line) => {
    process.stdout.write(`${line}\n`)
    if (kept === null) return
    const entry = { level: 30, time: Date.now(), process: 'supervisor', msg: line }
    try {
      writeSync(kept.file, `${JSON.stringify(entry)}\n`)
    } catch {
      // The disk is full: the log lacks this line.
    }
  }
  const dataDir = realpathSync(privateFolder(settings.dataDir))
  const lock = lockDataFolder(dataDir)
  // On a further machine of an installation, both folders are new. But a named AUDIT_CHECKPOINT_DIR may be a disk that
  // is not mounted, so it is never marked here.
  if (isNewFolder && !settings.isCheckpointDirNamed) await parts.markCheckpointFolder(settings.checkpointDir)
  await endOrphans(dataDir, { log })
  const guard = startGuard(dataDir)
  const supervisor = createSupervisor<Role>({ log })
  const closers: (() => Promise<void>)[] = []
  const step = createSteps(log)
  try {
    const starting = startStack({ ...parts, settings, dataDir, env, log, step, supervisor, closers, ending })
    // After a stop request, nothing awaits it. What it has started is known or recorded, and stopped below.
    starting.catch(() => undefined)
    const asked = aborted(ending)
    const url = await Promise.race([starting, asked])
    if (url === undefined) return
    for (const line of firstSteps(settings, dataDir, url)) log(line)
    log(`ready ${url}`)
    const failure = await Promise.race([supervisor.gaveUp, asked])
    if (failure !== undefined) throw failure
  } finally {
    if (!hurry.aborted) log('stopping')
    for (const names of stopOrder) await supervisor.stop(names, hurry)
    for (const close of closers) await close()
    await endOrphans(dataDir, { except: ['guard'] })
    await guard.close()
    lock.release()
  }
}

function aborted(signal: AbortSignal): Promise<undefined> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve(undefined)
    signal.addEventListener('abort', () => resolve(undefined), { once: true })
  })
}

export class DataFolderInUse extends Error {
  override readonly name = 'DataFolderInUse'
}

/**
 * Locks the data folder until `release` or the end of the process: the lock is the operating system's, so a crash
 * leaves none. SQLite takes it, because Node has no function for such locks. Throws `DataFolderInUse` with the pid of
 * the holder.
 */
export function lockDataFolder(dataDir: string): { release(): void } {
  const folder = runFolder(dataDir)
  const holder = join(folder, 'supervisor.pid')
  const database = new DatabaseSync(join(folder, 'lock.db'))
  try {
    database.exec('begin exclusive')
  } catch (error) {
    database.close()
    if ((error as { errcode?: number }).errcode !== 5) throw error // 5: SQLITE_BUSY
    throw new DataFolderInUse(
      `the data folder \`${dataDir}\` is in use by process ${pidIn(holder)}: stop that one first, or set DATA_DIR to another folder`,
    )
  }
  writeFileAtomic(holder, `${process.pid}\n`, 0o600)
  return { release: () => database.close() }
}

function pidIn(path: string): string {
  try {
    return readFileSync(path, 'utf8').trim()
  } catch {
    return 'that just started'
  }
}

import { join } from 'node:path'
import { writeBootstrap, type Identities } from './bootstrap.ts'
import type { Running } from './child.ts'
import type { Log } from './files.ts'
import type { Role } from './guard.ts'
import { healthy } from './healthy.ts'
import { portLike, rememberPorts } from './last-ports.ts'
import { startProgram } from './node-child.ts'
import { Patience } from './patience.ts'
import { isFree } from './ports.ts'
import { startPostgres } from './postgres.ts'
import type { Step } from './progress.ts'
import { loadSecrets } from './secrets.ts'
import type { StackSettings } from './settings.ts'
import type { Supervisor } from './supervise.ts'
import { startTemporal } from './temporal.ts'

/** src/programs/main.ts passes these programs and functions to the stack. Tests pass other programs and functions. */
export interface StackParts {
  readonly programs: { readonly api: string; readonly worker: string }
  /** Migrates the database to this version. `url` connects as the role that owns the tables. */
  migrate(options: { url: string; log: Log }): Promise<unknown>
  /**
   * Creates the first organization and its people. Does nothing if an organization with people exists. First calls
   * `save` with the passwords and keys of the people, and commits afterwards. If the commit came first, a crash before
   * `save` would lose passwords and keys that are already valid.
   */
  bootstrapIdentities(env: NodeJS.ProcessEnv, save: (made: Identities) => Promise<void>): Promise<unknown>
  /** Throws an error that says what to change, if the service cannot work with the database of this environment. */
  checkDatabase(env: NodeJS.ProcessEnv): Promise<unknown>
  /** Marks a new folder of checkpoints, so that it does not look like a folder whose disk is not mounted. */
  markCheckpointFolder(path: string): Promise<unknown>
  startMailCatcher(options: { dir: string }): Promise<{ url: string; close(): Promise<void> }>
}

export interface StartOptions extends StackParts {
  readonly settings: StackSettings
  readonly dataDir: string
  readonly env: NodeJS.ProcessEnv
  readonly log: Log
  readonly step: Step
  readonly supervisor: Supervisor<Role>
  /** `startStack` adds functions to this list. The caller calls these functions after all processes have ended. */
  readonly closers: (() => Promise<void>)[]
  /** Aborted when the start is no longer wanted. */
  readonly ending: AbortSignal
}

interface DatabaseUrls {
  readonly app: string
  readonly owner: string
  /** Is null if the database is external, so that this stack does not start it. */
  readonly admin: string | null
}

interface TemporalPlace {
  readonly address: string
  readonly namespace: string | null
  readonly uiUrl: string | null
}

/** Starts every service in order. Resolves with the address of the API once the API answers requests. */
export async function startStack(options: StartOptions): Promise<string> {
  const { settings, dataDir, step, ending } = options
  await requirePort(settings)
  const databaseStep = (): Promise<DatabaseUrls> => step('PostgreSQL', () => database(options))
  const temporalStep = (): Promise<TemporalPlace> => step('Temporal', () => temporal(options))
  const [urls, place] = await Promise.all([databaseStep(), temporalStep()])
  ending.throwIfAborted()
  await step('migrations', () => options.migrate({ url: urls.owner, log: options.log }))
  ending.throwIfAborted()

  const port = settings.port || (await portLike(dataDir, 'api', settings.host))
  const baseUrl = `${settings.tls ? 'https' : 'http'}://127.0.0.1:${port}`
  const metricsPort = Number(options.env['METRICS_PORT']) || (await portLike(dataDir, 'metrics'))
  const workerMetricsPort =
    Number(options.env['WORKER_METRICS_PORT']) || (await portLike(dataDir, 'worker_metrics'))
  const addresses = { urls, place, baseUrl, port, metricsPort, workerMetricsPort }
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

/**
 * Checks first whether the port of the API is free. Without this check, the API would report a port in use only at its
 * own start, perhaps minutes later.
 */
async function requirePort({ port, host }: StackSettings): Promise<void> {
  if (port !== 0 && !(await isFree(port, host)))
    throw new Error(`port ${port} of ${host} is in use: set PORT`)
}

/**
 * Starts a service under the supervisor. At each later start of this service, `start` gets the result of the last
 * start. So the service can use the same ports again.
 */
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
  if (settings.database !== null) {
    return { app: settings.database.url, owner: settings.database.ownerUrl, admin: null }
  }
  const server = await keep(
    options,
    'postgres',
    [],
    (previous: Awaited<ReturnType<typeof startPostgres>> | undefined) =>
      startPostgres({
        dataDir,
        logFolder: settings.logDir ?? undefined,
        port: previous?.port ?? settings.postgresPort,
        log,
      }),
  )
  const admin = new URL(server.adminUrl)
  admin.pathname = '/countersign'
  return { app: server.appUrl, owner: server.ownerUrl, admin: admin.href }
}

async function temporal(options: StartOptions): Promise<TemporalPlace> {
  const { settings, dataDir, log, ending } = options
  if (settings.temporalAddress !== null) {
    return { address: settings.temporalAddress, namespace: settings.namespace, uiUrl: null }
  }
  const namespace = settings.namespace === null ? {} : { namespace: settings.namespace }
  return keep(options, 'temporal', [], (previous: Awaited<ReturnType<typeof startTemporal>> | undefined) => {
    const ports = previous === undefined ? {} : { port: previous.port, uiPort: previous.uiPort }
    return startTemporal({
      dataDir,
      logFolder: settings.logDir ?? undefined,
      log,
      signal: ending,
      ...namespace,
      ...ports,
    })
  })
}

interface Addresses {
  readonly urls: DatabaseUrls
  readonly place: TemporalPlace
  readonly baseUrl: string
  readonly port: number
  readonly metricsPort: number
  readonly workerMetricsPort: number
}

/**
 * Updates bootstrap.json: writes the identities once, and the addresses at every start. Does nothing in production or
 * with an external database.
 */
async function bootstrap(
  { settings, dataDir, log, bootstrapIdentities }: StartOptions,
  { urls, place, baseUrl, metricsPort, workerMetricsPort }: Addresses,
  env: NodeJS.ProcessEnv,
): Promise<void> {
  if (urls.admin === null || settings.production) return
  const addresses = {
    base_url: baseUrl,
    console_url: `${baseUrl}/console/`,
    temporal_ui_url: place.uiUrl,
    metrics_url: `http://127.0.0.1:${metricsPort}/metrics`,
    worker_metrics_url: `http://127.0.0.1:${workerMetricsPort}/metrics`,
    database_url: urls.app,
    database_admin_url: urls.admin,
    temporal_address: place.address,
    temporal_namespace: place.namespace ?? 'default',
  }
  let written = false
  await bootstrapIdentities(env, async (made) => {
    written = writeBootstrap(dataDir, addresses, made, log)
  })
  if (!written) writeBootstrap(dataDir, addresses, null, log)
}

/**
 * Returns the environment of the API and the worker: the environment of `npm start`, with the addresses of the services
 * that this stack has started.
 */
async function childEnvironment(
  { settings, dataDir, env, closers, startMailCatcher }: StartOptions,
  { urls, place, baseUrl, port, metricsPort, workerMetricsPort }: Addresses,
): Promise<NodeJS.ProcessEnv> {
  // The API and the worker do not get DATABASE_OWNER_URL. The role of this URL owns the tables and could remove the
  // triggers of the audit log. Only migrations need this role.
  const { DATABASE_OWNER_URL: _, ...inherited } = env
  const children: NodeJS.ProcessEnv = {
    ...inherited,
    DATABASE_URL: urls.app,
    TEMPORAL_ADDRESS: place.address,
    PORT: String(port),
    METRICS_PORT: String(metricsPort),
    WORKER_METRICS_PORT: String(workerMetricsPort),
    PUBLIC_URL: settings.publicUrl ?? baseUrl,
    FILE_ROOT: settings.fileRoot,
    AUDIT_CHECKPOINT_DIR: settings.checkpointDir,
    ...(settings.logDir === null ? {} : { LOG_DIR: settings.logDir }),
    DATA_DIR: dataDir,
  }
  if (place.namespace !== null) children['TEMPORAL_NAMESPACE'] = place.namespace
  if (settings.database === null) {
    const secrets = loadSecrets(dataDir)
    children['DATA_ENCRYPTION_KEY'] = settings.encryptionKey ?? secrets.data_encryption_key
    children['SESSION_SECRET_KEY'] = env['SESSION_SECRET_KEY'] || secrets.session_secret_key
    // Before SESSION_SECRET_KEY was set, the key of the data folder may have sealed second factors. So this key stays
    // valid as an old key.
    children['SESSION_SECRET_KEY_OLD'] = [env['SESSION_SECRET_KEY_OLD'], secrets.session_secret_key]
      .filter(Boolean)
      .join(',')
  }
  if (settings.smtpUrl === null && !settings.production) {
    const catcher = await startMailCatcher({ dir: join(dataDir, 'mail') })
    closers.push(() => catcher.close())
    children['SMTP_URL'] = catcher.url
  }
  return children
}

import { join } from 'node:path'
import { writeBootstrap, type Identities } from './bootstrap.ts'
import type { Running } from './child.ts'
import type { Log } from './files.ts'
import type { Role } from './guard.ts'
import { healthy } from './healthy.ts'
import { portLike, rememberPorts } from './last-ports.ts'
import { startProgram } from './node-child.ts'
import { isFree } from './ports.ts'
import { startPostgres } from './postgres.ts'
import type { Step } from './progress.ts'
import { loadSecrets } from './secrets.ts'
import type { StackSettings } from './settings.ts'
import type { Supervisor } from './supervise.ts'
import { startTemporal } from './temporal.ts'

/** What the stack runs and is given by src/main.ts; tests give stand-ins. */
export interface StackParts {
  readonly programs: { readonly api: string; readonly worker: string }
  /** Brings the database to this version, as the role that owns the tables. */
  migrate(options: { url: string; log: Log }): Promise<unknown>
  /**
   * Creates the first organization and its people, with the environment that the API gets; does nothing when there is
   * one already. Calls `save` before it commits, so that a crash in between loses no secret that opens something.
   */
  bootstrapIdentities(env: NodeJS.ProcessEnv, save: (made: Identities) => Promise<void>): Promise<unknown>
  /** Fails, saying what to change, when the service cannot work with the database that this environment names. */
  checkDatabase(env: NodeJS.ProcessEnv): Promise<unknown>
  startMailCatcher(options: { dir: string }): Promise<{ url: string; close(): Promise<void> }>
}

export interface StartOptions extends StackParts {
  readonly settings: StackSettings
  readonly dataDir: string
  readonly env: NodeJS.ProcessEnv
  readonly log: Log
  readonly step: Step
  readonly supervisor: Supervisor<Role>
  /** Takes what is to be closed after all processes have ended. */
  readonly closers: (() => Promise<void>)[]
  /** Aborted when the start is no longer wanted. */
  readonly ending: AbortSignal
}

interface DatabaseUrls {
  readonly app: string
  readonly owner: string
  /** null for a database that is not ours. */
  readonly admin: string | null
}

interface TemporalPlace {
  readonly address: string
  readonly namespace: string | null
  readonly uiUrl: string | null
}

/** Starts every part in order; resolves with the API's address once it answers requests. */
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
  const env = await childEnvironment(options, urls, place, port, metricsPort, baseUrl)
  await options.checkDatabase(env)
  await bootstrap(options, urls, place, baseUrl, env)
  ending.throwIfAborted()
  const program = (role: 'api' | 'worker') =>
    keep(options, role, ['postgres', 'temporal'], () =>
      startProgram({ role, file: options.programs[role], dataDir, env }),
    )
  await step('API and worker', async () => {
    await Promise.all([program('api'), program('worker')])
    await healthy(baseUrl, ending)
  })
  rememberPorts(dataDir, { api: port, metrics: metricsPort })
  return baseUrl
}

/** Known before minutes of installing and creating: the API would only say so at the end. */
async function requirePort({ port, host }: StackSettings): Promise<void> {
  if (port !== 0 && !(await isFree(port, host)))
    throw new Error(`port ${port} of ${host} is in use: set PORT`)
}

/** Starts a part under the supervisor; later starts are told what the first one chose. */
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
      startPostgres({ dataDir, port: previous?.port ?? settings.postgresPort, log }),
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
    return startTemporal({ dataDir, log, signal: ending, ...namespace, ...ports })
  })
}

/** Keeps bootstrap.json true: identities once, addresses at every start; never in production or for a database not ours. */
async function bootstrap(
  { settings, dataDir, log, bootstrapIdentities }: StartOptions,
  urls: DatabaseUrls,
  place: TemporalPlace,
  baseUrl: string,
  env: NodeJS.ProcessEnv,
): Promise<void> {
  if (urls.admin === null || settings.production) return
  const addresses = {
    base_url: baseUrl,
    console_url: `${baseUrl}/console/`,
    temporal_ui_url: place.uiUrl,
    metrics_url: `http://127.0.0.1:${env['METRICS_PORT']}/metrics`,
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

/** What the API and the worker get: the user's environment, completed with what was started here. */
async function childEnvironment(
  { settings, dataDir, env, closers, startMailCatcher }: StartOptions,
  urls: DatabaseUrls,
  place: TemporalPlace,
  port: number,
  metricsPort: number,
  baseUrl: string,
): Promise<NodeJS.ProcessEnv> {
  // Who owns the tables can take the audit log's guards away: only migrations need to be that.
  const { DATABASE_OWNER_URL: _, ...inherited } = env
  const children: NodeJS.ProcessEnv = {
    ...inherited,
    DATABASE_URL: urls.app,
    TEMPORAL_ADDRESS: place.address,
    PORT: String(port),
    METRICS_PORT: String(metricsPort),
    PUBLIC_URL: settings.publicUrl ?? baseUrl,
    FILE_ROOT: settings.fileRoot,
    ...(settings.logDir === null ? {} : { LOG_DIR: settings.logDir }),
    DATA_DIR: dataDir,
  }
  if (place.namespace !== null) children['TEMPORAL_NAMESPACE'] = place.namespace
  if (settings.database === null) {
    const secrets = loadSecrets(dataDir)
    children['DATA_ENCRYPTION_KEY'] = settings.encryptionKey ?? secrets.data_encryption_key
    children['SESSION_SECRET_KEY'] = env['SESSION_SECRET_KEY'] || secrets.session_secret_key
  }
  if (settings.smtpUrl === null && !settings.production) {
    const catcher = await startMailCatcher({ dir: join(dataDir, 'mail') })
    closers.push(() => catcher.close())
    children['SMTP_URL'] = catcher.url
  }
  return children
}

import { randomUUID } from 'node:crypto'
import { hostname } from 'node:os'
import { resolve } from 'node:path'
import { readEnvironment, WrongSettings, type Environment } from './environment.ts'
import { bareHost, loopbackHosts, portOf, type NamedHost } from './outgoing/hosts.ts'
import { namesOf, type MetricsEndpoint } from './own-hosts.ts'
import { sessionSecrets } from './session-secrets.ts'
import { isIPv6 } from 'node:net'

export type Config = Readonly<ReturnType<typeof readConfig>>

/** Throws `WrongSettings` with a line for every missing or invalid variable, or one that production forbids. */
export function readConfig(env: NodeJS.ProcessEnv = process.env) {
  const { values: e, wrong } = readEnvironment(env)
  wrong.push(...clashingPorts({ values: e, wrong }, apiPorts))
  const unfit = unfitForProduction(e)
  if (e.APP_ENV === 'production') wrong.push(...unfit.map((what) => `${what}, in production`))
  const encryptionKeys: readonly [Buffer, ...Buffer[]] = [
    keyIn('DATA_ENCRYPTION_KEY', e.DATA_ENCRYPTION_KEY, wrong),
    ...listOf(e.DATA_ENCRYPTION_KEY_OLD).map((text) => keyIn('DATA_ENCRYPTION_KEY_OLD', text, wrong)),
  ]
  const tls = tlsFiles(e, wrong)
  const temporal = temporalOf(e, wrong)
  const secrets = secretsBackend(e, wrong)
  const google = googleSettings(e, wrong)
  if (wrong.length > 0) throw new WrongSettings(wrong)
  const isShared = isForMany(e)
  return {
    env: e.APP_ENV,
    /** Logged once by each process. In staging also what would prevent a start in production. */
    warnings: warningsOf(e, unfit),
    processId: `${hostname()}-${process.pid}-${randomUUID().slice(0, 8)}`,
    database: { url: e.DATABASE_URL, appRole: e.DATABASE_APP_ROLE, prepare: e.DATABASE_PREPARED_STATEMENTS },
    temporal,
    http: httpOf(e, tls),
    metrics: metricsOf(e, e.METRICS_PORT),
    workerMetrics: metricsOf(e, e.WORKER_METRICS_PORT),
    /** The present key of the installation, and then its previous ones. A key has 32 bytes. */
    encryptionKeys,
    ...sessionSecrets(e.SESSION_SECRET_KEY, listOf(e.SESSION_SECRET_KEY_OLD), encryptionKeys),
    tools: {
      fileRoot: e.FILE_ROOT,
      smtpUrl: e.SMTP_URL ?? null,
      mailFrom: e.MAIL_FROM,
      /** Where the mails lie that no server sends. Null outside of development. */
      mailFolder: isShared ? null : (e.MAIL_FOLDER ?? null),
      /** For `fileRoot` and `smtpUrl`. `named`: the organizations of `npm run connect-installation`. */
      installationTools: e.INSTALLATION_TOOLS ?? (isShared ? 'named' : 'all'),
      modelPrices: e.LLM_PRICES,
    },
    /** For the credentials of connections. */
    secrets,
    connections: {
      /** Reachable even if private or without TLS. */
      hosts: connectionHostsOf(e),
      /** Without a closing slash. Null outside of development. */
      standIns: isShared ? null : (e.STAND_INS_URL?.replace(/\/+$/, '') ?? null),
      /** Without a closing slash. Credentials of the tracker are sent only there. */
      trackerBaseUrl: e.TRACKER_BASE_URL?.replace(/\/+$/, '') ?? null,
      google,
    },
    people: {
      signUp: e.SIGN_UP ?? ({ mode: isShared ? 'invited' : 'open' } as const),
      /** Personal ones do not count; null: no maximum. */
      organizationsPerPerson:
        e.ORGANIZATIONS_PER_PERSON === undefined ? (isShared ? 3 : null) : e.ORGANIZATIONS_PER_PERSON,
      /** Invitations to strangers; null: no maximum. */
      strangersPerDay: e.STRANGERS_INVITED_PER_DAY,
      invitationsNameOrganizations: e.INVITATION_NAMES === 'organization',
      invitedMayInvite: e.INVITED_MAY_INVITE,
      /** Before a person runs workflows or uses agents, their mail address must be confirmed. */
      mustBeConfirmed: isShared,
    },
    /** Who may set an organization's limits. `operator`: only with `npm run set-plan`. */
    quotaOverrides: e.QUOTA_OVERRIDES,
    /** Outside the database; null: checkpoints are only logged. */
    checkpointFolder: e.AUDIT_CHECKPOINT_DIR === undefined ? null : resolve(e.AUDIT_CHECKPOINT_DIR),
    /** Null: the logs go to stderr. */
    logFolder: e.LOG_DIR ?? null,
    /** The folder of `npm start`. It need not exist if this process runs without. */
    dataFolder: resolve(e.DATA_DIR),
    logLevel: e.LOG_LEVEL,
    /** 0: never. A rule can set another time. */
    runApprovalSeconds: e.RUN_APPROVAL_SECONDS,
    /** After the end of a run its data is deleted; 0: never. */
    retentionDays: e.RETENTION_DAYS,
    heartbeatTimeoutSeconds: e.HEARTBEAT_TIMEOUT_SECONDS,
    reconcileSeconds: e.RECONCILE_SECONDS,
  }
}

function temporalOf(e: Environment, wrong: string[]) {
  const { TEMPORAL_TLS_CERT_FILE: certFile, TEMPORAL_TLS_KEY_FILE: keyFile } = e
  if ((certFile === undefined) !== (keyFile === undefined))
    wrong.push('TEMPORAL_TLS_CERT_FILE and TEMPORAL_TLS_KEY_FILE belong together: set both, or neither')
  return {
    address: e.TEMPORAL_ADDRESS,
    namespace: e.TEMPORAL_NAMESPACE,
    taskQueue: e.TEMPORAL_TASK_QUEUE,
    apiKey: e.TEMPORAL_API_KEY ?? null,
    tls: e.TEMPORAL_TLS ?? (e.TEMPORAL_API_KEY !== undefined || certFile !== undefined),
    tlsCertFile: certFile ?? null,
    tlsKeyFile: keyFile ?? null,
  }
}

const httpOf = (e: Environment, tls: ReturnType<typeof tlsFiles>) => ({
  host: e.HOST,
  port: e.PORT,
  publicUrl: e.PUBLIC_URL ?? null,
  /** Beside loopback: those of ALLOWED_HOSTS, PUBLIC_URL and HOST. */
  names: namesOf(e, e.HOST),
  tls,
  docs: e.ENABLE_DOCS ?? e.APP_ENV !== 'production',
  /** Whether `npm run shell` may open the developer shell. */
  developerRoutes: e.ENABLE_DEVELOPER_ROUTES,
  /** Addresses and CIDR ranges whose `X-Forwarded-For` and `X-Forwarded-Proto` are trusted. */
  trustedProxies: e.TRUSTED_PROXY_HOSTS,
})

const metricsOf = (e: Environment, port: number | undefined): MetricsEndpoint | null =>
  port === undefined ? null : { host: e.METRICS_HOST, port, names: namesOf(e, e.METRICS_HOST) }

function keyIn(name: string, text: string, wrong: string[]): Buffer {
  const key = Buffer.from(text, 'base64')
  if (text !== '' && key.length !== 32)
    wrong.push(`${name} must be 32 bytes in base64 (openssl rand -base64 32)`)
  return key
}

const listOf = (text = ''): string[] =>
  text
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '')

/** Links to this service begin with it, without a closing slash. */
export function publicBase({ http }: Pick<Config, 'http'>): string {
  const own = `${http.tls === null ? 'http' : 'https'}://${http.host}:${http.port}`
  return http.publicUrl?.replace(/\/+$/, '') ?? own
}

/** Null for HTTP without TLS, on loopback or behind a proxy that does TLS. */
function tlsFiles(e: Environment, wrong: string[]) {
  const { TLS_CERT_FILE: certFile, TLS_KEY_FILE: keyFile } = e
  if (certFile !== undefined && keyFile !== undefined) return { certFile, keyFile }
  if (certFile === undefined && keyFile === undefined) return null
  wrong.push('TLS_CERT_FILE and TLS_KEY_FILE belong together: set both, or neither')
  return null
}

function secretsBackend(e: Environment, wrong: string[]) {
  if (e.SECRETS_BACKEND === 'db') return { backend: 'db' } as const
  if (e.AWS_REGION === undefined)
    wrong.push('AWS_REGION is missing: SECRETS_BACKEND `aws_secrets_manager` needs the region of the secrets')
  const prefix = e.AWS_SECRETS_PREFIX
  return { backend: 'aws_secrets_manager', region: e.AWS_REGION ?? '', prefix } as const
}

function googleSettings(e: Environment, wrong: string[]) {
  const { GOOGLE_CLIENT_ID: id, GOOGLE_CLIENT_SECRET: secret } = e
  const baseUrl = e.GOOGLE_BASE_URL?.replace(/\/+$/, '') ?? null
  if ((id === undefined) !== (secret === undefined))
    wrong.push('GOOGLE_CLIENT_ID and GOOGLE_CLIENT_SECRET belong together: set both, or neither')
  if (id === undefined || secret === undefined) return { client: null, baseUrl }
  // The operator has registered an address below PUBLIC_URL at Google.
  if (isForMany(e) && e.PUBLIC_URL === undefined)
    wrong.push('PUBLIC_URL is missing: with GOOGLE_CLIENT_ID, Google sends browsers back to this address')
  return { client: { id, secret }, baseUrl }
}

function connectionHostsOf(e: Environment): readonly NamedHost[] {
  if (isForMany(e)) return e.CONNECTION_HOSTS ?? []
  const named = e.CONNECTION_HOSTS ?? loopbackHosts
  if (e.STAND_INS_URL === undefined) return named
  const url = new URL(e.STAND_INS_URL)
  return [...named, { host: bareHost(url.hostname), port: portOf(url) }]
}

/** Strangers can reach both, so many settings have a stricter default there. */
const isForMany = ({ APP_ENV: env }: Environment): boolean => env === 'staging' || env === 'production'

function warningsOf(e: Environment, unfit: readonly string[]): string[] {
  if (!isForMany(e)) return []
  const found = unfit.map((what) => `production would not start: ${what}`)
  if (e.TLS_CERT_FILE === undefined && e.PUBLIC_URL?.startsWith('https:') !== true)
    found.push(
      'PUBLIC_URL is not an https address: browsers send session cookies over plain HTTP too, and links in mails use it',
    )
  if (e.PUBLIC_URL === undefined && e.ALLOWED_HOSTS.length === 0)
    found.push(
      'neither PUBLIC_URL nor ALLOWED_HOSTS is set: requests that name another host than `localhost` and addresses of this machine get 421',
    )
  // Production hides these pages by default, and refuses to start if ENABLE_DOCS is `true`.
  if (e.APP_ENV === 'staging' && e.ENABLE_DOCS === undefined)
    found.push(
      'ENABLE_DOCS is not set: staging shows /docs and /openapi.json to everybody; set it to `false` to hide them, or to `true`',
    )
  if (e.SMTP_URL === undefined)
    found.push(
      'SMTP_URL is not set: nobody gets the mails of sign-ups, invitations and forgotten passwords, and in production ' +
        'an account whose address is not confirmed cannot sign in or execute',
    )
  return found
}

function unfitForProduction(e: Environment): string[] {
  const found: string[] = []
  if ((e.SESSION_SECRET_KEY ?? '').length < 32)
    found.push('SESSION_SECRET_KEY must have at least 32 characters (openssl rand -base64 32)')
  if (e.ENABLE_DOCS === true) found.push('ENABLE_DOCS must be `false`')
  if (e.ENABLE_DEVELOPER_ROUTES) found.push('ENABLE_DEVELOPER_ROUTES must be `false`')
  if (e.TRACKER_BASE_URL?.startsWith('http:') === true)
    found.push('TRACKER_BASE_URL must begin with `https://`')
  // Otherwise every client seems to have the address of the proxy, also of one on this machine (docs/decisions/0065).
  if (e.TLS_CERT_FILE === undefined && e.TRUSTED_PROXY_HOSTS.length === 0)
    found.push(
      'TRUSTED_PROXY_HOSTS must name the proxy that does TLS (`127.0.0.1` for one on this machine), or set ' +
        'TLS_CERT_FILE and TLS_KEY_FILE: the API would serve plain HTTP',
    )
  return found
}

type PortName = 'PORT' | 'METRICS_PORT' | 'WORKER_METRICS_PORT' | 'POSTGRES_PORT'

export const apiPorts: readonly PortName[] = ['PORT', 'METRICS_PORT']

/** A message for each port that an overlapping address has already. Port 0 is any free one. */
export function clashingPorts(
  { values, wrong }: { readonly values: Environment; readonly wrong: readonly string[] },
  names: readonly PortName[],
): string[] {
  const opened = names.flatMap((name) => {
    const port = values[name]
    const isWrong = wrong.some((line) => line.startsWith(`${name} is wrong`))
    return !port || isWrong ? [] : [{ name, port, host: hostOf(name, values) }]
  })
  return opened.flatMap(({ name, port, host }, at) => {
    const earlier = opened.slice(0, at).find((each) => each.port === port && overlap(each.host, host))
    return earlier === undefined
      ? []
      : [`${earlier.name} and ${name} are both ${port}: set ${name} to another port`]
  })
}

/** The embedded PostgreSQL listens on this machine only. */
function hostOf(name: PortName, { HOST, METRICS_HOST }: Environment): string {
  if (name === 'POSTGRES_PORT') return '127.0.0.1'
  return bareHost(name === 'PORT' ? HOST : METRICS_HOST)
}

/** `::` stands for all addresses of this machine, `0.0.0.0` for all of IPv4. Only the name `localhost` is known. */
function overlap(one: string, other: string): boolean {
  const covers = (wide: string, host: string): boolean =>
    wide === '::' ||
    (wide === '0.0.0.0' && !isIPv6(host)) ||
    (wide === 'localhost' && ['127.0.0.1', '::1'].includes(host))
  return one === other || covers(one, other) || covers(other, one)
}

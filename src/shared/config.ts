import { randomUUID } from 'node:crypto'
import { hostname } from 'node:os'
import { resolve } from 'node:path'
import { readEnvironment, WrongSettings, type Environment } from './environment.ts'
import { apiPorts, clashingPorts } from './listening-ports.ts'
import type { ModelPrice } from './model-prices.ts'
import { loopbackHosts, type NamedHost } from './outgoing/hosts.ts'
import { namesOf, type MetricsPlace } from './own-hosts.ts'
import { sessionSecrets, type SessionSecrets } from './session-secrets.ts'
import type { SignUp } from './sign-up-setting.ts'

export interface Config extends SessionSecrets {
  readonly env: 'development' | 'test' | 'staging' | 'production'
  /**
   * Each process logs these warnings once. They are recommendations. In staging they also include problems that would
   * prevent a start in production.
   */
  readonly warnings: readonly string[]
  /** The name of this process in logs and heartbeats. */
  readonly processId: string
  readonly database: { readonly url: string; readonly appRole: string; readonly prepare: boolean }
  readonly temporal: {
    readonly address: string
    readonly namespace: string
    readonly taskQueue: string
    readonly apiKey: string | null
    readonly tls: boolean
    readonly tlsCertFile: string | null
    readonly tlsKeyFile: string | null
  }
  readonly http: {
    readonly host: string
    readonly port: number
    readonly publicUrl: string | null
    /** The hosts under which the API answers, beside loopback: those of ALLOWED_HOSTS, PUBLIC_URL and HOST. */
    readonly names: readonly string[]
    /** The files for TLS. Is null if the API serves HTTP without TLS, for loopback or behind a proxy that does TLS. */
    readonly tls: { readonly certFile: string; readonly keyFile: string } | null
    readonly docs: boolean
    /** True if `npm run shell` may open the developer shell. */
    readonly developerRoutes: boolean
    /** Addresses and CIDR ranges of proxies whose `X-Forwarded-For` and `X-Forwarded-Proto` are trusted. */
    readonly trustedProxies: readonly string[]
  }
  /** Where the API serves its metrics. Is null if it serves none. */
  readonly metrics: MetricsPlace | null
  /** Where the worker serves its metrics. Is null if it serves none. */
  readonly workerMetrics: MetricsPlace | null
  /**
   * The first key is the present encryption key of the installation. The others are its previous keys. A key has 32
   * bytes.
   */
  readonly encryptionKeys: readonly [Buffer, ...Buffer[]]
  readonly tools: {
    readonly fileRoot: string
    readonly smtpUrl: string | null
    readonly mailFrom: string
    /**
     * Says which organizations may use `fileRoot` and `smtpUrl`. `named` means only the organizations that an operator
     * names with `npm run connect-installation`.
     */
    readonly installationTools: 'all' | 'named'
    readonly modelPrices: readonly ModelPrice[]
  }
  /** The store for the credentials of connections. */
  readonly secrets:
    | { readonly backend: 'db' }
    | {
        readonly backend: 'aws_secrets_manager'
        readonly region: string
        /** The name of each secret begins with this text. */
        readonly prefix: string
      }
  readonly connections: {
    /** Connections may reach these hosts even if a host is private or has no TLS. */
    readonly hosts: readonly NamedHost[]
    /**
     * The address of the ticket tracker, without a closing slash. Is null if it is not set. Credentials of the tracker
     * are sent only to this address.
     */
    readonly trackerBaseUrl: string | null
    readonly google: {
      /**
       * This installation is registered at Google as an OAuth client with this id and secret. Is null if they are not
       * set.
       */
      readonly client: { readonly id: string; readonly secret: string } | null
      /** The base address for requests to Google, without a closing slash. Is null for Google's own addresses. */
      readonly baseUrl: string | null
    }
  }
  readonly people: {
    readonly signUp: SignUp
    /**
     * Maximum number of organizations that one person may create. Personal organizations do not count. Is null if there
     * is no maximum.
     */
    readonly organizationsPerPerson: number | null
    /** Maximum number of invitations to strangers that one person may send in a day. Is null if there is no maximum. */
    readonly strangersPerDay: number | null
    /** True if the invitation of a stranger may say the name of the organization. */
    readonly invitationsNameOrganizations: boolean
    /** True if people who could sign up only because of an invitation may invite strangers too. */
    readonly invitedMayInvite: boolean
    /** True if a person must confirm their mail address before they run workflows or use agents. */
    readonly mustBeConfirmed: boolean
  }
  /** Says who may set an organization's limits. `operator` means only the operator, with `npm run set-plan`. */
  readonly quotaOverrides: 'owner' | 'operator'
  /** The folder of the checkpoints of audit logs, outside the database. Is null if checkpoints are only logged. */
  readonly checkpointFolder: string | null
  /** The folder of the full logs. Is null if the logs go to stderr. */
  readonly logFolder: string | null
  /**
   * The data folder of `npm start`. The folder need not exist, for example if this process runs without `npm start`.
   */
  readonly dataFolder: string
  readonly logLevel: 'debug' | 'info' | 'warn' | 'error' | 'silent'
  /**
   * Seconds until the approval of a step or run expires. 0 means never. A rule can set another time for its approvals.
   */
  readonly runApprovalSeconds: number
  /** Days after which the data of an ended run is deleted. 0 means never. */
  readonly retentionDays: number
  readonly heartbeatTimeoutSeconds: number
  readonly reconcileSeconds: number
}

/**
 * Reads the settings from environment variables. An empty variable counts as not set. Throws `WrongSettings` with a
 * line for every missing or invalid variable. In production, a setting that is not allowed there adds a line too.
 */
export function readConfig(env: NodeJS.ProcessEnv = process.env): Config {
  const { values: e, wrong } = readEnvironment(env)
  wrong.push(...clashingPorts({ values: e, wrong }, apiPorts))
  const unfit = unfitForProduction(e)
  if (e.APP_ENV === 'production') wrong.push(...unfit.map((what) => `${what}, in production`))
  const encryptionKey = keyIn('DATA_ENCRYPTION_KEY', e.DATA_ENCRYPTION_KEY, wrong)
  const oldKeys = listOf(e.DATA_ENCRYPTION_KEY_OLD).map((text) =>
    keyIn('DATA_ENCRYPTION_KEY_OLD', text, wrong),
  )
  const tls = tlsFiles(e, wrong)
  const temporal = temporalOf(e, wrong)
  const secrets = secretsBackend(e, wrong)
  const google = googleSettings(e, wrong)
  if (wrong.length > 0) throw new WrongSettings(wrong)
  const isShared = isForMany(e)
  return {
    env: e.APP_ENV,
    warnings: warningsOf(e, unfit),
    processId: `${hostname()}-${process.pid}-${randomUUID().slice(0, 8)}`,
    database: { url: e.DATABASE_URL, appRole: e.DATABASE_APP_ROLE, prepare: e.DATABASE_PREPARED_STATEMENTS },
    temporal,
    http: httpOf(e, tls),
    metrics: metricsOf(e, e.METRICS_PORT),
    workerMetrics: metricsOf(e, e.WORKER_METRICS_PORT),
    encryptionKeys: [encryptionKey, ...oldKeys],
    ...sessionSecrets(e.SESSION_SECRET_KEY, listOf(e.SESSION_SECRET_KEY_OLD), [encryptionKey, ...oldKeys]),
    tools: {
      fileRoot: e.FILE_ROOT,
      smtpUrl: e.SMTP_URL ?? null,
      mailFrom: e.MAIL_FROM,
      installationTools: e.INSTALLATION_TOOLS ?? (isShared ? 'named' : 'all'),
      modelPrices: e.LLM_PRICES,
    },
    secrets,
    connections: {
      hosts: e.CONNECTION_HOSTS ?? (isShared ? [] : loopbackHosts),
      trackerBaseUrl: e.TRACKER_BASE_URL?.replace(/\/+$/, '') ?? null,
      google,
    },
    people: {
      signUp: e.SIGN_UP ?? { mode: isShared ? 'invited' : 'open' },
      organizationsPerPerson:
        e.ORGANIZATIONS_PER_PERSON === undefined ? (isShared ? 3 : null) : e.ORGANIZATIONS_PER_PERSON,
      strangersPerDay: e.STRANGERS_INVITED_PER_DAY,
      invitationsNameOrganizations: e.INVITATION_NAMES === 'organization',
      invitedMayInvite: e.INVITED_MAY_INVITE,
      mustBeConfirmed: isShared,
    },
    quotaOverrides: e.QUOTA_OVERRIDES,
    checkpointFolder: e.AUDIT_CHECKPOINT_DIR === undefined ? null : resolve(e.AUDIT_CHECKPOINT_DIR),
    logFolder: e.LOG_DIR ?? null,
    dataFolder: resolve(e.DATA_DIR),
    logLevel: e.LOG_LEVEL,
    runApprovalSeconds: e.RUN_APPROVAL_SECONDS,
    retentionDays: e.RETENTION_DAYS,
    heartbeatTimeoutSeconds: e.HEARTBEAT_TIMEOUT_SECONDS,
    reconcileSeconds: e.RECONCILE_SECONDS,
  }
}

function temporalOf(e: Environment, wrong: string[]): Config['temporal'] {
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

const httpOf = (e: Environment, tls: Config['http']['tls']): Config['http'] => ({
  host: e.HOST,
  port: e.PORT,
  publicUrl: e.PUBLIC_URL ?? null,
  names: namesOf(e, e.HOST),
  tls,
  docs: e.ENABLE_DOCS ?? e.APP_ENV !== 'production',
  developerRoutes: e.ENABLE_DEVELOPER_ROUTES,
  trustedProxies: e.TRUSTED_PROXY_HOSTS,
})

const metricsOf = (e: Environment, port: number | undefined): MetricsPlace | null =>
  port === undefined ? null : { host: e.METRICS_HOST, port, names: namesOf(e, e.METRICS_HOST) }

function keyIn(name: string, text: string, wrong: string[]): Buffer {
  const key = Buffer.from(text, 'base64')
  if (text !== '' && key.length !== 32)
    wrong.push(`${name} must be 32 bytes in base64 (openssl rand -base64 32)`)
  return key
}

/** Splits a list at its commas. Removes white space around the parts, and leaves out empty parts. */
const listOf = (text = ''): string[] =>
  text
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '')

/**
 * Returns the address with which links to this service begin, without a closing slash. This is `PUBLIC_URL`. If
 * `PUBLIC_URL` is not set, it is the address on which the API listens.
 */
export function publicBase({ http }: Pick<Config, 'http'>): string {
  const own = `${http.tls === null ? 'http' : 'https'}://${http.host}:${http.port}`
  return http.publicUrl?.replace(/\/+$/, '') ?? own
}

function tlsFiles(e: Environment, wrong: string[]): Config['http']['tls'] {
  const { TLS_CERT_FILE: certFile, TLS_KEY_FILE: keyFile } = e
  if (certFile !== undefined && keyFile !== undefined) return { certFile, keyFile }
  if (certFile === undefined && keyFile === undefined) return null
  wrong.push('TLS_CERT_FILE and TLS_KEY_FILE belong together: set both, or neither')
  return null
}

function secretsBackend(e: Environment, wrong: string[]): Config['secrets'] {
  if (e.SECRETS_BACKEND === 'db') return { backend: 'db' }
  if (e.AWS_REGION === undefined)
    wrong.push('AWS_REGION is missing: SECRETS_BACKEND `aws_secrets_manager` needs the region of the secrets')
  return { backend: 'aws_secrets_manager', region: e.AWS_REGION ?? '', prefix: e.AWS_SECRETS_PREFIX }
}

function googleSettings(e: Environment, wrong: string[]): Config['connections']['google'] {
  const { GOOGLE_CLIENT_ID: id, GOOGLE_CLIENT_SECRET: secret } = e
  const baseUrl = e.GOOGLE_BASE_URL?.replace(/\/+$/, '') ?? null
  if ((id === undefined) !== (secret === undefined))
    wrong.push('GOOGLE_CLIENT_ID and GOOGLE_CLIENT_SECRET belong together: set both, or neither')
  if (id === undefined || secret === undefined) return { client: null, baseUrl }
  // Google sends browsers back to an address below PUBLIC_URL. The operator has registered this address at Google.
  if (isForMany(e) && e.PUBLIC_URL === undefined)
    wrong.push('PUBLIC_URL is missing: with GOOGLE_CLIENT_ID, Google sends browsers back to this address')
  return { client: { id, secret }, baseUrl }
}

/** True in staging and production. Strangers can reach both, so many settings have a stricter default there. */
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
  // Production needs no warning: it hides these pages by default, and refuses to start if ENABLE_DOCS is `true`.
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
  // The proxy must be named even if it is on this machine. Otherwise every client seems to have the address of the
  // proxy (docs/decisions/0065).
  if (e.TLS_CERT_FILE === undefined && e.TRUSTED_PROXY_HOSTS.length === 0)
    found.push(
      'TRUSTED_PROXY_HOSTS must name the proxy that does TLS (`127.0.0.1` for one on this machine), or set ' +
        'TLS_CERT_FILE and TLS_KEY_FILE: the API would serve plain HTTP',
    )
  return found
}

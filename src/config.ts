import { hkdfSync, randomUUID } from 'node:crypto'
import { BlockList, isIP } from 'node:net'
import { hostname } from 'node:os'
import { z } from 'zod'
import { signUpSetting, type SignUp } from './sign-up-setting.ts'

const flag = z.enum(['true', 'false', '1', '0', '']).transform((text) => text === 'true' || text === '1')

/** The environment, as read once at start. Unknown variables are none of ours. */
const environment = z.object({
  APP_ENV: z.enum(['development', 'test', 'staging', 'production']).default('development'),
  DATABASE_URL: z.string().min(1),
  DATABASE_APP_ROLE: z.string().min(1).default('countersign_app'),
  DATABASE_PREPARED_STATEMENTS: flag.default(true),
  TEMPORAL_ADDRESS: z.string().min(1).default('127.0.0.1:7233'),
  TEMPORAL_NAMESPACE: z.string().min(1).default('default'),
  TEMPORAL_API_KEY: z.string().optional(),
  TEMPORAL_TLS: flag.optional(),
  TEMPORAL_TLS_CERT_FILE: z.string().optional(),
  TEMPORAL_TLS_KEY_FILE: z.string().optional(),
  TEMPORAL_TASK_QUEUE: z.string().min(1).default('countersign'),
  PORT: z.coerce.number().int().min(0).max(65_535).default(8080),
  HOST: z.string().default('127.0.0.1'),
  METRICS_PORT: z.coerce.number().int().min(0).max(65_535).optional(),
  METRICS_HOST: z.string().default('127.0.0.1'),
  PUBLIC_URL: z.string().optional(),
  TRUSTED_PROXY_HOSTS: z.string().default('').transform(proxyHosts),
  TLS_CERT_FILE: z.string().optional(),
  TLS_KEY_FILE: z.string().optional(),
  DATA_ENCRYPTION_KEY: z.string().min(1),
  DATA_ENCRYPTION_KEY_OLD: z.string().optional(),
  SMTP_URL: z.string().optional(),
  MAIL_FROM: z.string().default('Countersign <countersign@localhost>'),
  FILE_ROOT: z.string().default('samples'),
  INSTALLATION_TOOLS: z.enum(['all', 'named']).optional(),
  SIGN_UP: signUpSetting.optional(),
  ORGANIZATIONS_PER_PERSON: z
    .union([z.literal('unlimited').transform(() => null), z.coerce.number().int().min(0).max(1_000_000)], {
      error: 'write a whole number, or `unlimited`',
    })
    .optional(),
  QUOTA_OVERRIDES: z.enum(['owner', 'operator']).default('owner'),
  SESSION_SECRET_KEY: z.string().optional(),
  ENABLE_DOCS: flag.optional(),
  ENABLE_DEVELOPER_ROUTES: flag.default(false),
  LOG_DIR: z.string().optional(),
  LOG_LEVEL: z.enum(['debug', 'info', 'warn', 'error', 'silent']).default('info'),
  RUN_APPROVAL_SECONDS: z.coerce
    .number()
    .int()
    .min(0)
    .default(7 * 24 * 3600),
  RETENTION_DAYS: z.coerce.number().min(0).max(36_500).default(90),
  HEARTBEAT_TIMEOUT_SECONDS: z.coerce.number().min(1).default(10),
  RECONCILE_SECONDS: z.coerce.number().min(0.1).default(10),
})

export interface Config {
  readonly env: 'development' | 'test' | 'staging' | 'production'
  /** What each process says once: what production would refuse to start with (staging), and what is recommended. */
  readonly warnings: readonly string[]
  /** Names this process in logs and heartbeats. */
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
    /** null: plain HTTP, for loopback or behind a proxy that does TLS. */
    readonly tls: { readonly certFile: string; readonly keyFile: string } | null
    readonly docs: boolean
    /** Addresses and CIDR ranges of proxies whose `X-Forwarded-For` and `X-Forwarded-Proto` are believed. */
    readonly trustedProxies: readonly string[]
  }
  /** Where the API's metrics are served; null: nowhere. */
  readonly metrics: { readonly host: string; readonly port: number } | null
  /** The installation's key, then those that it had before. 32 bytes each. */
  readonly encryptionKeys: readonly [Buffer, ...Buffer[]]
  /** Signs cookies and mailed tokens and seals second factors; the same in every process. */
  readonly sessionSecret: string
  readonly tools: {
    readonly fileRoot: string
    readonly smtpUrl: string | null
    readonly mailFrom: string
    /** Whose `fileRoot` and `smtpUrl` are: every organization's, or those that an operator names. */
    readonly installationTools: 'all' | 'named'
  }
  readonly people: {
    readonly signUp: SignUp
    /** How many one person may make, the personal one aside; null: any number. */
    readonly organizationsPerPerson: number | null
    /** Whether a person runs workflows, and their agents tools, only once their mail address is confirmed. */
    readonly mustBeConfirmed: boolean
  }
  /** Who may set an organization's limits: its owners, or only the operator, with `npm run set-plan`. */
  readonly quotaOverrides: 'owner' | 'operator'
  /** Where whole logs go; null: to stderr. */
  readonly logFolder: string | null
  readonly logLevel: 'debug' | 'info' | 'warn' | 'error' | 'silent'
  /** How long a step or run approval waits, unless its rule says otherwise; 0 = for ever. */
  readonly runApprovalSeconds: number
  /** How long the data of an ended run is kept; 0 is for ever. */
  readonly retentionDays: number
  readonly heartbeatTimeoutSeconds: number
  readonly reconcileSeconds: number
}

/**
 * Reads the environment; a variable that is set to nothing counts as not set. Throws one error that names every variable
 * that is missing or wrong, in production also what must not run there.
 */
export function readConfig(env: NodeJS.ProcessEnv = process.env): Config {
  const parsed = environment.safeParse(
    Object.fromEntries(Object.entries(env).filter(([, value]) => value !== '')),
  )
  if (!parsed.success) {
    const lines = parsed.error.issues.map((issue) => {
      const name = issue.path.join('.')
      return `${name} ${(env[name] ?? '') === '' ? 'is missing' : `is wrong: ${issue.message}`}`
    })
    throw new Error(`the environment is not complete: ${lines.join('; ')}`)
  }
  const e = parsed.data
  const unfit = unfitForProduction(e)
  if (e.APP_ENV === 'production' && unfit.length > 0)
    throw new Error(`not started in production: ${unfit.join('; ')}`)
  const encryptionKey = keyIn('DATA_ENCRYPTION_KEY', e.DATA_ENCRYPTION_KEY)
  const oldKeys = (e.DATA_ENCRYPTION_KEY_OLD ?? '').split(',').filter((part) => part.trim() !== '')
  const tls = tlsFiles(e)
  const isShared = isForMany(e)
  return {
    env: e.APP_ENV,
    warnings: warningsOf(e, unfit),
    processId: `${hostname()}-${process.pid}-${randomUUID().slice(0, 8)}`,
    database: { url: e.DATABASE_URL, appRole: e.DATABASE_APP_ROLE, prepare: e.DATABASE_PREPARED_STATEMENTS },
    temporal: {
      address: e.TEMPORAL_ADDRESS,
      namespace: e.TEMPORAL_NAMESPACE,
      taskQueue: e.TEMPORAL_TASK_QUEUE,
      apiKey: e.TEMPORAL_API_KEY ?? null,
      tls: e.TEMPORAL_TLS ?? (e.TEMPORAL_API_KEY !== undefined || e.TEMPORAL_TLS_CERT_FILE !== undefined),
      tlsCertFile: e.TEMPORAL_TLS_CERT_FILE ?? null,
      tlsKeyFile: e.TEMPORAL_TLS_KEY_FILE ?? null,
    },
    http: {
      host: e.HOST,
      port: e.PORT,
      publicUrl: e.PUBLIC_URL ?? null,
      tls,
      docs: e.ENABLE_DOCS ?? e.APP_ENV !== 'production',
      trustedProxies: e.TRUSTED_PROXY_HOSTS,
    },
    metrics: e.METRICS_PORT === undefined ? null : { host: e.METRICS_HOST, port: e.METRICS_PORT },
    encryptionKeys: [encryptionKey, ...oldKeys.map((text) => keyIn('DATA_ENCRYPTION_KEY_OLD', text))],
    sessionSecret: e.SESSION_SECRET_KEY ?? derivedSecret(encryptionKey),
    tools: {
      fileRoot: e.FILE_ROOT,
      smtpUrl: e.SMTP_URL ?? null,
      mailFrom: e.MAIL_FROM,
      installationTools: e.INSTALLATION_TOOLS ?? (isShared ? 'named' : 'all'),
    },
    people: {
      signUp: e.SIGN_UP ?? { mode: isShared ? 'invited' : 'open' },
      organizationsPerPerson:
        e.ORGANIZATIONS_PER_PERSON === undefined ? (isShared ? 3 : null) : e.ORGANIZATIONS_PER_PERSON,
      mustBeConfirmed: isShared,
    },
    quotaOverrides: e.QUOTA_OVERRIDES,
    logFolder: e.LOG_DIR ?? null,
    logLevel: e.LOG_LEVEL,
    runApprovalSeconds: e.RUN_APPROVAL_SECONDS,
    retentionDays: e.RETENTION_DAYS,
    heartbeatTimeoutSeconds: e.HEARTBEAT_TIMEOUT_SECONDS,
    reconcileSeconds: e.RECONCILE_SECONDS,
  }
}

function keyIn(name: string, text: string): Buffer {
  const key = Buffer.from(text, 'base64')
  if (key.length !== 32) throw new Error(`${name} must be 32 bytes in base64 (openssl rand -base64 32)`)
  return key
}

/** For installations that set none: of the key that all their processes share, so that all take each other's cookies. */
function derivedSecret(key: Buffer): string {
  return Buffer.from(hkdfSync('sha256', key, '', 'countersign session secret', 32)).toString('base64url')
}

/** What links begin with, without a closing slash: `PUBLIC_URL`, else the address that is listened on. */
export function publicBase({ http }: Pick<Config, 'http'>): string {
  const own = `${http.tls === null ? 'http' : 'https'}://${http.host}:${http.port}`
  return http.publicUrl?.replace(/\/+$/, '') ?? own
}

function tlsFiles(e: z.infer<typeof environment>): Config['http']['tls'] {
  const { TLS_CERT_FILE: certFile, TLS_KEY_FILE: keyFile } = e
  if (certFile !== undefined && keyFile !== undefined) return { certFile, keyFile }
  if (certFile === undefined && keyFile === undefined) return null
  throw new Error('TLS_CERT_FILE and TLS_KEY_FILE belong together: set both, or neither')
}

/** Staging and production: strangers can reach it, so what they may do is off until somebody says so. */
const isForMany = ({ APP_ENV: env }: z.infer<typeof environment>): boolean =>
  env === 'staging' || env === 'production'

function warningsOf(e: z.infer<typeof environment>, unfit: readonly string[]): string[] {
  if (!isForMany(e)) return []
  const found = unfit.map((what) => `production would not start: ${what}`)
  if (servesPlainHttp(e))
    found.push(
      'TRUSTED_PROXY_HOSTS is not set: behind a proxy all clients have its address, in sign-in limits and in the audit log',
    )
  if (e.TLS_CERT_FILE === undefined && e.PUBLIC_URL?.startsWith('https:') !== true)
    found.push(
      'PUBLIC_URL is no https address: browsers send the cookies of sessions over plain HTTP too, and links in mails lead there',
    )
  return found
}

/** The widest range that one operator can own: half of all addresses would be half of all clients. */
const shortestPrefix: Readonly<Record<number, number>> = { 32: 8, 128: 16 }

function isWide(address: string, prefix: number, bits: number): boolean {
  if (prefix < (shortestPrefix[bits] ?? 0)) return true
  // IPv6 holds every IPv4 address too, in `::ffff:0:0/96`.
  return bits === 128 && prefix < 104 && (isIn(mapped, 96, address) || isIn(address, prefix, mapped))
}

const mapped = '::ffff:0:0'

function isIn(network: string, prefix: number, address: string): boolean {
  const list = new BlockList()
  list.addSubnet(network, prefix, 'ipv6')
  return list.check(address, 'ipv6')
}

/** Comma-separated addresses and CIDR ranges. Every client in a trusted range can choose its own address: wide ones are refused. */
function proxyHosts(text: string, context: z.RefinementCtx): string[] {
  const hosts = text.split(',').flatMap((part) => (part.trim() === '' ? [] : [part.trim()]))
  for (const host of hosts) {
    const [, address = '', prefix] = /^([^/]*)(?:\/(\d{1,3}))?$/.exec(host) ?? []
    const bits = { 0: 0, 4: 32, 6: 128 }[isIP(address)] ?? 0
    if (bits === 0 || (prefix !== undefined && Number(prefix) > bits))
      context.addIssue({
        code: 'custom',
        message: `\`${host}\` is no address and no CIDR range: write e.g. \`10.0.0.7,10.1.0.0/16,fd00::/16\``,
      })
    else if (prefix !== undefined && isWide(address, Number(prefix), bits))
      context.addIssue({
        code: 'custom',
        message: `\`${host}\` trusts too many addresses: name the proxies, or a range of at least /8 (IPv4) or /16 (IPv6)`,
      })
  }
  return hosts
}

function unfitForProduction(e: z.infer<typeof environment>): string[] {
  const found: string[] = []
  if ((e.SESSION_SECRET_KEY ?? '').length < 32)
    found.push('SESSION_SECRET_KEY must have at least 32 characters (openssl rand -base64 32)')
  if (e.ENABLE_DOCS === true) found.push('ENABLE_DOCS must be `false`')
  if (e.ENABLE_DEVELOPER_ROUTES) found.push('ENABLE_DEVELOPER_ROUTES must be `false`')
  if (servesPlainHttp(e) && !isLoopback(e.HOST))
    found.push(
      `HOST \`${e.HOST}\` would serve plain HTTP to a network: set TLS_CERT_FILE and TLS_KEY_FILE, or name the ` +
        'proxy that does TLS in TRUSTED_PROXY_HOSTS, or listen on 127.0.0.1',
    )
  return found
}

/** Neither this process nor a proxy that was named does TLS. */
const servesPlainHttp = (e: z.infer<typeof environment>): boolean =>
  e.TLS_CERT_FILE === undefined && e.TRUSTED_PROXY_HOSTS.length === 0

/** Only programs of this machine reach it there (docs/decisions/0065). */
const isLoopback = (host: string): boolean =>
  host === 'localhost' || host === '::1' || (isIP(host) === 4 && host.startsWith('127.'))

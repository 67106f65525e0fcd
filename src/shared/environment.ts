import { BlockList, isIP } from 'node:net'
import { z } from 'zod'
import { defaultModelPrices, modelPrices } from './model-prices.ts'
import { connectionHosts, isNamed, loopbackHosts, portOf } from './outgoing/hosts.ts'
import { allowedHosts } from './own-hosts.ts'
import { signUpSetting } from './sign-up-setting.ts'

/** A line for each wrong setting. */
export class WrongSettings extends Error {
  readonly lines: readonly string[]

  constructor(lines: readonly string[]) {
    super(lines.join('; '))
    this.lines = lines
  }
}

const flag = oneOf(['true', 'false', '1', '0']).transform((text) => text === 'true' || text === '1')
const port = wholeNumber(0, 65_535)
const unlimited = z.literal('unlimited').transform(() => null)
const mostOrUnlimited = z.union([unlimited, wholeNumber(0, 1_000_000)], {
  error: 'write a whole number, or `unlimited`',
})
const databaseExample = 'postgres://user:password@host:5432/name'
const databaseUrl = address(['postgres:', 'postgresql:', 'socket:'], databaseExample).refine(hasRealPort, {
  error: `its port is not a whole number from 1 to 65535: write it such as \`${databaseExample}\``,
})
const hostAndPort = z
  .string()
  .regex(/^(\[[0-9a-fA-F:.]+\]|[^\s:/]+):\d{1,5}$/, {
    error: 'write a host and its port, such as `temporal.internal:7233`',
    abort: true,
  })
  .refine(hasRealPort, 'its port is not a whole number from 1 to 65535')

const fields = {
  APP_ENV: oneOf(['development', 'test', 'staging', 'production']).default('development'),
  DATA_DIR: z.string().default('.data'),
  /** The embedded PostgreSQL; 0: any free port. */
  POSTGRES_PORT: port.default(0),
  /** The role that owns the tables, only for migrations. */
  DATABASE_OWNER_URL: databaseUrl.optional(),
  DATABASE_URL: databaseUrl,
  DATABASE_APP_ROLE: z.string().min(1).default('countersign_app'),
  DATABASE_PREPARED_STATEMENTS: flag.default(true),
  TEMPORAL_ADDRESS: hostAndPort.default('127.0.0.1:7233'),
  TEMPORAL_NAMESPACE: z.string().min(1).default('default'),
  TEMPORAL_API_KEY: z.string().optional(),
  TEMPORAL_TLS: flag.optional(),
  TEMPORAL_TLS_CERT_FILE: z.string().optional(),
  TEMPORAL_TLS_KEY_FILE: z.string().optional(),
  TEMPORAL_TASK_QUEUE: z.string().min(1).default('countersign'),
  PORT: port.default(8080),
  HOST: listenHost().default('127.0.0.1'),
  METRICS_PORT: port.optional(),
  WORKER_METRICS_PORT: port.optional(),
  METRICS_HOST: listenHost().default('127.0.0.1'),
  PUBLIC_URL: readableAddress(['http:', 'https:'], 'https://countersign.example.com').optional(),
  ALLOWED_HOSTS: z.string().default('').transform(allowedHosts),
  TRUSTED_PROXY_HOSTS: z.string().default('').transform(proxyHosts),
  TLS_CERT_FILE: z.string().optional(),
  TLS_KEY_FILE: z.string().optional(),
  DATA_ENCRYPTION_KEY: z.string().min(1),
  DATA_ENCRYPTION_KEY_OLD: z.string().optional(),
  SECRETS_BACKEND: oneOf(['db', 'aws_secrets_manager']).default('db'),
  AWS_REGION: z
    .string()
    .regex(/^[a-z]{2}(-[a-z]+)+-\d+$/, 'write a region, such as `eu-central-1`')
    .optional(),
  AWS_SECRETS_PREFIX: z
    .string()
    .regex(/^[\w/+=.@-]{1,200}$/, 'write letters, digits and `/_+=.@-`, such as `countersign/`')
    .default('countersign/'),
  SMTP_URL: readableAddress(['smtp:', 'smtps:'], 'smtp://user:password@host:587').optional(),
  /** Set by `npm start` in development. */
  MAIL_FOLDER: z.string().optional(),
  MAIL_FROM: z.string().default('Countersign <countersign@localhost>'),
  FILE_ROOT: z.string().default('samples'),
  INSTALLATION_TOOLS: oneOf(['all', 'named']).optional(),
  CONNECTION_HOSTS: z.string().transform(connectionHosts).optional(),
  TRACKER_BASE_URL: readableAddress(['http:', 'https:'], 'https://acme.atlassian.net')
    .refine((text) => new URL(text).protocol === 'https:' || isLoopback(text), {
      error: 'write `https://`: plain HTTP is only for a stand-in on this machine',
    })
    .optional(),
  /** Set by `npm start` in development. */
  STAND_INS_URL: readableAddress(['http:'], 'http://127.0.0.1:18090')
    .refine(isLoopback, { error: 'write an address of this machine, such as `http://127.0.0.1:18090`' })
    .optional(),
  LLM_PRICES: z.string().default(defaultModelPrices).transform(modelPrices),
  GOOGLE_CLIENT_ID: clientText('client id').optional(),
  GOOGLE_CLIENT_SECRET: clientText('client secret').optional(),
  GOOGLE_BASE_URL: readableAddress(['http:', 'https:'], 'https://google.internal').optional(),
  SIGN_UP: signUpSetting.optional(),
  ORGANIZATIONS_PER_PERSON: mostOrUnlimited.optional(),
  STRANGERS_INVITED_PER_DAY: mostOrUnlimited.default(10),
  INVITATION_NAMES: oneOf(['none', 'organization']).default('none'),
  INVITED_MAY_INVITE: flag.default(false),
  QUOTA_OVERRIDES: oneOf(['owner', 'operator']).default('owner'),
  SESSION_SECRET_KEY: z.string().optional(),
  SESSION_SECRET_KEY_OLD: z.string().optional(),
  ENABLE_DOCS: flag.optional(),
  ENABLE_DEVELOPER_ROUTES: flag.default(false),
  AUDIT_CHECKPOINT_DIR: z.string().optional(),
  LOG_DIR: z.string().optional(),
  LOG_LEVEL: oneOf(['debug', 'info', 'warn', 'error', 'silent']).default('info'),
  RUN_APPROVAL_SECONDS: wholeNumber(0, 3_650 * 24 * 3600).default(7 * 24 * 3600),
  RETENTION_DAYS: decimal(0, 36_500).default(90),
  HEARTBEAT_TIMEOUT_SECONDS: decimal(1, 3_600).default(10),
  RECONCILE_SECONDS: decimal(0.1, 3_600).default(10),
}

export type Environment = { readonly [Name in keyof typeof fields]: z.output<(typeof fields)[Name]> }

/** `wrong` has a sentence for each missing or wrong variable, which in `values` is its default, or empty. */
export function readEnvironment(env: NodeJS.ProcessEnv): { values: Environment; wrong: string[] } {
  const wrong: string[] = []
  const values = Object.entries(fields).map(([name, field]) => {
    const text = env[name] === '' ? undefined : env[name]
    const read = field.safeParse(text)
    if (read.success) return [name, read.data]
    const [issue] = read.error.issues
    wrong.push(text === undefined ? `${name} is missing` : `${name} is wrong: ${issue?.message}`)
    return [name, field.safeParse(undefined).data ?? '']
  })
  return { values: Object.fromEntries(values) as Environment, wrong }
}

function oneOf<const Names extends readonly string[]>(names: Names): z.ZodEnum<z.util.ToEnum<Names[number]>> {
  return z.enum(names, { error: ({ input }) => `\`${String(input)}\` is not one of ${names.join(', ')}` })
}

function wholeNumber(least: number, most: number): z.ZodType<number, string> {
  return number(/^\d{1,15}$/, least, most, 'a whole number')
}

function decimal(least: number, most: number): z.ZodType<number, string> {
  return number(/^\d{1,15}(\.\d{1,6})?$/, least, most, 'a number')
}

function number(form: RegExp, least: number, most: number, what: string): z.ZodType<number, string> {
  return z.string().transform((text, context) => {
    const value = form.test(text) ? Number(text) : Number.NaN
    if (value >= least && value <= most) return value
    context.addIssue({ code: 'custom', message: `\`${text}\` is not ${what} from ${least} to ${most}` })
    return z.NEVER
  })
}

/** An id or a secret from Google. The message does not repeat it. */
function clientText(what: string): z.ZodType<string, string> {
  return z
    .string()
    .regex(/^[\x21-\x7e]{1,1000}$/, `it is no ${what}: copy it again, without spaces and line breaks`)
}

/** The message does not repeat the address, which may contain a password. */
function address(schemes: readonly string[], example: string): z.ZodType<string, string> {
  return z.string().refine((text) => schemes.some((scheme) => text.startsWith(`${scheme}/`)), {
    error: `it must begin with ${schemes.map((scheme) => `\`${scheme}//\``).join(' or ')}, such as \`${example}\``,
    abort: true,
  })
}

/** No port, or one from 1 to 65535. PostgreSQL's driver accepts many forms of addresses. */
function hasRealPort(text: string): boolean {
  const [, authority = ''] = /^(?:[a-z]+:\/\/)?([^/?#]*)/.exec(text) ?? []
  const host = authority.slice(authority.lastIndexOf('@') + 1).replace(/^\[.*\]/, '')
  const colon = host.lastIndexOf(':')
  if (colon < 0) return true
  const number = host.slice(colon + 1)
  return number === '' || (/^\d{1,5}$/.test(number) && Number(number) >= 1 && Number(number) <= 65_535)
}

/** With a readable host and port, because this service parses the address itself. */
function readableAddress(schemes: readonly string[], example: string): z.ZodType<string, string> {
  return address(schemes, example).refine((text) => URL.canParse(text) && new URL(text).hostname !== '', {
    error: `its host or port cannot be read: write it such as \`${example}\``,
    abort: true,
  })
}

function isLoopback(address: string): boolean {
  const url = new URL(address)
  return isNamed(loopbackHosts, url.hostname, portOf(url))
}

/** A name whose last part is a number is probably a mistaken IP address, such as `127.0.0.300`. */
function listenHost(): z.ZodType<string, string> {
  const name = /^(?=.{1,253}$)[a-z\d](?:[a-z\d_-]*[a-z\d])?(?:\.[a-z\d](?:[a-z\d_-]*[a-z\d])?)*$/i
  return z.string().refine((text) => isIP(text) !== 0 || (name.test(text) && !/(?:^|\.)\d+$/.test(text)), {
    error: 'write an address or a name of this machine, such as `127.0.0.1` or `0.0.0.0`',
  })
}

/** By bits of an address. A range with a shorter prefix would also include clients. */
const shortestPrefix: Readonly<Record<number, number>> = { 32: 8, 128: 16 }

function isWide(address: string, prefix: number, bits: number): boolean {
  if (prefix < (shortestPrefix[bits] ?? 0)) return true
  // IPv4 is `::ffff:0:0/96`: around it a range is too wide, and within it at most an IPv4 /8 (IPv6 /104).
  return bits === 128 && prefix < 104 && (isIn(mapped, 96, address) || isIn(address, prefix, mapped))
}

const mapped = '::ffff:0:0'

function isIn(network: string, prefix: number, address: string): boolean {
  const list = new BlockList()
  list.addSubnet(network, prefix, 'ipv6')
  return list.check(address, 'ipv6')
}

/** `0.0.0.0` and `::` are all addresses of a server. No connection comes from them. */
const isUnspecified = (address: string): boolean => /^[0:.]+$/.test(address)

/** TRUSTED_PROXY_HOSTS. A client in a trusted range could claim any address, so wide ranges are refused. */
function proxyHosts(text: string, context: z.RefinementCtx): string[] {
  const hosts = text.split(',').flatMap((part) => (part.trim() === '' ? [] : [part.trim()]))
  for (const host of hosts) {
    const [, address = '', prefix] = /^([^/]*)(?:\/(\d{1,3}))?$/.exec(host) ?? []
    const bits = { 0: 0, 4: 32, 6: 128 }[isIP(address)] ?? 0
    const refuse = (message: string) => context.addIssue({ code: 'custom', message })
    if (bits === 0 || (prefix !== undefined && Number(prefix) > bits))
      refuse(
        `\`${host}\` is not an address or CIDR range: write for example \`10.0.0.7,10.1.0.0/16,fd00::/16\``,
      )
    else if (prefix !== undefined && isWide(address, Number(prefix), bits))
      refuse(
        `\`${host}\` trusts too many addresses: name the proxies, or a range of at least /8 (IPv4) or /16 (IPv6)`,
      )
    else if (isUnspecified(address))
      refuse(
        `no connection comes from \`${host}\`: name the address from which the proxy connects, such as \`127.0.0.1\``,
      )
  }
  return hosts
}

import { resolve } from 'node:path'
import { z } from 'zod'
import { projectRoot } from '../project-root.ts'

const port = z.coerce.number().int().min(0).max(65_535)
const text = z.string().min(1)

/** An empty variable counts as unset: that is what `NAME= npm start` means. */
const schema = z.object({
  APP_ENV: z.enum(['development', 'test', 'staging', 'production']).default('development'),
  PORT: port.default(8080),
  HOST: text.default('127.0.0.1'),
  POSTGRES_PORT: port.default(0),
  DATA_DIR: text.default('.data'),
  DATABASE_URL: text.optional(),
  DATABASE_OWNER_URL: text.optional(),
  DATA_ENCRYPTION_KEY: text.optional(),
  TEMPORAL_ADDRESS: text.optional(),
  TEMPORAL_NAMESPACE: text.optional(),
  SMTP_URL: text.optional(),
  FILE_ROOT: text.optional(),
  LOG_DIR: text.optional(),
  PUBLIC_URL: text.optional(),
  TLS_CERT_FILE: text.optional(),
})

/** What `npm start` itself reads of the environment; everything else goes to the API and the worker as it is. */
export interface StackSettings {
  readonly production: boolean
  readonly port: number
  readonly host: string
  readonly postgresPort: number
  /** Absolute. */
  readonly dataDir: string
  /** null: the embedded PostgreSQL. */
  readonly database: { readonly url: string; readonly ownerUrl: string } | null
  readonly encryptionKey: string | null
  /** null: the development server. */
  readonly temporalAddress: string | null
  readonly namespace: string | null
  readonly smtpUrl: string | null
  readonly fileRoot: string
  /** Absolute; null, in production: logs stay on stderr, where whoever runs it collects them. */
  readonly logDir: string | null
  readonly publicUrl: string | null
  readonly tls: boolean
}

/** Reads the settings. Throws one error that names every variable that is missing or wrong. */
export function readStackSettings(env: NodeJS.ProcessEnv): StackSettings {
  const parsed = schema.safeParse(Object.fromEntries(Object.entries(env).filter(([, value]) => value !== '')))
  if (!parsed.success) {
    const lines = parsed.error.issues.map((issue) => `${issue.path.join('.')}: ${issue.message}`)
    throw new Error(`the environment is wrong: ${lines.join('; ')}`)
  }
  const e = parsed.data
  if (e.DATABASE_URL !== undefined && e.DATA_ENCRYPTION_KEY === undefined) {
    throw new Error(
      'with DATABASE_URL, DATA_ENCRYPTION_KEY must be set too: 32 bytes in base64, the same for every process (openssl rand -base64 32)',
    )
  }
  return {
    production: e.APP_ENV === 'production',
    port: e.PORT,
    host: e.HOST,
    postgresPort: e.POSTGRES_PORT,
    dataDir: resolve(e.DATA_DIR),
    database:
      e.DATABASE_URL === undefined
        ? null
        : { url: e.DATABASE_URL, ownerUrl: e.DATABASE_OWNER_URL ?? e.DATABASE_URL },
    encryptionKey: e.DATA_ENCRYPTION_KEY ?? null,
    temporalAddress: e.TEMPORAL_ADDRESS ?? null,
    namespace: e.TEMPORAL_NAMESPACE ?? null,
    smtpUrl: e.SMTP_URL ?? null,
    logDir: logDirOf(e),
    fileRoot: resolve(projectRoot(), e.FILE_ROOT ?? 'samples'),
    publicUrl: e.PUBLIC_URL ?? null,
    tls: e.TLS_CERT_FILE !== undefined,
  }
}

function logDirOf(e: z.infer<typeof schema>): string | null {
  if (e.LOG_DIR !== undefined) return resolve(e.LOG_DIR)
  return e.APP_ENV === 'production' ? null : resolve(e.DATA_DIR, 'logs')
}

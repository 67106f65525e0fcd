import { join, resolve } from 'node:path'
import { readEnvironment, WrongSettings, type Environment } from '../shared/environment.ts'
import { projectRoot } from '../shared/project-root.ts'

/** The folder of the checkpoints of audit logs, in the data folder. */
export const checkpointsName = 'audit-checkpoints'

/**
 * The settings that `npm start` itself uses. The API and the worker read all other settings from the same environment.
 */
export interface StackSettings {
  readonly production: boolean
  readonly port: number
  readonly host: string
  readonly postgresPort: number
  /** An absolute path. */
  readonly dataDir: string
  /** Is null if the embedded PostgreSQL is used. */
  readonly database: { readonly url: string; readonly ownerUrl: string } | null
  readonly encryptionKey: string | null
  /** Is null if the development server of Temporal is used. */
  readonly temporalAddress: string | null
  readonly namespace: string | null
  readonly smtpUrl: string | null
  readonly fileRoot: string
  /** An absolute path. Is null in production without LOG_DIR. The API and the worker then log to standard error. */
  readonly logDir: string | null
  /** An absolute path: the folder of the checkpoints of audit logs. */
  readonly checkpointDir: string
  /** True if AUDIT_CHECKPOINT_DIR is set. False if the checkpoints are in the data folder. */
  readonly isCheckpointDirNamed: boolean
  readonly publicUrl: string | null
  readonly tls: boolean
}

/** Reads the settings. Throws one error that names every missing or invalid variable. */
export function readStackSettings(env: NodeJS.ProcessEnv): StackSettings {
  const { values: e, wrong } = readEnvironment(withStandIns(env))
  if (wrong.length > 0) throw new WrongSettings(wrong)
  const isOwnDatabase = Boolean(env['DATABASE_URL'])
  return {
    production: e.APP_ENV === 'production',
    port: e.PORT,
    host: e.HOST,
    postgresPort: e.POSTGRES_PORT,
    dataDir: resolve(e.DATA_DIR),
    database: isOwnDatabase
      ? { url: e.DATABASE_URL, ownerUrl: e.DATABASE_OWNER_URL ?? e.DATABASE_URL }
      : null,
    encryptionKey: env['DATA_ENCRYPTION_KEY'] || null,
    temporalAddress: env['TEMPORAL_ADDRESS'] || null,
    namespace: env['TEMPORAL_NAMESPACE'] || null,
    smtpUrl: e.SMTP_URL ?? null,
    logDir: logDirOf(e),
    checkpointDir: resolve(e.AUDIT_CHECKPOINT_DIR ?? join(e.DATA_DIR, checkpointsName)),
    isCheckpointDirNamed: e.AUDIT_CHECKPOINT_DIR !== undefined,
    fileRoot: resolve(projectRoot(), e.FILE_ROOT),
    publicUrl: e.PUBLIC_URL ?? null,
    tls: e.TLS_CERT_FILE !== undefined,
  }
}

function logDirOf(e: Environment): string | null {
  if (e.LOG_DIR !== undefined) return resolve(e.LOG_DIR)
  return e.APP_ENV === 'production' ? null : resolve(e.DATA_DIR, 'logs')
}

/**
 * Returns the environment. If DATABASE_URL is not set, adds a placeholder for it, and one for DATA_ENCRYPTION_KEY if
 * that is missing too. Both may be missing, because `npm start` creates the database and the key later.
 */
export function withStandIns(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  if (env['DATABASE_URL']) return env
  return {
    ...env,
    DATABASE_URL: 'postgres://127.0.0.1/countersign',
    DATA_ENCRYPTION_KEY: env['DATA_ENCRYPTION_KEY'] || Buffer.alloc(32).toString('base64'),
  }
}

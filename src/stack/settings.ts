import { join, resolve } from 'node:path'
import { readEnvironment, WrongSettings, type Environment } from '../shared/environment.ts'
import { isLoopback } from '../shared/own-hosts.ts'
import { projectRoot } from '../shared/project-root.ts'

/** The checkpoints of audit logs, in the data folder. */
export const checkpointsName = 'audit-checkpoints'

export type StackSettings = Readonly<ReturnType<typeof readStackSettings>>

/** What `npm start` itself uses. The API and the worker read all else from the same environment. */
export function readStackSettings(env: NodeJS.ProcessEnv) {
  const { values: e, wrong } = readEnvironment(withStandIns(env))
  if (wrong.length > 0) throw new WrongSettings(wrong)
  const isOwnDatabase = Boolean(env['DATABASE_URL'])
  return {
    production: e.APP_ENV === 'production',
    /** Stand-ins for GitHub and Slack. All organizations share them, so nobody else may reach the service. */
    standIns: e.APP_ENV === 'development' && isLoopback(e.HOST),
    port: e.PORT,
    host: e.HOST,
    postgresPort: e.POSTGRES_PORT,
    dataDir: resolve(e.DATA_DIR),
    /** null: the embedded PostgreSQL. */
    database: isOwnDatabase
      ? { url: e.DATABASE_URL, ownerUrl: e.DATABASE_OWNER_URL ?? e.DATABASE_URL }
      : null,
    encryptionKey: env['DATA_ENCRYPTION_KEY'] || null,
    /** null: the development server of Temporal. */
    temporalAddress: env['TEMPORAL_ADDRESS'] || null,
    namespace: env['TEMPORAL_NAMESPACE'] || null,
    smtpUrl: e.SMTP_URL ?? null,
    /** null in production without LOG_DIR: the API and the worker then log to standard error. */
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

/** Without DATABASE_URL, it and DATA_ENCRYPTION_KEY may be missing, because `npm start` makes both later. */
export function withStandIns(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  if (env['DATABASE_URL']) return env
  return {
    ...env,
    DATABASE_URL: 'postgres://127.0.0.1/countersign',
    DATA_ENCRYPTION_KEY: env['DATA_ENCRYPTION_KEY'] || Buffer.alloc(32).toString('base64'),
  }
}

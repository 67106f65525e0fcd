import { accessSync, constants, existsSync, mkdtempSync, rmdirSync, statSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { parseSender } from '../tools/mail/message.ts'
import { parseSmtpUrl } from '../tools/mail/smtp-url.ts'
import { readTlsKeyPair } from '../api/http-server.ts'
import { readConfig, type Config, apiPorts, clashingPorts } from '../shared/config.ts'
import { readEnvironment, WrongSettings } from '../shared/environment.ts'
import { readStackSettings, withStandIns } from '../stack/settings.ts'

export interface CheckedSettings {
  readonly wrong: readonly string[]
  readonly warnings: readonly string[]
}

/**
 * Checks all settings, and the files and folders that they name. Without DATABASE_URL, DATA_ENCRYPTION_KEY may be
 * missing, because `npm start` then creates both. So may SESSION_SECRET_KEY outside production.
 */
export function checkSettings(env: NodeJS.ProcessEnv): CheckedSettings {
  const wrong = [
    ...linesOf(() => readStackSettings(env)),
    ...wrongPorts(env),
    ...wrongMail(env),
    ...wrongFolders(withDataFolder(env)),
    ...missingPackages(env),
    ...wrongCertificate(env),
    ...wrongTemporalCertificate(env),
  ]
  const warnings = missingServers(env)
  wrong.push(...linesOf(() => warnings.push(...readConfig(withStandIns(env)).warnings)))
  return { wrong: [...new Set(wrong)], warnings }
}

/**
 * Servers that a production environment does not name. `npm start` then runs its own, which no other machine can use.
 */
function missingServers({ APP_ENV, DATABASE_URL, TEMPORAL_ADDRESS }: NodeJS.ProcessEnv): string[] {
  if (APP_ENV !== 'production') return []
  return [
    ...(DATABASE_URL
      ? []
      : [
          'DATABASE_URL is not set: `npm start` runs a PostgreSQL of its own in the data folder, and `npm run api` and `npm run worker` do not start',
        ]),
    ...(TEMPORAL_ADDRESS
      ? []
      : [
          'TEMPORAL_ADDRESS is not set: `npm start` runs a development server of Temporal, and `npm run api` and `npm run worker` look for one at 127.0.0.1:7233',
        ]),
  ]
}

/** `places` name the folders of this process. Throws `WrongSettings` with a line for each problem. */
export function readProcessConfig(
  folders: readonly ('FILE_ROOT' | 'LOG_DIR' | 'AUDIT_CHECKPOINT_DIR')[],
): Config {
  const wrong = [
    ...wrongFolders(Object.fromEntries(folders.map((name) => [name, process.env[name]]))),
    ...wrongMail(process.env),
    ...missingPackages(process.env),
    ...wrongTemporalCertificate(process.env),
  ]
  const lines = linesOf(() => readConfig())
  if (wrong.length + lines.length > 0) throw new WrongSettings([...lines, ...wrong])
  return readConfig()
}

/** What the tool `mail_send` needs. `readConfig` checks only whether SMTP_URL is an address. */
function wrongMail({ SMTP_URL: server, MAIL_FROM: sender }: NodeJS.ProcessEnv): string[] {
  return [
    ...(server && /^smtps?:\/\/[^/]/.test(server) && URL.canParse(server)
      ? linesOf(() => parseSmtpUrl(server))
      : []),
    ...(sender ? linesOf(() => parseSender(sender)) : []),
  ]
}

function wrongCertificate({
  TLS_CERT_FILE: certFile,
  TLS_KEY_FILE: keyFile,
}: NodeJS.ProcessEnv): readonly string[] {
  return certFile && keyFile ? linesOf(() => readTlsKeyPair({ certFile, keyFile })) : []
}

/** If only one of the two is set, `readConfig` reports it. */
function wrongTemporalCertificate({
  TEMPORAL_TLS_CERT_FILE: certFile,
  TEMPORAL_TLS_KEY_FILE: keyFile,
}: NodeJS.ProcessEnv): readonly string[] {
  return certFile && keyFile ? linesOf(() => readTlsKeyPair({ certFile, keyFile }, 'TEMPORAL_')) : []
}

/**
 * Ports that the processes of `npm start` would open twice. With DATABASE_URL and without DATA_DIR, the processes may
 * be on different machines: then only `readConfig` compares ports of the API.
 */
function wrongPorts(env: NodeJS.ProcessEnv): readonly string[] {
  if (!withDataFolder(env)['DATA_DIR']) return []
  return clashingPorts(readEnvironment(env), [
    ...apiPorts,
    'WORKER_METRICS_PORT',
    ...(env['DATABASE_URL'] ? [] : (['POSTGRES_PORT'] as const)),
  ])
}

function wrongFolders({ FILE_ROOT, LOG_DIR, DATA_DIR, AUDIT_CHECKPOINT_DIR }: NodeJS.ProcessEnv): string[] {
  return [
    ...(FILE_ROOT ? wrongReadable('FILE_ROOT', FILE_ROOT) : []),
    ...(LOG_DIR ? wrongWritable('LOG_DIR', LOG_DIR) : []),
    ...(AUDIT_CHECKPOINT_DIR ? wrongWritable('AUDIT_CHECKPOINT_DIR', AUDIT_CHECKPOINT_DIR) : []),
    ...(DATA_DIR ? wrongWritable('DATA_DIR', DATA_DIR) : []),
  ]
}

/** `npm start` creates a database there. */
const withDataFolder = (env: NodeJS.ProcessEnv): NodeJS.ProcessEnv =>
  env['DATABASE_URL'] || env['DATA_DIR'] ? env : { ...env, DATA_DIR: '.data' }

/** An installation may leave out the client for AWS. */
function missingPackages({ SECRETS_BACKEND: backend }: NodeJS.ProcessEnv): string[] {
  const name = '@aws-sdk/client-secrets-manager'
  if (backend !== 'aws_secrets_manager' || isInstalled(name)) return []
  return [
    `SECRETS_BACKEND \`${backend}\` needs the package ${name}, which is not installed: run \`npm ci --include=optional\`, or set SECRETS_BACKEND=db`,
  ]
}

function isInstalled(name: string): boolean {
  try {
    import.meta.resolve(name)
    return true
  } catch {
    return false
  }
}

function linesOf(read: () => unknown): readonly string[] {
  try {
    read()
    return []
  } catch (error) {
    return error instanceof WrongSettings ? error.lines : [(error as Error).message]
  }
}

function wrongReadable(name: string, path: string): string[] {
  if (!existsSync(path)) return [`${name} \`${path}\` does not exist: make the folder, or name another one`]
  if (!statSync(path).isDirectory()) return [`${name} \`${path}\` is a file: name a folder`]
  return allows(path, constants.R_OK | constants.X_OK)
    ? []
    : [`${name} \`${path}\` cannot be read by this user: change its owner or mode`]
}

/** A missing folder is created at the start, so its nearest existing parent is checked. */
function wrongWritable(name: string, path: string): string[] {
  let present = resolve(path)
  while (!existsSync(present) && dirname(present) !== present) present = dirname(present)
  if (!statSync(present).isDirectory())
    return [`${name} \`${path}\`: \`${present}\` is a file: name a folder`]
  return canMakeFolderIn(present)
    ? []
    : [
        `${name} \`${path}\`: this user cannot write to \`${present}\`: change its owner or mode, or name another folder`,
      ]
}

/** Tries it: root has all rights in `/proc` and on read-only disks. */
function canMakeFolderIn(folder: string): boolean {
  try {
    rmdirSync(mkdtempSync(join(folder, '.countersign-')))
    return true
  } catch {
    return false
  }
}

function allows(path: string, mode: number): boolean {
  try {
    accessSync(path, mode)
    return true
  } catch {
    return false
  }
}

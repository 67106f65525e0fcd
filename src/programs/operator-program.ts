import { existsSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { z } from 'zod'
import { readConfig } from '../shared/config.ts'
import { createContext } from './create-context.ts'
import type { Context } from '../governance/context.ts'
import { isConnectionError } from '../db/errors.ts'
import { embeddedAppUrl, hasCluster, loadSecrets } from '../stack/secrets.ts'
import { lastPorts } from '../stack/ports.ts'
import { checkpointsName } from '../stack/settings.ts'

export function exitWithUsage(usage: string): never {
  process.stderr.write(`usage: ${usage}\n`)
  process.exit(2)
}

/** Prints a line to standard error. Standard output is only for the result. */
type Say = (line: string) => void

/** Prints the result of an operator's command as JSON. An error is one line on standard error and exit code 1. */
export async function runOperatorProgram(
  work: (context: Context, say: Say) => Promise<unknown>,
): Promise<void> {
  const say: Say = (line) => void process.stderr.write(`${line}\n`)
  try {
    const context = createContext(readConfig(toolEnvironment(process.env, say)), 'tool')
    try {
      await context.pool.query('select 1')
      process.stdout.write(`${JSON.stringify(await work(context, say), null, 2)}\n`)
    } finally {
      await context.close()
    }
  } catch (error) {
    say(`error: ${isConnectionError(error) ? unreachable() : (error as Error).message}`)
    process.exitCode = 1
  }
}

function unreachable(): string {
  const advice = process.env['DATABASE_URL'] ? 'check DATABASE_URL' : 'is `npm start` running?'
  return `the database cannot be reached: ${advice}`
}

const addresses = z.object({
  database_url: z.url(),
  temporal_address: z.string().min(1).optional(),
  temporal_namespace: z.string().min(1).optional(),
})
type Addresses = z.infer<typeof addresses>

/**
 * The environment for an operator's program. Without DATABASE_URL, it gets the database, the Temporal server, the keys,
 * and the folders of logs and checkpoints of `npm start`, from its data folder (`DATA_DIR`, default `.data`); `say`
 * names the database. In production, where that has no bootstrap.json, the addresses are those of the last start.
 * Without such a database, `env` stays, and a later check reports the missing variables. Throws if the folder's files
 * cannot be read.
 */
export function toolEnvironment(env: NodeJS.ProcessEnv, say: (line: string) => void): NodeJS.ProcessEnv {
  if (env['DATABASE_URL']) return env
  const dataDir = resolve(env['DATA_DIR'] || '.data')
  const known = knownAddresses(dataDir)
  if (known === null) {
    say(
      `\`${dataDir}\` has no database of \`npm start\`: run \`npm start\` first, or set DATA_DIR or DATABASE_URL`,
    )
    return env
  }
  const { host, pathname } = new URL(known.database_url)
  say(`using the database of \`${dataDir}\`: ${host}${pathname}; it answers while \`npm start\` runs`)
  const secrets = loadSecrets(dataDir)
  return {
    ...env,
    DATABASE_URL: known.database_url,
    ...given('TEMPORAL_ADDRESS', env['TEMPORAL_ADDRESS'] || known.temporal_address),
    ...given('TEMPORAL_NAMESPACE', env['TEMPORAL_NAMESPACE'] || known.temporal_namespace),
    DATA_ENCRYPTION_KEY: env['DATA_ENCRYPTION_KEY'] || secrets.data_encryption_key,
    SESSION_SECRET_KEY: env['SESSION_SECRET_KEY'] || secrets.session_secret_key,
    ...given(
      'LOG_DIR',
      env['LOG_DIR'] || (env['APP_ENV'] === 'production' ? undefined : join(dataDir, 'logs')),
    ),
    AUDIT_CHECKPOINT_DIR: env['AUDIT_CHECKPOINT_DIR'] || join(dataDir, checkpointsName),
  }
}

const given = (name: string, value: string | undefined): NodeJS.ProcessEnv =>
  value === undefined ? {} : { [name]: value }

function knownAddresses(dataDir: string): Addresses | null {
  const path = join(dataDir, 'bootstrap.json')
  if (existsSync(path)) return readAddresses(path)
  const { postgres, temporal } = lastPorts(dataDir)
  if (postgres === undefined || !hasCluster(dataDir)) return null
  const address = temporal === undefined ? {} : { temporal_address: `127.0.0.1:${temporal}` }
  const { postgres_app_password: password } = loadSecrets(dataDir)
  return { database_url: embeddedAppUrl(postgres, password), ...address }
}

function readAddresses(path: string): Addresses {
  try {
    return addresses.parse(JSON.parse(readFileSync(path, 'utf8')))
  } catch (error) {
    throw new Error(`\`${path}\` names no database: start the stack again, or set DATABASE_URL`, {
      cause: error,
    })
  }
}

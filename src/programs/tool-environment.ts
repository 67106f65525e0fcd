import { existsSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { z } from 'zod'
import { embeddedAppUrl, hasCluster } from '../stack/embedded-url.ts'
import { lastPorts } from '../stack/last-ports.ts'
import { loadSecrets } from '../stack/secrets.ts'
import { checkpointsName } from '../stack/settings.ts'

const addresses = z.object({
  database_url: z.url(),
  temporal_address: z.string().min(1).optional(),
  temporal_namespace: z.string().min(1).optional(),
})
type Addresses = z.infer<typeof addresses>

/**
 * Returns the environment for an operator's program.
 * - If DATABASE_URL is set, returns `env` unchanged.
 * - Otherwise adds the database, the Temporal server, the keys, and the folders of logs and checkpoints of `npm start`.
 *   These values come from its data folder (`DATA_DIR`, default `.data`). `say` gets a line that names the database,
 *   without its password.
 * - In production the data folder has no bootstrap.json. Then the addresses are those of the last start.
 * - If the data folder has no database of `npm start`, says so and returns `env` unchanged. A later check reports the
 *   missing variables.
 * Throws if the folder's files cannot be read.
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

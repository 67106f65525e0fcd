import { randomBytes } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { writeFileAtomic } from './files.ts'

/** `DATA_DIR/secrets.json`: created once, never printed, and readable only by its owner. */
export interface Secrets {
  readonly postgres_superuser_password: string
  readonly postgres_owner_password: string
  readonly postgres_app_password: string
  /** 32 random bytes, base64. */
  readonly data_encryption_key: string
  readonly session_secret_key: string
}

const makers: { readonly [K in keyof Secrets]: () => string } = {
  postgres_superuser_password: () => randomBytes(24).toString('base64url'),
  postgres_owner_password: () => randomBytes(24).toString('base64url'),
  postgres_app_password: () => randomBytes(24).toString('base64url'),
  data_encryption_key: () => randomBytes(32).toString('base64'),
  session_secret_key: () => randomBytes(32).toString('base64url'),
}

/** Throws if the file cannot be read, or is missing beside a database, which new secrets could not open. */
export function loadSecrets(dataDir: string): Secrets {
  const path = join(dataDir, 'secrets.json')
  const known = readKnown(path)
  if (known === null && hasCluster(dataDir))
    throw new Error(
      `\`${path}\` is missing, and the database beside it cannot be opened without it: restore the file, or remove the data folder to start afresh`,
    )
  const secrets = { ...known } as { -readonly [K in keyof Secrets]: string }
  let made = false
  for (const name of Object.keys(makers) as (keyof Secrets)[]) {
    if (typeof secrets[name] === 'string' && secrets[name] !== '') continue
    secrets[name] = makers[name]()
    made = true
  }
  if (made) writeFileAtomic(path, `${JSON.stringify(secrets, null, 2)}\n`, 0o600)
  return secrets
}

function readKnown(path: string): Partial<Secrets> | null {
  if (!existsSync(path)) return null
  try {
    return JSON.parse(readFileSync(path, 'utf8')) as Partial<Secrets>
  } catch (error) {
    throw new Error(`\`${path}\` cannot be read: restore it from a backup`, { cause: error })
  }
}

/** Whether the data folder has a PostgreSQL cluster of `npm start`. */
export const hasCluster = (dataDir: string): boolean => existsSync(join(dataDir, 'postgres', 'PG_VERSION'))

export const embeddedUrl = (port: number, user: string, password: string, database: string): string =>
  `postgresql://${user}:${encodeURIComponent(password)}@127.0.0.1:${port}/${database}`

export const embeddedAppUrl = (port: number, password: string): string =>
  embeddedUrl(port, 'countersign_app', password, 'countersign')

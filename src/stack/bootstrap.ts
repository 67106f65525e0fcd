import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { z } from 'zod'
import { writeFileAtomic, type Log } from './files.ts'
import type { StackSettings } from './settings.ts'

const user = z.object({ user_id: z.string(), email: z.string(), password: z.string(), api_key: z.string() })

const identities = z.object({
  organization_id: z.string(),
  users: z.object({ owner: user, admin: user, approver: user, member: user, viewer: user }),
  /** A key of `member`. Its only scope is `agents:authorize`. */
  agent_key: z.string(),
})

/** The people of the first organization. They are created once, at the first start of an embedded database. */
export type Identities = z.infer<typeof identities>

/**
 * Writes `DATA_DIR/bootstrap.json` atomically and for its owner alone. With `made` null, the identities in the existing
 * file stay. Returns false and logs a line if there are none: the database has passwords and keys only as hashes, so
 * lost ones cannot be recovered.
 */
export function writeBootstrap(
  dataDir: string,
  addresses: Readonly<Record<string, string | null>>,
  made: Identities | null,
  log: Log,
): boolean {
  const path = join(dataDir, 'bootstrap.json')
  const known = made ?? readIdentities(path)
  writeFileAtomic(path, `${JSON.stringify({ ...addresses, ...known }, null, 2)}\n`, 0o600)
  if (known !== null) return true
  log(`${path} contains only addresses: its passwords and keys were removed and exist nowhere else`)
  return false
}

/** null if the file is missing or has no valid identities. */
function readIdentities(path: string): Identities | null {
  if (!existsSync(path)) return null
  try {
    return identities.parse(JSON.parse(readFileSync(path, 'utf8')))
  } catch {
    return null
  }
}

/** Lines for a person who has just started the service, without passwords and keys. */
export function firstSteps(
  { publicUrl, database, production }: Pick<StackSettings, 'publicUrl' | 'database' | 'production'>,
  dataDir: string,
  baseUrl: string,
): string[] {
  const consoleLine = `console: ${new URL('/console/', publicUrl ?? baseUrl).href}`
  if (database !== null)
    return [
      consoleLine,
      'first owner: `npm run create-owner -- EMAIL` makes one, with a password and an API key',
    ]
  const path = join(dataDir, 'bootstrap.json')
  if (production || readIdentities(path) === null) return [consoleLine]
  return [consoleLine, `sign in: ${path} has five people with their passwords and API keys`]
}

import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { z } from 'zod'
import { writeFileAtomic, type Log } from './files.ts'

/** One person of the first organization, with their password and API key. */
const user = z.object({ user_id: z.string(), email: z.string(), password: z.string(), api_key: z.string() })

const identities = z.object({
  organization_id: z.string(),
  users: z.object({ owner: user, admin: user, approver: user, member: user, viewer: user }),
  /** An API key of `member`. Its only scope is `agents:authorize`. */
  agent_key: z.string(),
})

/** The people of the first organization. They are created once, at the first start of an embedded database. */
export type Identities = z.infer<typeof identities>

/** The values that can change with every start. */
export interface Addresses {
  readonly base_url: string
  readonly console_url: string
  /** Is null if this stack has not started the Temporal server. */
  readonly temporal_ui_url: string | null
  /** The API's metrics, for Prometheus. */
  readonly metrics_url: string
  readonly worker_metrics_url: string
  /** Connects as the application's role. */
  readonly database_url: string
  /** Connects as the superuser, to the same database as `database_url`. */
  readonly database_admin_url: string
  readonly temporal_address: string
  readonly temporal_namespace: string
}

/**
 * Writes `DATA_DIR/bootstrap.json` atomically. Only the owner of the file can read the file. A first start gives its
 * new identities in `made`. If `made` is null, the identities in the existing file stay. If the written file has no
 * identities, logs a line and returns false. The database stores passwords and keys only as hashes, so lost passwords
 * and keys cannot be recovered.
 */
export function writeBootstrap(
  dataDir: string,
  addresses: Addresses,
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

/** Reads the identities in an existing file. Returns null if the file is missing or has no valid identities. */
export function readIdentities(path: string): Identities | null {
  if (!existsSync(path)) return null
  try {
    return identities.parse(JSON.parse(readFileSync(path, 'utf8')))
  } catch {
    return null
  }
}

import { execFileSync } from 'node:child_process'
import { chmodSync, chownSync, readFileSync, readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'

/*
 * PostgreSQL refuses to run as root, the usual account in containers and on fresh machines. If we run as root,
 * PostgreSQL is started in one of two ways:
 * - In a user namespace. In this namespace, our account has another number. No account is created and no file changes
 *   its owner, so a folder that only root can enter works too.
 * - As an existing unprivileged account, if namespaces are not allowed. This account becomes the owner of the cluster's
 *   files.
 */

/** How PostgreSQL's programs are started, so that they do not run as root. */
export interface Account {
  /** The command that starts the program, with its arguments. Is empty if the program is started directly. */
  readonly wrap: readonly string[]
  readonly uid?: number
  readonly gid?: number
}

interface Entry {
  readonly uid: number
  readonly gid: number
}

const names = ['postgres', 'nobody']

/** The facts about the system. The choice of the account depends on these facts. Tests pass other facts. */
export interface System {
  readonly uid: number | undefined
  /** The content of /etc/passwd. */
  accounts(): string
  /** Whether this command runs and succeeds. */
  works(command: readonly string[]): boolean
}

const thisSystem: System = {
  uid: process.getuid?.(),
  accounts: () => readFileSync('/etc/passwd', 'utf8'),
  works,
}

/**
 * Chooses the account for a cluster folder, which may not exist yet. Throws if we are root and no account `postgres` or
 * `nobody` exists. The error says what to do.
 */
export function accountFor(cluster: string, system: System = thisSystem): Account {
  if (system.uid !== 0) return { wrap: [] }
  const entry = unprivileged(system.accounts())
  if (entry === null) {
    throw new Error(
      'PostgreSQL does not run as root and no account `postgres` or `nobody` exists: start as another user, or set DATABASE_URL',
    )
  }
  const owner = statSync(cluster, { throwIfNoEntry: false })?.uid ?? 0
  const wrap = ['unshare', '--user', `--map-user=${entry.uid}`, `--map-group=${entry.gid}`, '--']
  if (owner === 0 && system.works([...wrap, 'true'])) return { wrap }
  return { wrap: [], ...entry }
}

/**
 * Makes the account the owner of `folder` and of its content, and lets every account enter the folder `above`. Does
 * nothing if PostgreSQL runs as our own account.
 */
export function giveTo(account: Account, folder: string, above: string): void {
  const { uid, gid } = account
  if (uid === undefined || gid === undefined) return
  chmodSync(above, statSync(above).mode | 0o011)
  const visit = (path: string): void => {
    chownSync(path, uid, gid)
    if (statSync(path).isDirectory()) for (const name of readdirSync(path)) visit(join(path, name))
  }
  visit(folder)
}

function unprivileged(accounts: string): Entry | null {
  const lines = accounts.split('\n')
  for (const name of names) {
    const fields = lines.find((line) => line.startsWith(`${name}:`))?.split(':')
    if (fields !== undefined) return { uid: Number(fields[2]), gid: Number(fields[3]) }
  }
  return null
}

function works(command: readonly string[]): boolean {
  try {
    execFileSync(command[0] ?? '', command.slice(1), { stdio: 'ignore', timeout: 5_000 })
    return true
  } catch {
    return false
  }
}

import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as delay } from 'node:timers/promises'
import { promisify } from 'node:util'
import { sharedCache } from '../../src/stack/temporal-binary.ts'

const run = promisify(execFile)

/**
 * Returns the folder `node_modules` with the packages of a package-lock.json. `pins` is the folder of this file and its
 * package.json. If the packages are missing, installs them in the checkout's cache under `name`. npm checks the
 * packages against the hashes in the lock file, and runs none of their scripts. Throws if the packages cannot be
 * installed.
 */
export async function installPinned(pins: string, name: string): Promise<string> {
  const lock = readFileSync(join(pins, 'package-lock.json'))
  const version = createHash('sha256').update(lock).digest('hex').slice(0, 16)
  const folder = join(sharedCache(), `${name}-${version}`)
  if (!existsSync(folder)) await alone(name, () => fill(pins, folder))
  return join(folder, 'node_modules')
}

/**
 * Runs `work` while nobody else, in this process or another one, runs work for this `name`. Otherwise the same large
 * installation would be made several times. SQLite holds the lock, so a crash leaves no lock behind. SQLite itself would
 * wait without letting this process do anything else, also when this process holds the lock.
 */
async function alone(name: string, work: () => Promise<void>): Promise<void> {
  mkdirSync(sharedCache(), { recursive: true })
  const lock = new DatabaseSync(join(sharedCache(), `${name}.lock`))
  try {
    while (!isLocked(lock)) await delay(100)
    await work()
  } finally {
    lock.close()
  }
}

function isLocked(lock: DatabaseSync): boolean {
  try {
    lock.exec('begin exclusive')
    return true
  } catch (error) {
    if ((error as { errcode?: number }).errcode !== 5) throw error // 5: SQLITE_BUSY
    return false
  }
}

async function fill(pins: string, folder: string): Promise<void> {
  // Another process may have installed the packages while this one waited.
  if (existsSync(folder)) return
  const draft = mkdtempSync(join(sharedCache(), '.pinned-'))
  try {
    cpSync(pins, draft, { recursive: true })
    const options = ['--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error']
    await run('npm', ['ci', ...options], { cwd: draft, timeout: 600_000 })
    renameSync(draft, folder)
  } finally {
    rmSync(draft, { recursive: true, force: true })
  }
}

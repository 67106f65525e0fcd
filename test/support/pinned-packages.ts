import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { promisify } from 'node:util'
import { sharedCache } from '../../src/stack/pinned-program.ts'

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
 * Runs `work` while no other process runs its work for this `name`. Otherwise several processes would make the same
 * large installation. SQLite holds the lock, so a crash leaves no lock behind.
 */
async function alone(name: string, work: () => Promise<void>): Promise<void> {
  mkdirSync(sharedCache(), { recursive: true })
  const lock = new DatabaseSync(join(sharedCache(), `${name}.lock`), { timeout: 300_000 })
  try {
    lock.exec('begin exclusive')
    await work()
  } finally {
    lock.close()
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

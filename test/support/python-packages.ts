import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { sharedCache } from '../../src/stack/temporal-binary.ts'

const run = promisify(execFile)

/**
 * Returns a folder for PYTHONPATH with the packages of a requirements.txt. The file pins the packages by hash. If the
 * packages are missing, installs them in the checkout's cache under `name`. Changes no Python environment. Needs pip
 * and Python 3.11 or newer.
 */
export async function installPythonPackages(requirements: string, name: string): Promise<string> {
  const version = createHash('sha256').update(readFileSync(requirements)).digest('hex').slice(0, 16)
  const folder = join(sharedCache(), `${name}-${version}`)
  if (existsSync(folder)) return folder
  mkdirSync(sharedCache(), { recursive: true })
  const draft = mkdtempSync(join(sharedCache(), `.${name}-`))
  try {
    const options = ['--require-hashes', '--only-binary', ':all:', '--no-deps', '--no-input', '--quiet']
    const place = ['--disable-pip-version-check', '--target', draft]
    await run('python3', ['-m', 'pip', 'install', ...options, ...place, '-r', requirements], {
      timeout: 300_000,
    })
    renameSync(draft, folder)
  } catch (error) {
    // The error does not matter if another test file has installed the same packages meanwhile.
    if (!existsSync(folder)) throw error
  } finally {
    rmSync(draft, { recursive: true, force: true })
  }
  return folder
}

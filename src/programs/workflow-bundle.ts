import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { bundleWorkflowCode, type Logger } from '@temporalio/worker'

/** The folder `src`, or the build's copy of it. */
const here = join(dirname(fileURLToPath(import.meta.url)), '..')
/** All folders from which `workflows` imports. */
const sources = ['workflows', 'contract', 'policy', 'tools']

/** The build's bundle; without a build, one of the sources, cached until they or the SDK change. */
export async function workflowBundlePath(): Promise<string> {
  const built = join(here, 'workflows.bundle.js')
  if (existsSync(built)) return built
  const cached = join(here, '..', 'node_modules', '.cache', 'countersign', `workflows-${sourceHash()}.js`)
  if (existsSync(cached)) return cached
  const code = await bundleWorkflows(join(here, 'workflows'), 'ts', quiet)
  mkdirSync(dirname(cached), { recursive: true })
  // Another process may write the same file: the rename puts a complete one there.
  const partial = `${cached}.${process.pid}`
  writeFileSync(partial, code)
  renameSync(partial, cached)
  return cached
}

/**
 * All runs of a worker share the loaded modules of the bundle, the SDK's and ours, so that a new run loads no code and
 * a waiting one needs no memory for code. This is safe because no module of the bundle has state.
 */
export async function bundleWorkflows(
  folder: string,
  extension: 'ts' | 'js',
  logger: Logger,
): Promise<string> {
  const pathOf = (name: string): string => join(folder, `${name}.${extension}`)
  const workflowsPath = pathOf('index')
  const preloadModules = [pathOf('no-stacks'), workflowsPath]
  const { code } = await bundleWorkflowCode({ workflowsPath, preloadModules, logger })
  return code
}

function sourceHash(): string {
  const hash = createHash('sha256')
  const { version } = createRequire(import.meta.url)('@temporalio/worker/package.json') as { version: string }
  hash.update(version).update(readFileSync(fileURLToPath(import.meta.url)))
  const files = sources.flatMap((folder) =>
    readdirSync(join(here, folder), { recursive: true, encoding: 'utf8' }).map((file) => join(folder, file)),
  )
  for (const file of files.filter((each) => each.endsWith('.ts')).sort())
    hash.update(file).update(readFileSync(join(here, file)))
  return hash.digest('hex').slice(0, 16)
}

const ignore = (): void => {}
const quiet = {
  log: ignore,
  trace: ignore,
  debug: ignore,
  info: ignore,
  warn: console.error,
  error: console.error,
}

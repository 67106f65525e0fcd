import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { bundleWorkflowCode } from '@temporalio/worker'

const here = dirname(fileURLToPath(import.meta.url))
/** The folders whose code can be in the bundle (design section 2: `workflows` imports only these). */
const sources = ['workflows', 'contract', 'policy', 'catalog']

/**
 * Path of the bundled workflow code: the one that the build made (dist), else bundled from the sources here and kept
 * until they or the SDK change. Production and tests use this one bundle.
 */
export async function workflowBundlePath(): Promise<string> {
  // Not `workflow-bundle.js`: that is this module's own name there.
  const built = join(here, 'workflows.bundle.js')
  if (existsSync(built)) return built
  const cached = join(here, '..', 'node_modules', '.cache', 'countersign', `workflows-${sourceHash()}.js`)
  if (existsSync(cached)) return cached
  const { code } = await bundleWorkflowCode({
    workflowsPath: join(here, 'workflows', 'index.ts'),
    logger: quiet,
  })
  mkdirSync(dirname(cached), { recursive: true })
  // Renamed into place: another process may be doing the same.
  const partial = `${cached}.${process.pid}`
  writeFileSync(partial, code)
  renameSync(partial, cached)
  return cached
}

function sourceHash(): string {
  const hash = createHash('sha256')
  const { version } = createRequire(import.meta.url)('@temporalio/worker/package.json') as { version: string }
  hash.update(version)
  const files = sources.flatMap((folder) =>
    readdirSync(join(here, folder), { recursive: true, encoding: 'utf8' }).map((file) => join(folder, file)),
  )
  for (const file of files.filter((each) => each.endsWith('.ts')).sort())
    hash.update(file).update(readFileSync(join(here, file)))
  return hash.digest('hex').slice(0, 16)
}

const nothing = (): void => {}
const quiet = {
  log: nothing,
  trace: nothing,
  debug: nothing,
  info: nothing,
  warn: console.error,
  error: console.error,
}

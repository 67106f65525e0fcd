/*
 * The guard is started as `node guard-process.ts DATA_DIR [--remove]`. It waits until the pipe on its standard input
 * closes. The pipe also closes if the parent is killed. Then the guard ends all processes that are recorded in the data
 * folder. After a clean stop, no such process is left. With `--remove` (demo and tests), the guard also deletes the
 * folder. The folder may contain other data folders, which have their own guards.
 */
import { existsSync } from 'node:fs'
import { endOrphans } from './guard.ts'
import { removeWhenUnused } from './guarded-folder.ts'

const [dataDir, remove] = process.argv.slice(2)
if (dataDir === undefined) throw new Error('the guard needs a data folder')

// The guard must outlive the processes that it guards. So a closed terminal or Ctrl-C must not end it.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => undefined)

process.stdin.resume()
process.stdin.on('error', () => undefined)
await new Promise<void>((resolve) => process.stdin.once('close', resolve))
if (existsSync(dataDir)) {
  await endOrphans(dataDir, { except: ['guard'] })
  if (remove === '--remove') await removeWhenUnused(dataDir)
}
process.exit(0)

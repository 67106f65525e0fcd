/*
 * `node guard-process.ts DATA_DIR [--remove]` waits until the pipe on its standard input closes, also because the
 * parent is killed. Then it ends all processes that are recorded in the data folder; after a clean stop there are none.
 * With `--remove` (demo and tests), it also deletes the folder, which may contain data folders with guards of their
 * own.
 */
import { existsSync } from 'node:fs'
import { endOrphans, removeWhenUnused } from './guard.ts'

const [dataDir, remove] = process.argv.slice(2)
if (dataDir === undefined) throw new Error('the guard needs a data folder')

// The guard must outlive the processes that it guards, so a closed terminal or Ctrl-C must not end it.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => undefined)

process.stdin.resume()
process.stdin.on('error', () => undefined)
await new Promise<void>((resolve) => process.stdin.once('close', resolve))
if (existsSync(dataDir)) {
  await endOrphans(dataDir, { except: ['guard'] })
  if (remove === '--remove') await removeWhenUnused(dataDir)
}
process.exit(0)

/*
 * The guard: `node guard-process.ts DATA_DIR [--remove]`. Waits until the pipe on its standard input closes, which the
 * system does however the program at the other end died, then ends what is recorded in the data folder. After a clean
 * stop nothing is recorded any more and it just leaves. With `--remove` it deletes the folder too (for the demo and tests),
 * which may hold other folders with a guard of their own.
 */
import { existsSync } from 'node:fs'
import { endOrphans } from './guard.ts'
import { removeWhenUnused } from './guarded-folder.ts'

const [dataDir, remove] = process.argv.slice(2)
if (dataDir === undefined) throw new Error('the guard needs a data folder')

// A closing terminal or an impatient Ctrl-C must not take the guard before what it guards.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => undefined)

process.stdin.resume()
process.stdin.on('error', () => undefined)
await new Promise<void>((resolve) => process.stdin.once('close', resolve))
if (existsSync(dataDir)) {
  await endOrphans(dataDir, { except: ['guard'] })
  if (remove === '--remove') await removeWhenUnused(dataDir)
}
process.exit(0)

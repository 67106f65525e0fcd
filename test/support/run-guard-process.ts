import { globSync, mkdirSync, readdirSync, rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { endOrphans, isOurs, recordedProcesses } from '../../src/stack/guard.ts'

/*
 * `node run-guard-process.ts RUN_FOLDER`: waits until the pipe on its standard input closes, however the program at the
 * other end ended. Then it ends Jest, lets the guards of the servers that tests had started do their work, does it for
 * those that cannot, and removes the folder. It must not be removed earlier: what is to be ended is recorded in it.
 */

/** A whole stack is given 40 s to stop in order. */
const patience = 90_000

const [runFolder] = process.argv.slice(2)
if (runFolder === undefined) throw new Error('the guard needs the run folder')
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => undefined)

process.stdin.resume()
process.stdin.on('error', () => undefined)
await new Promise<void>((resolve) => process.stdin.once('close', resolve))

/** Folders of tests in which something runs; the deepest first. */
function inUse(folder: string): string[] {
  const records = globSync('{*,*/*,*/*/*}/run/*.json', { cwd: folder })
  const folders = [...new Set(records.map((record) => join(folder, dirname(dirname(record)))))]
  return folders
    .filter((each) => {
      try {
        return recordedProcesses(each).some((record) => isOurs(each, record))
      } catch {
        return false // its own guard has just removed it
      }
    })
    .toSorted((a, b) => b.length - a.length)
}

mkdirSync(join(runFolder, 'run'), { recursive: true })
await endOrphans(runFolder)
const deadline = Date.now() + patience
while (inUse(runFolder).length > 0 && Date.now() < deadline) await delay(100)
for (const folder of inUse(runFolder)) await endOrphans(folder)
for (let tries = 0; tries < 10 && !isGone(runFolder); tries++) await delay(200)
process.exit(0)

/** False while somebody who is ending still writes there. */
function isGone(folder: string): boolean {
  try {
    rmSync(folder, { recursive: true, force: true })
    return true
  } catch {
    return readdirSync(folder).length === 0
  }
}

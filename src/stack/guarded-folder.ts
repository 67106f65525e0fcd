import { globSync, readdirSync, rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { endOrphans, isOurs, recordedProcesses } from './guard.ts'

/** For what a guard in a folder below ends: a whole stack is given 40 s to stop in order. In milliseconds. */
const patience = 90_000

/**
 * Removes a folder once nothing that is recorded in a folder below it runs any more: the guards there end it, and what
 * they cannot is ended here. Not earlier, since what is still to be ended is known from those records alone.
 */
export async function removeWhenUnused(folder: string): Promise<void> {
  const deadline = Date.now() + patience
  while (inUse(folder).length > 0 && Date.now() < deadline) await delay(100)
  for (const each of inUse(folder)) await endOrphans(each)
  for (let tries = 0; tries < 10 && !isGone(folder); tries += 1) await delay(200)
}

/** Data folders below this one in which something runs; the deepest first. */
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

/** False while somebody who is ending still writes there. */
function isGone(folder: string): boolean {
  try {
    rmSync(folder, { recursive: true, force: true })
    return true
  } catch {
    return readdirSync(folder).length === 0
  }
}

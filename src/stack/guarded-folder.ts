import { globSync, readdirSync, rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { endOrphans, isOurs, recordedProcesses } from './guard.ts'

/**
 * Milliseconds to wait until the guards of the inner folders have ended their processes. The orderly stop of one stack
 * takes up to 40 s.
 */
const patience = 90_000

/**
 * Removes a folder after all processes that are recorded below it have ended. First waits (up to `patience`) for the
 * guards of inner folders to end their processes. Then ends the processes that still run. The folder must be removed
 * last, because its records say which processes to end.
 */
export async function removeWhenUnused(folder: string): Promise<void> {
  const deadline = Date.now() + patience
  while (inUse(folder).length > 0 && Date.now() < deadline) await delay(100)
  for (const each of inUse(folder)) await endOrphans(each)
  for (let tries = 0; tries < 10 && !isGone(folder); tries += 1) await delay(200)
}

/** Returns the data folders below `folder` that have a running process. The longest path comes first. */
function inUse(folder: string): string[] {
  const records = globSync('{*,*/*,*/*/*}/run/*.json', { cwd: folder })
  const folders = [...new Set(records.map((record) => join(folder, dirname(dirname(record)))))]
  return folders
    .filter((each) => {
      try {
        return recordedProcesses(each).some((record) => isOurs(each, record))
      } catch {
        return false // the guard of this folder has just removed the folder
      }
    })
    .toSorted((a, b) => b.length - a.length)
}

/** Removes the folder. Returns false if a process that has not ended yet still writes there. */
function isGone(folder: string): boolean {
  try {
    rmSync(folder, { recursive: true, force: true })
    return true
  } catch {
    return readdirSync(folder).length === 0
  }
}

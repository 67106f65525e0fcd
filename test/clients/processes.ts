import { existsSync, readFileSync, readdirSync } from 'node:fs'
import type { Place } from './client.ts'

/**
 * The processes that a run has started. They are found by HOME in their environment, because clients put hooks and
 * commands into separate process groups. Empty on a system without /proc.
 */
export function processesOf({ home }: Place): number[] {
  const pids = (existsSync('/proc') ? readdirSync('/proc') : []).filter((name) => /^\d+$/.test(name))
  return pids.map(Number).filter((pid) => {
    try {
      // The environment of a zombie is empty.
      return readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0').includes(`HOME=${home}`)
    } catch {
      return false // the process has ended, or belongs to another account
    }
  })
}

export function endProcessesOf(place: Place): void {
  for (let pids = processesOf(place); pids.length > 0; pids = processesOf(place)) {
    for (const pid of pids) {
      try {
        process.kill(pid, 'SIGKILL')
      } catch {
        // The process has just ended.
      }
    }
  }
}

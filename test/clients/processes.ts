import { existsSync, readFileSync, readdirSync } from 'node:fs'
import type { Place } from './client.ts'

/**
 * The processes that a run has started, by their environment: clients put hooks and commands into groups of their own.
 * None on a system that has no /proc.
 */
export function processesOf({ home }: Place): number[] {
  const pids = (existsSync('/proc') ? readdirSync('/proc') : []).filter((name) => /^\d+$/.test(name))
  return pids.map(Number).filter((pid) => {
    try {
      // A process that has ended and is waited for by nobody yet has an empty one.
      return readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0').includes(`HOME=${home}`)
    } catch {
      return false // it has ended, or belongs to another account
    }
  })
}

export function endProcessesOf(place: Place): void {
  for (let pids = processesOf(place); pids.length > 0; pids = processesOf(place)) {
    for (const pid of pids) {
      try {
        process.kill(pid, 'SIGKILL')
      } catch {
        // it has just ended
      }
    }
  }
}

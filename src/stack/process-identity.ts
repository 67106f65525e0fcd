import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'

/**
 * What tells one process from a later one with the same pid: pids are used again, within minutes on a small machine
 * and always in a restarted container, so a pid alone never says whom a signal would reach.
 */
export interface ProcessIdentity {
  readonly pid: number
  /** Start time as the system counts it: opaque, only compared. */
  readonly startedAt: string
  /** Changes with every boot, since start times are counted from it. */
  readonly boot: string
}

export interface RunningProcess extends ProcessIdentity {
  /** The whole command line, arguments joined by spaces. */
  readonly command: string
}

/** Who has this pid now; null when nobody, when it has ended and only waits to be reaped, or when it cannot be told. */
export function identify(pid: number): RunningProcess | null {
  return process.platform === 'linux' ? fromProc(pid) : fromPs(pid)
}

/** Whether the recorded process still runs, and is not another one that got its pid. */
export function isRunning(recorded: ProcessIdentity): boolean {
  const now = identify(recorded.pid)
  return now !== null && now.startedAt === recorded.startedAt && now.boot === recorded.boot
}

function fromProc(pid: number): RunningProcess | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    // The program's name stands in parentheses and may hold both blanks and parentheses, so count from the last one.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    const state = fields[0]
    const startedAt = fields[19]
    if (startedAt === undefined || state === 'Z' || state === 'X') return null
    const command = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0').join(' ').trim()
    const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()
    return { pid, startedAt, boot, command }
  } catch {
    return null
  }
}

function fromPs(pid: number): RunningProcess | null {
  try {
    const line = execFileSync('ps', ['-o', 'state=,lstart=,command=', '-p', String(pid)], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
      env: { ...process.env, LC_ALL: 'C' },
    }).trim()
    const found = /^(\S+)\s+(\S+\s+\S+\s+\S+\s+\S+\s+\S+)\s+(.*)$/s.exec(line)
    if (found === null || found[1]?.startsWith('Z')) return null
    // A start time with its date does not depend on the boot.
    return { pid, startedAt: found[2] ?? '', boot: '', command: found[3] ?? '' }
  } catch {
    return null
  }
}

import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'

/**
 * Distinguishes a process from a later process with the same pid. A small machine reuses a pid within minutes, and a
 * restarted container always reuses its pids. So a signal to a bare pid could reach the wrong process.
 */
export interface ProcessIdentity {
  readonly pid: number
  /** Start time in the system's own units, used only for comparison. */
  readonly startedAt: string
  /**
   * An id that changes with every boot. It is needed on Linux, where start times count from the boot. Elsewhere it is
   * empty.
   */
  readonly boot: string
}

export interface RunningProcess extends ProcessIdentity {
  /** The whole command line, with arguments joined by spaces. */
  readonly command: string
}

/**
 * Returns the process that has this pid now. Returns null if there is no such process, if the process is a zombie, or
 * if this cannot be determined.
 */
export function identify(pid: number): RunningProcess | null {
  return process.platform === 'linux' ? fromProc(pid) : fromPs(pid)
}

/** Returns whether the recorded process still runs. A later process with the same pid does not count. */
export function isRunning(recorded: ProcessIdentity): boolean {
  const now = identify(recorded.pid)
  return now !== null && now.startedAt === recorded.startedAt && now.boot === recorded.boot
}

function fromProc(pid: number): RunningProcess | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    // The program's name is in parentheses and may contain spaces and parentheses, so count from the last `)`.
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
    // `ps` prints the date of the start, and not the time from the boot to the start. So no boot id is needed.
    return { pid, startedAt: found[2] ?? '', boot: '', command: found[3] ?? '' }
  } catch {
    return null
  }
}

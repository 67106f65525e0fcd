import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'

/**
 * Distinguishes a process from a later process with the same pid. The system reuses pids: on a small machine within
 * minutes, in a restarted container always. So the pid alone does not tell which process would get a signal.
 */
export interface ProcessIdentity {
  readonly pid: number
  /** Start time in the system's own units, used only for comparison. */
  readonly startedAt: string
  /** An id that changes with every boot. It is needed because start times count from the boot. */
  readonly boot: string
}

export interface RunningProcess extends ProcessIdentity {
  /** The whole command line, with arguments joined by spaces. */
  readonly command: string
}

/** The process that has this pid now; null if there is none, if it is a zombie, or if this cannot be determined. */
export function identify(pid: number): RunningProcess | null {
  return process.platform === 'linux' ? fromProc(pid) : fromPs(pid)
}

/** Whether the recorded process still runs and its pid was not reused. */
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
    // `ps` prints the start time with a date, so it does not count from the boot, and no boot id is needed.
    return { pid, startedAt: found[2] ?? '', boot: '', command: found[3] ?? '' }
  } catch {
    return null
  }
}

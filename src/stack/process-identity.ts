import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'

/**
 * Tells a process from a later one with the same pid: a small machine reuses pids within minutes, and a restarted
 * container always does, so a signal to a bare pid could reach the wrong process.
 */
export interface ProcessIdentity {
  readonly pid: number
  /** In the system's own units, for comparison alone. */
  readonly startedAt: string
  /** Changes with every boot. Linux counts start times from the boot; elsewhere it is empty. */
  readonly boot: string
}

export interface RunningProcess extends ProcessIdentity {
  /** The arguments are joined by spaces. */
  readonly command: string
}

/** null if there is no such process, if it is a zombie, or if this cannot be determined. */
export function identify(pid: number): RunningProcess | null {
  return process.platform === 'linux' ? fromProc(pid) : fromPs(pid)
}

/** A later process with the same pid does not count. */
export function isRunning(recorded: ProcessIdentity): boolean {
  const now = identify(recorded.pid)
  return now !== null && now.startedAt === recorded.startedAt && now.boot === recorded.boot
}

function fromProc(pid: number): RunningProcess | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    // The program's name is in parentheses and may contain spaces and parentheses.
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
    // `ps` prints the date of the start, so no boot id is needed.
    return { pid, startedAt: found[2] ?? '', boot: '', command: found[3] ?? '' }
  } catch {
    return null
  }
}

/** Milliseconds of these processes and their descendants. Ended ones count if their parent still runs. */
export function processorTime(pids: readonly number[]): number {
  const all = process.platform === 'linux' ? timesFromProc() : timesFromPs()
  const wanted = new Set(pids)
  // A child may have a lower pid than its parent, so this is repeated until no process is added.
  for (let before = -1; before !== wanted.size;) {
    before = wanted.size
    for (const { pid, parent } of all) if (wanted.has(parent)) wanted.add(pid)
  }
  return all.reduce((sum, { pid, milliseconds }) => sum + (wanted.has(pid) ? milliseconds : 0), 0)
}

interface ProcessTime {
  readonly pid: number
  readonly parent: number
  readonly milliseconds: number
}

/** Linux counts in hundredths of a second, for every program. */
const tick = 10

function timesFromProc(): ProcessTime[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => {
      try {
        const stat = readFileSync(`/proc/${name}/stat`, 'utf8')
        const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
        const ticks = fields.slice(11, 15).reduce((sum, each) => sum + Number(each), 0)
        return [{ pid: Number(name), parent: Number(fields[1]), milliseconds: ticks * tick }]
      } catch {
        return [] // the process has ended
      }
    })
}

function timesFromPs(): ProcessTime[] {
  const lines = execFileSync('ps', ['-A', '-o', 'pid=,ppid=,time='], { encoding: 'utf8' }).split('\n')
  return lines.flatMap((line) => {
    const [, pid, parent, days = 0, hours = 0, minutes, seconds] =
      /^\s*(\d+)\s+(\d+)\s+(?:(\d+)-)?(?:(\d+):)?(\d+):([\d.]+)\s*$/.exec(line) ?? []
    if (pid === undefined) return []
    const total = ((Number(days) * 24 + Number(hours)) * 60 + Number(minutes)) * 60 + Number(seconds)
    return [{ pid: Number(pid), parent: Number(parent), milliseconds: total * 1_000 }]
  })
}

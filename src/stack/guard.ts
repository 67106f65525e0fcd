import { existsSync, mkdirSync, readFileSync, readdirSync, realpathSync, rmSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { Ending } from './child.ts'
import { writeFileAtomic } from './files.ts'
import { identify, isRunning, type ProcessIdentity } from './process-identity.ts'

/*
 * No process may outlive the program that started it. Three mechanisms ensure this:
 * - The API and the worker end when the channel to their parent closes (parent.ts).
 * - A guard process (guard-process.ts) ends all recorded processes when its pipe to the parent closes. The pipe also
 *   closes if the parent is killed. The guard has its own session, so that Ctrl-C does not reach it.
 * - If the guard was killed too, the next start first ends the remaining processes (endOrphans).
 * A record identifies a process by pid, start time and boot. A process gets a signal only if all three values match
 * *and* the command line of the process names the data folder. So no other process ever gets a signal.
 */

/** The order in which processes are ended. A process that uses a service is ended before the service. */
const endings: readonly { role: Role; signals: Ending }[] = [
  { role: 'stack', signals: [['SIGTERM', 40_000], ['SIGKILL', 5_000]] }, // prettier-ignore
  { role: 'guard', signals: [['SIGKILL', 2_000]] },
  { role: 'api', signals: [['SIGTERM', 8_000], ['SIGKILL', 5_000]] }, // prettier-ignore
  { role: 'worker', signals: [['SIGTERM', 8_000], ['SIGKILL', 5_000]] }, // prettier-ignore
  { role: 'temporal', signals: [['SIGTERM', 5_000], ['SIGKILL', 5_000]] }, // prettier-ignore
  // SIGINT asks PostgreSQL for a fast shutdown. SIGQUIT asks for an immediate shutdown. After an immediate shutdown,
  // the next start must recover the data, as after a crash.
  { role: 'postgres', signals: [['SIGINT', 15_000], ['SIGQUIT', 5_000], ['SIGKILL', 5_000]] }, // prettier-ignore
]

/** `stack` is a whole `npm start` that another of our programs has started (the demo, the tests). */
export type Role = 'stack' | 'guard' | 'api' | 'worker' | 'temporal' | 'postgres'

/** A process recorded in `DATA_DIR/run`. */
export interface RecordedProcess extends ProcessIdentity {
  readonly role: Role
}

/** Creates the folder `DATA_DIR/run` and returns its real path. Records and command lines contain only real paths. */
export function runFolder(dataDir: string): string {
  const folder = join(realpathSync(dataDir), 'run')
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  return folder
}

/**
 * Records a process that was just started. Call this in the same event loop turn as the start. Returns null if the
 * process cannot be identified.
 */
export function recordProcess(dataDir: string, role: Role, pid: number): RecordedProcess | null {
  const found = identify(pid)
  // The process has already ended, or this system cannot identify processes. Without a record, no guard ever sends a
  // signal to the process.
  if (found === null) return null
  const record: RecordedProcess = { role, pid, startedAt: found.startedAt, boot: found.boot }
  writeFileAtomic(join(runFolder(dataDir), `${role}.json`), `${JSON.stringify(record)}\n`, 0o600)
  return record
}

/** Deletes the record of an ended process, unless the record names a newer process with the same role. */
export function forgetProcess(dataDir: string, role: Role, pid: number | undefined): void {
  if (!existsSync(dataDir)) return
  const path = join(runFolder(dataDir), `${role}.json`)
  if (readRecord(path)?.pid === pid) rmSync(path, { force: true })
}

/** Every readable record in the data folder. */
export function recordedProcesses(dataDir: string): RecordedProcess[] {
  const folder = runFolder(dataDir)
  return readdirSync(folder)
    .filter((name) => endings.some(({ role }) => name === `${role}.json`))
    .flatMap((name) => readRecord(join(folder, name)) ?? [])
}

/** Whether the recorded process runs and its command line names this data folder. */
export function isOurs(dataDir: string, record: ProcessIdentity): boolean {
  if (!isRunning(record)) return false
  // The command line must contain the folder, or a path in the folder, as a whole word: `/x/.data-2` is not in
  // `/x/.data`.
  const folder = trueName(dataDir).replace(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`)
  return new RegExp(`(^|[\\s=])${folder}(/|\\s|$)`).test(identify(record.pid)?.command ?? '')
}

/**
 * Returns the path of the data folder in command lines. The processes of the folder name this path even after the
 * folder was removed.
 */
function trueName(dataDir: string): string {
  return existsSync(dataDir) ? realpathSync(dataDir) : resolve(dataDir)
}

export interface EndOptions {
  readonly log?: (line: string) => void
  /** Roles to skip. The guard skips its own role. */
  readonly except?: readonly Role[]
}

/**
 * Ends the recorded processes in the order of `endings`, and deletes their records. Ends a process only if it still
 * runs and is certainly ours. Resolves when these processes have ended. Throws an error with the pid if a process
 * survives SIGKILL.
 */
export async function endOrphans(dataDir: string, options: EndOptions = {}): Promise<void> {
  const records = recordedProcesses(dataDir)
  for (const { role, signals } of endings) {
    const record = records.find((candidate) => candidate.role === role)
    if (record === undefined || options.except?.includes(role)) continue
    if (isOurs(dataDir, record)) {
      options.log?.(`ending ${role} (process ${record.pid}), left by an earlier start`)
      await endProcess(dataDir, record, signals)
    }
    forgetProcess(dataDir, role, record.pid)
  }
}

async function endProcess(dataDir: string, record: RecordedProcess, signals: Ending): Promise<void> {
  for (const [signal, patience] of signals) {
    // Checks the process again right before each signal. The process may have ended, and another process may have its
    // pid now.
    if (!isOurs(dataDir, record)) return
    try {
      process.kill(record.pid, signal)
    } catch {
      return
    }
    const deadline = Date.now() + patience
    while (isRunning(record) && Date.now() < deadline) await delay(20)
  }
  if (isRunning(record)) {
    throw new Error(`process ${record.pid} (${record.role}) of an earlier start does not end: end it by hand`)
  }
}

function readRecord(path: string): RecordedProcess | null {
  try {
    const record = JSON.parse(readFileSync(path, 'utf8')) as RecordedProcess
    return Number.isInteger(record.pid) && record.pid > 1 ? record : null
  } catch {
    return null
  }
}

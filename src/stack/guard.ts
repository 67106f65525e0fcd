import { existsSync, mkdirSync, readFileSync, readdirSync, realpathSync, rmSync, globSync } from 'node:fs'
import { join, resolve, dirname } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { spawn, type ChildProcess } from 'node:child_process'
import type { Ending } from './child.ts'
import { writeFileAtomic, programFile } from './files.ts'
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

/** A process that uses a service is ended before the service. */
const endings: readonly { role: Role; signals: Ending }[] = [
  { role: 'stack', signals: [['SIGTERM', 40_000], ['SIGKILL', 5_000]] }, // prettier-ignore
  { role: 'guard', signals: [['SIGKILL', 2_000]] },
  { role: 'api', signals: [['SIGTERM', 8_000], ['SIGKILL', 5_000]] }, // prettier-ignore
  { role: 'worker', signals: [['SIGTERM', 8_000], ['SIGKILL', 5_000]] }, // prettier-ignore
  { role: 'temporal', signals: [['SIGTERM', 5_000], ['SIGKILL', 5_000]] }, // prettier-ignore
  // SIGINT: a fast shutdown. SIGQUIT: an immediate one, after which the next start recovers the data.
  { role: 'postgres', signals: [['SIGINT', 15_000], ['SIGQUIT', 5_000], ['SIGKILL', 5_000]] }, // prettier-ignore
]

/** `stack` is a whole `npm start` that another of our programs has started (the demo, the tests). */
export type Role = 'stack' | 'guard' | 'api' | 'worker' | 'temporal' | 'postgres'

interface RecordedProcess extends ProcessIdentity {
  readonly role: Role
}

/** Records and command lines contain only real paths. */
export function runFolder(dataDir: string): string {
  const folder = join(realpathSync(dataDir), 'run')
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  return folder
}

/**
 * Call this in the same event loop turn as the start. Returns null if the process has ended already or this system
 * cannot identify it: then no guard ever sends it a signal.
 */
export function recordProcess(dataDir: string, role: Role, pid: number): RecordedProcess | null {
  const found = identify(pid)
  if (found === null) return null
  const record: RecordedProcess = { role, pid, startedAt: found.startedAt, boot: found.boot }
  writeFileAtomic(join(runFolder(dataDir), `${role}.json`), `${JSON.stringify(record)}\n`, 0o600)
  return record
}

/** Deletes the record, unless it names a newer process with the same role. */
export function forgetProcess(dataDir: string, role: Role, pid: number | undefined): void {
  if (!existsSync(dataDir)) return
  const path = join(runFolder(dataDir), `${role}.json`)
  if (readRecord(path)?.pid === pid) rmSync(path, { force: true })
}

export function recordedProcesses(dataDir: string): RecordedProcess[] {
  const folder = runFolder(dataDir)
  return readdirSync(folder)
    .filter((name) => endings.some(({ role }) => name === `${role}.json`))
    .flatMap((name) => readRecord(join(folder, name)) ?? [])
}

/** Whether the recorded process runs and its command line names this data folder. */
export function isOurs(dataDir: string, record: ProcessIdentity): boolean {
  if (!isRunning(record)) return false
  // As a whole word: `/x/.data-2` is not in `/x/.data`.
  const folder = trueName(dataDir).replace(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`)
  return new RegExp(`(^|[\\s=])${folder}(/|\\s|$)`).test(identify(record.pid)?.command ?? '')
}

/** The path in command lines. The folder's processes name it even after the folder was removed. */
function trueName(dataDir: string): string {
  return existsSync(dataDir) ? realpathSync(dataDir) : resolve(dataDir)
}

interface EndOptions {
  readonly log?: (line: string) => void
  readonly except?: readonly Role[]
}

/**
 * Ends the recorded processes that are certainly ours in the order of `endings`, and deletes the records. Throws an
 * error with the pid if one survives SIGKILL.
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
    // The process may have ended, and another one may have its pid now.
    if (!isOurs(dataDir, record)) return
    try {
      process.kill(record.pid, signal)
    } catch {
      return
    }
    const deadline = Date.now() + patience
    while (isRunning(record) && Date.now() < deadline) await delay(20)
  }
  if (isRunning(record))
    throw new Error(`process ${record.pid} (${record.role}) of an earlier start does not end: end it by hand`)
}

function readRecord(path: string): RecordedProcess | null {
  try {
    const record = JSON.parse(readFileSync(path, 'utf8')) as RecordedProcess
    return Number.isInteger(record.pid) && record.pid > 1 ? record : null
  } catch {
    return null
  }
}

export interface Guard {
  /** Resolves when the guard has ended all recorded processes and itself. */
  close(): Promise<void>
}

/** Starts the guard process of a data folder (guard.ts). If it dies, it is started again. */
export function startGuard(dataDir: string, options: { remove?: boolean } = {}): Guard {
  const folder = realpathSync(dataDir)
  let closing = false
  let child: ChildProcess
  const start = (): void => {
    child = spawn(
      process.execPath,
      [
        programFile('./guard-process', import.meta.url),
        folder,
        ...(options.remove === true ? ['--remove'] : []),
      ],
      // A session of its own, so that a signal to our process group does not reach it.
      { detached: true, stdio: ['pipe', 'ignore', 'ignore'], cwd: '/' },
    )
    child.stdin?.on('error', () => undefined)
    if (child.pid !== undefined) recordProcess(folder, 'guard', child.pid)
    child.once('exit', () => {
      if (!closing) start()
    })
    child.once('error', () => undefined)
  }
  start()
  return {
    close: () =>
      new Promise((resolve) => {
        closing = true
        const done = (): void => {
          forgetProcess(folder, 'guard', child.pid)
          resolve()
        }
        if (child.exitCode !== null || child.signalCode !== null) return done()
        child.once('exit', done)
        child.stdin?.end()
      }),
  }
}

/** Milliseconds. The orderly stop of one stack takes up to 40 s. */
const patience = 90_000

/**
 * Waits (up to `patience`) for the guards of inner folders to end their processes, ends what still runs, and removes
 * the folder last, because its records say which processes to end.
 */
export async function removeWhenUnused(folder: string): Promise<void> {
  const deadline = Date.now() + patience
  while (inUse(folder).length > 0 && Date.now() < deadline) await delay(100)
  for (const each of inUse(folder)) await endOrphans(each)
  for (let tries = 0; tries < 10 && !isGone(folder); tries += 1) await delay(200)
}

/** Data folders with a running process, the longest path first. */
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

/** False if a process that has not ended yet still writes there. */
function isGone(folder: string): boolean {
  try {
    rmSync(folder, { recursive: true, force: true })
    return true
  } catch {
    return readdirSync(folder).length === 0
  }
}

import { spawn, type ChildProcess } from 'node:child_process'
import { realpathSync } from 'node:fs'
import { programFile } from './files.ts'
import { forgetProcess, recordProcess } from './guard.ts'

export interface Guard {
  /** Asks the guard to end. Resolves when the guard has ended all recorded processes and itself. */
  close(): Promise<void>
}

export interface GuardOptions {
  /** Whether the guard deletes the data folder at the end. */
  readonly remove?: boolean
}

/** Starts the guard process of a data folder (see guard.ts). If the guard dies, it is started again. */
export function startGuard(dataDir: string, options: GuardOptions = {}): Guard {
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
      // The guard has its own session, so that a signal to our process group does not reach it.
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

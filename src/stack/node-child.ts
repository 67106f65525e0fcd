import { fork } from 'node:child_process'
import { setTimeout as delay } from 'node:timers/promises'
import { running, type Running } from './child.ts'
import { forgetProcess, recordProcess, type Role } from './guard.ts'
import { drainTime } from './parent.ts'

export interface ProgramOptions {
  readonly role: Extract<Role, 'api' | 'worker'>
  /** The program's file. */
  readonly file: string
  readonly dataDir: string
  readonly env: NodeJS.ProcessEnv
}

export interface RunningProgram extends Running {
  /** Where it listens, if it said so. */
  readonly port: number | null
}

const readyTime = 60_000

/**
 * What our processes tell V8; `npm run api` and `npm run worker` say the same. 16 MiB of space for young objects, of each
 * thread: left alone it grows to 64 and is never given back. And that young objects are never made among the old ones:
 * V8 guesses from a moment's load which will live long, what is guessed wrongly keeps everything it refers to alive until a
 * full collection, and each collection of young ones takes three times as long (docs/decisions/0052). The API collects with
 * one thread beside its own: with V8's four each full collection took two cores from everybody else (docs/decisions/0062).
 */
const everywhere = ['--max-semi-space-size=16', '--no-allocation-site-pretenuring'] as const
export const v8Flags = { api: [...everywhere, '--v8-pool-size=1'], worker: everywhere } as const

/**
 * Starts one of our own programs and resolves once it has called `signalReady` (parent.ts). Fails when it ends before,
 * or is not ready within a minute. What it prints goes to standard error, since standard output is the progress's.
 */
export async function startProgram({ role, file, dataDir, env }: ProgramOptions): Promise<RunningProgram> {
  // The data folder stands in the command line so that the process is known to be ours (guard.ts).
  const child = fork(file, ['--data-dir', dataDir], {
    env,
    stdio: ['ignore', 2, 2, 'ipc'],
    execArgv: [...process.execArgv, ...v8Flags[role]],
  })
  if (child.pid !== undefined) recordProcess(dataDir, role, child.pid)
  const ready = new Promise<number | null>((resolve) => {
    child.on('message', (message) => {
      const said = message as { ready?: unknown; port?: unknown } | null
      if (said?.ready === true) resolve(typeof said.port === 'number' ? said.port : null)
    })
  })
  const started = await running(child, file, [['SIGTERM', drainTime + 5_000], ['SIGKILL', 5_000]]) // prettier-ignore
  void started.exited.then(() => forgetProcess(dataDir, role, child.pid))
  const port = await Promise.race([
    ready,
    started.exited.then(
      (how) => new Error(`${role} ended before it was ready (${how}), see its messages above`),
    ),
    delay(readyTime, new Error(`${role} was not ready within ${readyTime / 1_000} s`), { ref: false }),
  ])
  if (port instanceof Error) {
    await started.stop(AbortSignal.abort())
    throw port
  }
  return { ...started, port }
}

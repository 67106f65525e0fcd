import { fork } from 'node:child_process'
import { running, type Running } from './child.ts'
import { forgetProcess, recordProcess, type Role } from './guard.ts'
import { drainTime } from './parent.ts'
import { Patience } from './patience.ts'

export interface ProgramOptions {
  readonly role: Extract<Role, 'api' | 'worker'>
  readonly file: string
  readonly dataDir: string
  readonly env: NodeJS.ProcessEnv
}

export interface RunningProgram extends Running {
  /** Is null if the program reported no port. */
  readonly port: number | null
}

/**
 * V8 flags of our processes. `npm run api` and `npm run worker` use the same flags.
 * - The young generation is limited to 16 MiB per thread. By default, the young generation grows to 64 MiB and never
 *   shrinks.
 * - Pretenuring is off. With pretenuring, V8 guesses which new objects will live long. A wrongly guessed object keeps
 *   everything that it refers to alive until a full collection. This makes young collections three times slower.
 * - The API uses one extra thread for collections. With the four threads of V8's default, each full collection takes
 *   two cores from other work (docs/performance.md#v8).
 */
const everywhere = ['--max-semi-space-size=16', '--no-allocation-site-pretenuring'] as const
export const v8Flags = { api: [...everywhere, '--v8-pool-size=1'], worker: everywhere } as const

/**
 * Starts one of our programs. Resolves once the program has called `signalReady` (parent.ts). Throws if the program
 * ends before this call, or if the stack stands still for a minute before it. The output of the program goes to standard error, because our
 * standard output is for progress.
 */
export async function startProgram({ role, file, dataDir, env }: ProgramOptions): Promise<RunningProgram> {
  // The data folder in the command line identifies the process as ours (guard.ts).
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
  const done = new AbortController()
  const port = await Promise.race([
    ready,
    started.exited.then(
      (how) => new Error(`${role} ended before it was ready (${how}), see its messages above`),
    ),
    new Patience(dataDir).over(done.signal).then(() => new Error(`${role} stands still, and is not ready`)),
  ]).finally(() => done.abort())
  if (port instanceof Error) {
    await started.stop(AbortSignal.abort())
    throw port
  }
  return { ...started, port }
}

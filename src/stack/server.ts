import { spawn, fork } from 'node:child_process'
import { closeSync, readFileSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import { running, type Ending, type Running } from './child.ts'
import { serverLog } from './files.ts'
import { forgetProcess, recordProcess, type Role } from './guard.ts'
import { Patience } from './healthy.ts'
import { drainTime } from './parent.ts'

interface Server extends Running {
  said(): string
}

interface ServerOptions {
  readonly role: 'postgres' | 'temporal'
  readonly dataDir: string
  readonly logFolder: string
  readonly cwd: string
  readonly env: NodeJS.ProcessEnv
  readonly uid?: number
  readonly gid?: number
}

/** Detached, so that Ctrl-C does not stop a server before the API and the worker. */
export async function startServer(
  { role, dataDir, logFolder, ...options }: ServerOptions,
  [program = '', ...args]: readonly string[],
  ending: Ending,
): Promise<Server> {
  const { path, file, from, stop } = serverLog(logFolder, role)
  const child = spawn(program, args, { ...options, detached: true, stdio: ['ignore', file, file] })
  closeSync(file)
  if (child.pid !== undefined) recordProcess(dataDir, role, child.pid)
  const started = await running(child, program, ending)
  void started.exited.then(() => {
    stop()
    forgetProcess(dataDir, role, child.pid)
  })
  return { ...started, said: () => readFileSync(path).subarray(from).toString('utf8') }
}

/** null once it answers. If it ends or stands still first, its last lines and the last error. */
export async function failureOf(
  server: Server,
  dataDir: string,
  ask: () => Promise<unknown>,
): Promise<string | null> {
  let last = ''
  const patience = new Patience(dataDir, { said: () => server.said().length })
  while (!server.gone() && !patience.isOver()) {
    try {
      await ask()
      return null
    } catch (error) {
      last = (error as Error).message
      await delay(30)
    }
  }
  return `${server.said().split('\n').slice(-20).join('\n')}\n${last}`.trim()
}

interface ProgramOptions {
  readonly role: Extract<Role, 'api' | 'worker'>
  readonly file: string
  readonly dataDir: string
  readonly env: NodeJS.ProcessEnv
}

interface RunningProgram extends Running {
  readonly port: number | null
}

/**
 * V8 flags of our processes, as in `npm run api` and `npm run worker`.
 * - The young generation grows to 64 MiB per thread by default and never shrinks: at most 16 MiB here.
 * - Pretenuring guesses which new objects will live long. A wrong guess keeps everything that the object refers to
 *   until a full collection, which makes young collections three times slower.
 * - Full collections of the API take one extra thread: V8's four would take two cores from other work
 *   (docs/performance.md#v8).
 */
const everywhere = ['--max-semi-space-size=16', '--no-allocation-site-pretenuring'] as const
export const v8Flags = { api: [...everywhere, '--v8-pool-size=1'], worker: everywhere } as const

/**
 * Resolves once the program has called `signalReady` (parent.ts). Throws if it ends before, or if the stack stands
 * still for a minute. Its output goes to standard error, because our standard output is for progress.
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

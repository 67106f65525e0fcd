import { spawn } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import {
  endOrphans,
  forgetProcess,
  isOurs,
  recordedProcesses,
  recordProcess,
  type Role,
} from '../../src/stack/guard.ts'
import { identify, isRunning, type ProcessIdentity } from '../../src/stack/process-identity.ts'
import { until } from '../stack/until.ts'
import type { Bootstrap } from './client.ts'
import { databaseFolder, guardedFolder } from './postgres.ts'
import { programEnv } from './program-env.ts'

export interface StackHome {
  readonly dataDir: string
  /** Ends the processes that still run in the folder, and removes it. */
  remove(): Promise<void>
}

/**
 * Makes a data folder for `startStack`, with a guard. Even if the test process is killed, neither the stack nor the
 * folder stays behind.
 */
export function stackHome(): StackHome {
  const { dataDir: outer, guard } = guardedFolder(databaseFolder())
  const dataDir = join(outer, 'data')
  mkdirSync(dataDir)
  return {
    dataDir,
    remove: async () => {
      // First, a stack that still runs is asked to stop. Then the processes that a killed stack may have left are
      // ended.
      await endOrphans(outer, { except: ['guard'] })
      await endOrphans(dataDir)
      await guard.close()
    },
  }
}

export interface StartedStack {
  readonly dataDir: string
  readonly pid: number
  readonly baseUrl: string
  /** Everything that the stack has printed so far. */
  output(): string
  /** Returns the present content of bootstrap.json. */
  bootstrap<T>(): T
  /** The recorded processes that are running now. */
  processes(): { role: Role; pid: number }[]
  /** Resolves when the stack has ended, with its exit code or the name of the signal. */
  readonly exited: Promise<number | string>
  /**
   * Sends SIGTERM or the given signal. When the process has ended, resolves with the exit code or the name of the
   * signal.
   */
  stop(signal?: NodeJS.Signals): Promise<number | string>
  /**
   * Sends SIGKILL, and resolves when the killed processes have ended. `all` means the supervisor, its guard and every
   * part at once.
   */
  kill9(what: 'supervisor' | 'all' | Role): Promise<void>
}

export interface StackOptions {
  /** The data folder, from `stackHome`. */
  readonly dataDir: string
  readonly env?: Readonly<Record<string, string>>
  /** The program to run. The default is the program of `npm start`. */
  readonly entry?: string
  /** Starts the program through a shell, as npm does. `pid` is then the process id of the shell. */
  readonly shell?: boolean
}

const main = fileURLToPath(new URL('../../src/programs/main.ts', import.meta.url))

/**
 * Runs `npm start` on the data folder and waits for its `ready` line. If the stack ends first, throws an error with the
 * whole output.
 */
export async function startStack(options: StackOptions): Promise<StartedStack> {
  const { dataDir, env = {}, entry = main, shell = false } = options
  const outer = join(dataDir, '..')
  const [program, ...args] = [process.execPath, entry, '--data-dir', dataDir]
  // `exit` is a second command, so that the shell does not replace itself with the program.
  const inShell = ['-c', `"$@"; exit $?`, 'sh', program, ...args]
  const child = spawn(shell ? 'sh' : program, shell ? inShell : args, {
    env: { ...programEnv(), PORT: '0', ...env, DATA_DIR: dataDir },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const pid = child.pid
  if (pid === undefined) throw new Error('the stack could not be started')
  recordProcess(outer, 'stack', pid)
  let output = ''
  const exited = new Promise<number | string>((resolve) => {
    child.once('close', (code, signal) => {
      forgetProcess(outer, 'stack', pid)
      resolve(signal ?? code ?? 1)
    })
  })
  const ready = new Promise<string>((resolve) => {
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8').on('data', (text: string) => {
        output += text
        const url = /^ready (\S+)$/m.exec(output)?.[1]
        if (url !== undefined) resolve(url)
      })
    }
  })
  const baseUrl = await Promise.race([ready, exited])
  if (typeof baseUrl !== 'string' || !baseUrl.startsWith('http')) {
    throw new Error(`the stack ended (${baseUrl}) before it was ready:\n${output}`)
  }
  // Only Countersign has limits to raise. Another program has none.
  if (entry === main) await liftLimits(dataDir, baseUrl)
  return {
    dataDir,
    pid,
    baseUrl,
    output: () => output,
    bootstrap: <T>() => JSON.parse(readFileSync(join(dataDir, 'bootstrap.json'), 'utf8')) as T,
    processes: () => recordedProcesses(dataDir).filter((record) => isOurs(dataDir, record)),
    exited,
    stop: async (signal = 'SIGTERM') => {
      child.kill(signal)
      return exited
    },
    kill9: async (what) => {
      const records = recordedProcesses(dataDir).filter((record) => isOurs(dataDir, record))
      const supervisor = identify(pid)
      const victims: ProcessIdentity[] = records.filter(({ role }) => what === 'all' || role === what)
      // The supervisor is killed first, so that it does not notice the end of the other processes.
      if ((what === 'all' || what === 'supervisor') && supervisor !== null) victims.unshift(supervisor)
      if (victims.length === 0) throw new Error(`no ${what} runs`)
      for (const victim of victims) process.kill(victim.pid, 'SIGKILL')
      await until(`${what} is gone`, () => !victims.some(isRunning))
    },
  }
}

/**
 * Raises the limits, because tests make more requests and runs per minute than people do. Does this once for each data
 * folder. Without a bootstrap.json or with TLS, the tests must raise the limits themselves.
 */
async function liftLimits(dataDir: string, baseUrl: string): Promise<void> {
  const done = join(dataDir, '..', 'limits-lifted')
  const file = join(dataDir, 'bootstrap.json')
  if (existsSync(done) || !existsSync(file) || !baseUrl.startsWith('http:')) return
  const { organization_id: id, users } = JSON.parse(readFileSync(file, 'utf8')) as Bootstrap
  const limits = {
    requests_per_minute: 100_000,
    requests_per_day: 100_000_000,
    workflow_runs_per_hour: 600_000,
  }
  const response = await fetch(`${baseUrl}/organizations/${id}/quota`, {
    method: 'PATCH',
    headers: { authorization: `Bearer ${users.owner.api_key}`, 'content-type': 'application/json' },
    body: JSON.stringify(limits),
  })
  if (!response.ok) throw new Error(`the limits could not be lifted: ${await response.text()}`)
  writeFileSync(done, '')
}

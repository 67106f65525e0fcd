import { spawn, type ChildProcess } from 'node:child_process'
import { temporaryFolder } from '../stack/temporary-folder.ts'
import { hookFile } from './adapter-files.ts'
import { python } from './interpreter.ts'

/* Starts the hook as a client would: a real process with the event on standard input. */

export { hookFile, python }

export interface Ended {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
  readonly stdout: string
  readonly stderr: string
}

export interface HookOptions {
  readonly args?: readonly string[]
  readonly env?: NodeJS.ProcessEnv
  /** An object is sent as JSON. */
  readonly event?: string | Buffer | object
  /** The working folder. */
  readonly cwd?: string
  /** Replaces `python3 -I -S service_hook.py`. */
  readonly command?: readonly string[]
}

/** An environment with only PATH, and a separate folder for state. */
export const emptyHome = (): NodeJS.ProcessEnv => ({ PATH: process.env['PATH'], HOME: temporaryFolder() })

export function startHook({ args = [], env = {}, event = '', cwd, command }: HookOptions): {
  child: ChildProcess
  ended: Promise<Ended>
} {
  const [program = python, ...rest] = command ?? [python, '-I', '-S', hookFile]
  const child = spawn(program, [...rest, ...args], { cwd, env: { ...emptyHome(), ...env } })
  child.stdin.on('error', () => {
    // The hook may answer without reading all input.
  })
  child.stdin.end(typeof event === 'string' || Buffer.isBuffer(event) ? event : JSON.stringify(event))
  let [stdout, stderr] = ['', '']
  child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text))
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text))
  const ended = new Promise<Ended>((resolve, reject) => {
    child.once('error', reject)
    child.once('close', (code, signal) => resolve({ code, signal, stdout, stderr }))
  })
  return { child, ended }
}

export const runHook = (options: HookOptions): Promise<Ended> => startHook(options).ended

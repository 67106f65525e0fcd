import { spawn } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeEach, test } from '@jest/globals'
import { programEnv } from '../support/program-env.ts'

/* Runs the real command `countersign`. */

export const bin = fileURLToPath(new URL('../../bin/countersign.js', import.meta.url))

export interface Ended {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

export interface RunOptions {
  readonly env?: Readonly<Record<string, string>>
  readonly cwd?: string
  /** Gets all output so far, whenever there is more. It may type or send a signal. */
  readonly onOutput?: (output: string, type: (text: string) => void, interrupt: () => void) => void
  /** In a terminal of its own, where both outputs are one. */
  readonly terminal?: true
}

export function cli(args: readonly string[], options: RunOptions = {}): Promise<Ended> {
  const { env = {}, cwd, onOutput, terminal } = options
  const command = [process.execPath, bin, ...args]
  const quoted = command.map((part) => `'${part.replaceAll("'", `'\\''`)}'`).join(' ')
  const [program = '', ...rest] = terminal === true ? ['script', '-qec', quoted, '/dev/null'] : command
  const child = spawn(program, rest, {
    env: { ...programEnv(), ...(terminal === true ? { TERM: 'xterm-256color' } : {}), ...env },
    ...(cwd === undefined ? {} : { cwd }),
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  if (terminal !== true) child.stdin.end()
  const output = { stdout: '', stderr: '' }
  for (const name of ['stdout', 'stderr'] as const)
    child[name].setEncoding('utf8').on('data', (text: string) => {
      output[name] += text
      onOutput?.(
        output.stdout + output.stderr,
        (typed) => void child.stdin.write(typed),
        // Ctrl-C reaches a terminal as a character, and a pipe as a signal.
        () => void (terminal === true ? child.stdin.write('\u0003') : child.kill('SIGINT')),
      )
    })
  return new Promise((resolve) => child.once('close', (code) => resolve({ code, ...output })))
}

/** A test that needs a terminal, which the `script` of Linux makes. */
export const inTerminal = process.platform === 'linux' ? test : test.skip

/** A folder that is empty before each test. */
export function useFolder() {
  const folder = mkdtempSync(join(tmpdir(), 'cli-'))
  beforeEach(() => {
    rmSync(folder, { recursive: true, force: true })
    mkdirSync(folder)
  })
  afterAll(() => rmSync(folder, { recursive: true, force: true }))
  return {
    folder,
    put(path: string, text: string): void {
      mkdirSync(dirname(join(folder, path)), { recursive: true })
      writeFileSync(join(folder, path), text)
    },
    read: (path: string): string => readFileSync(join(folder, path), 'utf8'),
  }
}

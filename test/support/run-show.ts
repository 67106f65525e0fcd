import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { programEnv } from './program-env.ts'

/**
 * Runs the program of `npm run demo` or `npm run samples`. `program` is its path in the project. Standard input is
 * closed, because the program must not ask anything. When the output contains `interruptAt`, the program gets SIGINT
 * twice, as after Ctrl-C under npm. Whenever there is new output, `onOutput` gets all output so far.
 */
export function runShow(
  program: string,
  env: Record<string, string>,
  interruptAt?: string,
  { args = [], onOutput }: { args?: readonly string[]; onOutput?: (output: string) => void } = {},
): Promise<{ code: number | null; output: string }> {
  const file = fileURLToPath(new URL(`../../${program}`, import.meta.url))
  const child = spawn(process.execPath, [file, ...args], {
    env: { ...programEnv(), ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let output = ''
  let isInterrupted = false
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      output += text
      onOutput?.(output)
      if (isInterrupted || interruptAt === undefined || !output.includes(interruptAt)) return
      isInterrupted = true
      for (let times = 0; times < 2; times++) child.kill('SIGINT')
    })
  }
  return new Promise((resolve) => child.once('close', (code) => resolve({ code, output })))
}

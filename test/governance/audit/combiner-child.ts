import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'

export interface ChildEnd {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
  /** One line `seq mark` for every answered append. */
  readonly answered: string[]
  readonly stderr: string
}

/** Runs combiner-process.ts to its end. */
export function runCombinerProcess(args: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<ChildEnd> {
  const program = fileURLToPath(new URL('./combiner-process.ts', import.meta.url))
  const child = spawn(process.execPath, [program, ...args], {
    env: { ...process.env, ...env, NODE_OPTIONS: '' },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let stdout = ''
  let stderr = ''
  child.stdout.on('data', (data: Buffer) => (stdout += data.toString()))
  child.stderr.on('data', (data: Buffer) => (stderr += data.toString()))
  return new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('close', (code, signal) =>
      resolve({ code, signal, answered: stdout.split('\n').filter((line) => line !== ''), stderr }),
    )
  })
}

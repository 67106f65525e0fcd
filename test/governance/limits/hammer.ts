import { spawn, type ChildProcess } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { testKey } from '../support.ts'

export interface Hammer {
  readonly child: ChildProcess
  /** The success lines printed so far. */
  readonly lines: string[]
  /** The exit code of the process; null after a kill. Rejects with the text of stderr. */
  readonly ended: Promise<number | null>
}

/** Starts hammer-process.ts. */
export function startHammer(args: readonly string[]): Hammer {
  const program = fileURLToPath(new URL('./hammer-process.ts', import.meta.url))
  const child = spawn(process.execPath, [program, ...args], {
    env: { ...process.env, NODE_OPTIONS: '', DATA_ENCRYPTION_KEY: testKey.toString('base64') },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const lines: string[] = []
  let rest = ''
  let stderr = ''
  child.stdout.on('data', (data: Buffer) => {
    const parts = (rest + data.toString()).split('\n')
    rest = parts.pop() ?? ''
    lines.push(...parts)
  })
  child.stderr.on('data', (data: Buffer) => (stderr += data.toString()))
  const ended = new Promise<number | null>((resolve, reject) => {
    child.once('error', reject)
    child.once('close', (code) => (code === 0 || code === null ? resolve(code) : reject(new Error(stderr))))
  })
  return { child, lines, ended }
}

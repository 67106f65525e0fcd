import { spawn, spawnSync, type ChildProcess } from 'node:child_process'
import { existsSync, realpathSync } from 'node:fs'
import { constants, setPriority } from 'node:os'
import { join, sep } from 'node:path'
import { fileURLToPath } from 'node:url'
import { projectRoot } from '../project-root.ts'

/*
 * Starts a program of ours in a process without rights, to read a file that may be an attack. docs/files.md says what
 * protects on which system:
 * - Node's `--permission`: the program reads only our code and node_modules, writes no file, and starts no process,
 *   worker thread, add-on or inspector. Node does not promise that this stops malicious code, so the others do not rely
 *   on it.
 * - An empty environment and a heap limit.
 * - With a POSIX shell, the kernel limits processor time, memory and written files.
 * - If `unshare` may make namespaces (Linux), there is no network.
 */

export interface SandboxLimits {
  readonly processorSeconds: number
  readonly seconds: number
  readonly heapMiB: number
  /** All writable memory, enforced only by Linux. V8 and its threads take 600 MiB before any work. */
  readonly memoryMiB: number
  readonly outputBytes: number
}

export const usualLimits: SandboxLimits = {
  processorSeconds: 30,
  seconds: 120,
  heapMiB: 384,
  memoryMiB: 1_400,
  outputBytes: 64 * 1024 * 1024,
}

/** It died or reached a limit before its output was complete. */
export class SandboxDied extends Error {
  override readonly name = 'SandboxDied'
  /** It used up its processor time. */
  readonly isOutOfTime: boolean
  constructor(message: string, options: ErrorOptions & { readonly isOutOfTime?: boolean } = {}) {
    super(message, options)
    this.isOutOfTime = options.isOutOfTime === true
  }
}

export interface SandboxOptions {
  readonly limits?: Partial<SandboxLimits>
  readonly signal?: AbortSignal
  /** For tests. */
  readonly started?: (pid: number) => void
}

/** Throws SandboxDied, or the signal's reason. */
export async function runInSandbox(
  program: URL,
  args: readonly string[],
  input: Uint8Array,
  { limits: given = {}, signal, started }: SandboxOptions = {},
): Promise<Buffer> {
  signal?.throwIfAborted()
  const limits = { ...usualLimits, ...given }
  const [command, ...rest] = commandOf(program, args, limits)
  const child = spawn(command as string, rest, { env: {}, cwd: sep, stdio: ['pipe', 'pipe', 'ignore'] })
  const kill = (): void => void child.kill('SIGKILL')
  const timer = setTimeout(kill, limits.seconds * 1_000)
  signal?.addEventListener('abort', kill, { once: true })
  try {
    if (child.pid !== undefined) {
      lowerPriority(child.pid)
      started?.(child.pid)
    }
    return await outputOf(child, input, limits.outputBytes, kill)
  } catch (error) {
    signal?.throwIfAborted()
    throw error
  } finally {
    clearTimeout(timer)
    signal?.removeEventListener('abort', kill)
    kill()
  }
}

function outputOf(child: ChildProcess, input: Uint8Array, most: number, kill: () => void): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const pieces: Buffer[] = []
    let length = 0
    child.stdout?.on('data', (piece: Buffer) => {
      length += piece.length
      if (length > most) {
        pieces.length = 0
        kill()
      } else pieces.push(piece)
    })
    // Writing the rest fails if the program ends early. The exit code decides.
    child.stdin?.on('error', () => {})
    child.stdin?.end(input)
    child.once('error', (cause) => reject(new SandboxDied('the program could not be started', { cause })))
    child.once('close', (code, signal) => {
      if (code === 0 && length <= most) resolve(Buffer.concat(pieces))
      else {
        const isOutOfTime = signal === 'SIGXCPU'
        reject(new SandboxDied(`the program ended with ${signal ?? code}`, { isOutOfTime }))
      }
    })
  })
}

/** Requests of people and agents come first. */
function lowerPriority(pid: number): void {
  try {
    setPriority(pid, constants.priority.PRIORITY_LOW)
  } catch {
    // The process has ended already.
  }
}

function commandOf(program: URL, args: readonly string[], limits: SandboxLimits): string[] {
  const file = fileURLToPath(program)
  const root = projectRoot()
  const packages = join(root, 'node_modules')
  const readable = [
    join(fileURLToPath(new URL('.', import.meta.url)), '*'),
    file,
    join(packages, '*'),
    // If `node_modules` is a link, Node checks both paths.
    join(realpathSync(packages), '*'),
    join(root, 'package.json'),
  ]
  const node = [
    process.execPath,
    `--max-old-space-size=${limits.heapMiB}`,
    '--disable-warning=ExperimentalWarning',
    '--disallow-code-generation-from-strings',
    '--permission',
    ...readable.map((path) => `--allow-fs-read=${path}`),
    file,
    ...args,
  ]
  if (!existsSync(shell)) return node
  const bounds = [
    // At the soft limit the kernel sends SIGXCPU, which tells why. A program that catches it is killed a second later.
    `ulimit -S -t ${limits.processorSeconds}; ulimit -H -t ${limits.processorSeconds + 1}`,
    'ulimit -f 0',
    'ulimit -c 0',
    `ulimit -d ${limits.memoryMiB * 1024} 2>/dev/null || true`,
  ]
  const bounded = [shell, '-c', `${bounds.join('; ')}; exec "$@"`, 'sh', ...node]
  return canCutNetwork() ? [...withoutNetwork, ...bounded] : bounded
}

const shell = '/bin/sh'
const withoutNetwork = ['unshare', '--map-root-user', '--net', '--'] as const

let isCut: boolean | undefined
export function canCutNetwork(): boolean {
  const [command, ...args] = [...withoutNetwork, 'true'] as const
  isCut ??=
    process.platform === 'linux' &&
    spawnSync(command, args, { stdio: 'ignore', timeout: 10_000 }).status === 0
  return isCut
}

import { spawn } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { recordProcess } from '../../src/stack/guard.ts'
import { guardedFolder } from '../support/postgres.ts'
import type { AgentClient, Place } from './client.ts'
import { programOf } from './install.ts'
import { playModel } from './model.ts'
import { endProcessesOf } from './processes.ts'
import type { Script, ToolResult, Turn } from './script.ts'

/** How a client's run ended. */
export interface ClientRun {
  /** An exit code, or the signal's name. */
  readonly exit: number | string
  readonly stdout: string
  readonly stderr: string
  /** The files in the client's working folder, by name. */
  readonly files: Readonly<Record<string, string>>
  /** The results that the model read, in the order of the calls. */
  readonly results: readonly ToolResult[]
  readonly denials: number | null
  /** The client's requests to the model. */
  readonly requests: readonly string[]
}

export interface StartedClient {
  readonly place: Place
  /** Whether this file is in the client's working folder now. */
  has(file: string): boolean
  signal(name: NodeJS.Signals): void
  readonly ended: Promise<ClientRun>
}

export interface RunOptions {
  /** The main conversation's turns, or several scripts. */
  readonly script: readonly Turn[] | Script
  /** Writes settings after the client's own settings were written. */
  readonly setup?: (place: Place) => void
  readonly env?: Readonly<Record<string, string>>
  /** Default true; see `prepare` of AgentClient. */
  readonly trusted?: boolean
  /** Replaces the client's command line. `words` is the program with its arguments. */
  readonly command?: (words: readonly string[], place: Place) => readonly string[]
  /**
   * After the client's end, waits for processes that the client or its hooks have left running. The remaining ones are
   * then killed.
   */
  readonly afterwards?: (place: Place) => Promise<void>
}

/** Milliseconds. A client that runs longer is killed, and its test fails. */
const longest = 180_000

/** Runs the client from its prompt to its end. */
export async function runClient(client: AgentClient, options: RunOptions): Promise<ClientRun> {
  return (await startClient(client, options)).ended
}

/**
 * Starts the client with an empty home, in an empty folder, with a model that plays the script. When the client ends,
 * all processes that it started are ended and its folders are removed.
 */
export async function startClient(client: AgentClient, options: RunOptions): Promise<StartedClient> {
  const { script, setup, env = {}, trusted = true, afterwards, command = (words) => words } = options
  const started = await programOf(client.name)
  const model = await playModel(client.dialect, Array.isArray(script) ? { main: script } : (script as Script))
  const { dataDir: root, guard } = guardedFolder()
  const place: Place = { root, home: join(root, 'home'), work: join(root, 'work') }
  for (const folder of [place.home, place.work, join(root, 'tmp')]) mkdirSync(folder)
  client.prepare(place, model.url, trusted)
  setup?.(place)

  const words = [...started, ...client.args(place, 'go', trusted)]
  const [program = '', ...args] = command(words, place)
  const child = spawn(program, args, {
    cwd: place.work,
    // Contains no keys or settings of the person who runs the tests.
    env: {
      PATH: process.env['PATH'],
      HOME: place.home,
      TMPDIR: join(root, 'tmp'),
      ...client.env(model.url),
      ...env,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const { pid } = child
  if (pid === undefined) throw new Error(`\`${program}\` could not be started`)
  recordProcess(root, 'stack', pid)
  const output = { stdout: '', stderr: '' }
  for (const name of ['stdout', 'stderr'] as const) {
    child[name].setEncoding('utf8').on('data', (text: string) => (output[name] += text))
  }
  let isTooLong = false
  const timer = setTimeout(() => {
    isTooLong = true
    endProcessesOf(place)
  }, longest)
  const exited = new Promise<number | string>((resolve) => {
    child.once('exit', (code, signal) => resolve(signal ?? code ?? 1))
  })
  const closed = new Promise((resolve) => child.once('close', resolve))
  const finish = async (): Promise<ClientRun> => {
    try {
      const exit = await exited
      clearTimeout(timer)
      await afterwards?.(place)
      // Processes that the client left may hold its output open.
      endProcessesOf(place)
      await closed
      if (isTooLong) throw new Error(`${client.name} did not end:\n${describe(output, model.requests)}`)
      const denials = exit === 0 ? client.denials(output.stdout) : null
      const { requests } = model
      return { exit, ...output, files: filesIn(place.work), results: model.results(), denials, requests }
    } finally {
      endProcessesOf(place)
      await Promise.all([model.close(), guard.close()])
    }
  }
  const ended = finish()
  // A test that failed earlier does not await this promise.
  ended.catch(() => {})
  return {
    place,
    has: (file) => existsSync(join(place.work, file)),
    signal: (name) => {
      child.kill(name)
    },
    ended,
  }
}

const filesIn = (folder: string): Record<string, string> =>
  Object.fromEntries(
    readdirSync(folder, { withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map(({ name }) => [name, readFileSync(join(folder, name), 'utf8')]),
  )

const describe = (output: { stdout: string; stderr: string }, requests: readonly string[]): string =>
  [output.stdout, output.stderr, requests.join('\n')].map((text) => text.slice(-4_000)).join('\n---\n')

import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  renameSync,
  rmSync,
} from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { sharedCache } from '../../src/stack/pinned-program.ts'

const run = promisify(execFile)
const pins = fileURLToPath(new URL('pins', import.meta.url))

/** How each client is started: a program and its first arguments. */
export interface ClientPrograms {
  readonly claude: readonly string[]
  readonly codex: readonly string[]
  readonly gemini: readonly string[]
}

let installed: Promise<ClientPrograms> | undefined

/**
 * The agent clients of pins/package.json, some 900 MB; installed into the checkout's cache when they are not there.
 * npm checks them against the hashes in pins/package-lock.json and runs none of their scripts. A client that cannot be
 * installed fails the test that asks.
 */
export function ensureClients(): Promise<ClientPrograms> {
  installed ??= install()
  return installed
}

async function install(): Promise<ClientPrograms> {
  const lock = readFileSync(join(pins, 'package-lock.json'))
  const version = createHash('sha256').update(lock).digest('hex').slice(0, 16)
  const folder = join(sharedCache(), `agent-clients-${version}`)
  if (!existsSync(folder)) await alone(() => fill(folder))
  return programsIn(join(folder, 'node_modules'))
}

/** One installation at a time, whatever process asks: each is large. The lock is SQLite's, so none is left by a crash. */
async function alone(work: () => Promise<void>): Promise<void> {
  mkdirSync(sharedCache(), { recursive: true })
  const lock = new DatabaseSync(join(sharedCache(), 'agent-clients.lock'), { timeout: 300_000 })
  try {
    lock.exec('begin exclusive')
    await work()
  } finally {
    lock.close()
  }
}

async function fill(folder: string): Promise<void> {
  // Another process may have been faster while this one waited.
  if (existsSync(folder)) return
  const draft = mkdtempSync(join(sharedCache(), '.agent-clients-'))
  try {
    cpSync(pins, draft, { recursive: true })
    const options = ['--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error']
    await run('npm', ['ci', ...options], { cwd: draft, timeout: 600_000 })
    renameSync(draft, folder)
  } finally {
    rmSync(draft, { recursive: true, force: true })
  }
}

/** The native programs themselves, not the Node programs that start them. */
function programsIn(modules: string): ClientPrograms {
  const platform = `${process.platform}-${process.arch}`
  const vendor = join(modules, '@openai', `codex-${platform}`, 'vendor')
  const triple = readdirSync(vendor)[0] ?? ''
  return {
    claude: [join(modules, '@anthropic-ai', `claude-code-${platform}`, 'claude')],
    codex: [join(vendor, triple, 'bin', 'codex')],
    gemini: [process.execPath, join(modules, '@google', 'gemini-cli', 'bundle', 'gemini.js')],
  }
}

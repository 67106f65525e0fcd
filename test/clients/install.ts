import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { installPinned } from '../support/pinned-packages.ts'

const pins = fileURLToPath(new URL('pins', import.meta.url))

/** How to start each client: a program and its first arguments. */
export interface ClientPrograms {
  readonly claude: readonly string[]
  readonly codex: readonly string[]
  readonly gemini: readonly string[]
  readonly copilot: readonly string[]
}

let installed: Promise<ClientPrograms> | undefined

/**
 * The agent clients of pins/package.json, about 1.1 GB. A client that cannot be installed fails the test that needs
 * it.
 */
export function ensureClients(): Promise<ClientPrograms> {
  installed ??= installPinned(pins, 'agent-clients').then(programsIn)
  return installed
}

/** The native programs, without the Node programs that start them. */
function programsIn(modules: string): ClientPrograms {
  const platform = `${process.platform}-${process.arch}`
  const vendor = join(modules, '@openai', `codex-${platform}`, 'vendor')
  const triple = readdirSync(vendor)[0] ?? ''
  return {
    claude: [join(modules, '@anthropic-ai', `claude-code-${platform}`, 'claude')],
    codex: [join(vendor, triple, 'bin', 'codex')],
    gemini: [process.execPath, join(modules, '@google', 'gemini-cli', 'bundle', 'gemini.js')],
    copilot: [join(modules, '@github', `copilot-${platform}`, 'copilot')],
  }
}

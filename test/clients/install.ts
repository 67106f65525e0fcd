import { readdirSync, readFileSync } from 'node:fs'
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
  readonly opencode: readonly string[]
}

const packages = {
  claude: '@anthropic-ai/claude-code',
  codex: '@openai/codex',
  gemini: '@google/gemini-cli',
  copilot: '@github/copilot',
  opencode: 'opencode-linux-x64',
} as const satisfies Record<keyof ClientPrograms, string>

/** The version of a client in pins/package.json. */
export function versionOf(client: keyof ClientPrograms): string {
  const read = JSON.parse(readFileSync(join(pins, 'package.json'), 'utf8')) as Record<
    'dependencies' | 'optionalDependencies',
    Record<string, string>
  >
  return { ...read.dependencies, ...read.optionalDependencies }[packages[client]] ?? ''
}

let installed: Promise<ClientPrograms> | undefined

/**
 * Installs the agent clients of pins/package.json, about 1.3 GB. A client that cannot be installed fails the test that
 * needs it.
 */
export function ensureClients(): Promise<ClientPrograms> {
  installed ??= installPinned(pins, 'agent-clients').then(programsIn)
  return installed
}

/** Finds the native programs, without the Node programs that start them. */
function programsIn(modules: string): ClientPrograms {
  const platform = `${process.platform}-${process.arch}`
  const vendor = join(modules, '@openai', `codex-${platform}`, 'vendor')
  const triple = readdirSync(vendor)[0] ?? ''
  return {
    claude: [join(modules, '@anthropic-ai', `claude-code-${platform}`, 'claude')],
    codex: [join(vendor, triple, 'bin', 'codex')],
    gemini: [process.execPath, join(modules, '@google', 'gemini-cli', 'bundle', 'gemini.js')],
    copilot: [join(modules, '@github', `copilot-${platform}`, 'copilot')],
    opencode: [join(modules, `opencode-${platform}`, 'bin', 'opencode')],
  }
}

import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { byDepth } from '../support/depth.ts'
import { installPinned } from '../support/pinned-packages.ts'

/** `npm test` runs Claude Code only. The other clients are a GB more, for `npm run test:deep`. */
const sets = byDepth(['claude'], ['claude', 'others'])
const pinsOf = (set: string): string => fileURLToPath(new URL(`pins/${set}`, import.meta.url))

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

/** The pinned version of a client. */
export function versionOf(client: keyof ClientPrograms): string {
  const set = client === 'claude' ? 'claude' : 'others'
  const read = JSON.parse(readFileSync(join(pinsOf(set), 'package.json'), 'utf8')) as Record<
    'dependencies' | 'optionalDependencies',
    Record<string, string>
  >
  return { ...read.dependencies, ...read.optionalDependencies }[packages[client]] ?? ''
}

let installed: Promise<Partial<ClientPrograms>> | undefined

/** Installs the agent clients of this depth. A client that cannot be installed fails the test that needs it. */
export function ensureClients(): Promise<Partial<ClientPrograms>> {
  installed ??= Promise.all(sets.map((set) => installPinned(pinsOf(set), `agent-clients-${set}`))).then(
    ([claude = '', others]) => ({ ...claudeIn(claude), ...(others === undefined ? {} : othersIn(others)) }),
  )
  return installed
}

/** How to start a client of this depth. */
export async function programOf(client: keyof ClientPrograms): Promise<readonly string[]> {
  const program = (await ensureClients())[client]
  if (program === undefined) throw new Error(`only \`npm run test:deep\` runs ${client}`)
  return program
}

const platform = `${process.platform}-${process.arch}`

/** Finds the native program, without the Node program that starts it. */
const claudeIn = (modules: string): Pick<ClientPrograms, 'claude'> => ({
  claude: [join(modules, '@anthropic-ai', `claude-code-${platform}`, 'claude')],
})

/** The same for the other clients. */
function othersIn(modules: string): Omit<ClientPrograms, 'claude'> {
  const vendor = join(modules, '@openai', `codex-${platform}`, 'vendor')
  const triple = readdirSync(vendor)[0] ?? ''
  return {
    codex: [join(vendor, triple, 'bin', 'codex')],
    gemini: [process.execPath, join(modules, '@google', 'gemini-cli', 'bundle', 'gemini.js')],
    copilot: [join(modules, '@github', `copilot-${platform}`, 'copilot')],
    opencode: [join(modules, `opencode-${platform}`, 'bin', 'opencode')],
  }
}

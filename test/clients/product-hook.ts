import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { hookFile, python } from '../adapters/run-hook.ts'
import type { AgentClient, Place } from './client.ts'

/** The service's address, and settings of the hook. Settings that are not given have their defaults. */
export interface ServiceSettings {
  readonly url: string
  readonly key: string
  readonly mode?: 'closed' | 'open'
  /** The organization's id. `install --managed` needs it. */
  readonly organization?: string
  /** Seconds that a held call waits for its approver. */
  readonly wait?: number
}

/** `SERVICE_...` variables for an environment. */
export const serviceEnv = ({
  url,
  key,
  mode = 'closed',
  organization,
  wait,
}: ServiceSettings): Record<string, string> => ({
  SERVICE_API_URL: url,
  SERVICE_API_KEY: key,
  SERVICE_FAIL_MODE: mode,
  ...(organization === undefined ? {} : { SERVICE_ORG_ID: organization }),
  ...(wait === undefined ? {} : { SERVICE_APPROVAL_WAIT: String(wait) }),
})

/**
 * Runs `service_hook.py install` for a run. The client gets the settings that its user would get, and nothing else of
 * the service.
 */
export function installHook(
  client: AgentClient,
  { home }: Place,
  service: ServiceSettings,
  options: readonly string[] = [],
): void {
  execFileSync(python, [hookFile, 'install', '--dialect', client.name, '--yes', ...options], {
    env: { PATH: process.env['PATH'], HOME: home, ...serviceEnv(service) },
  })
}

/** The settings file that `install` writes for each client, relative to the home folder. */
export const settingsFiles = {
  claude: '.claude/settings.json',
  codex: '.codex/hooks.json',
  gemini: '.gemini/settings.json',
  copilot: '.copilot/hooks/countersign.json',
  opencode: '.config/opencode/plugin/countersign.js',
} as const

/** Edits the installed settings, as somebody might by hand. */
export function editHooks(client: AgentClient, { home }: Place, change: (text: string) => string): void {
  const file = join(home, settingsFiles[client.name])
  writeFileSync(file, change(readFileSync(file, 'utf8')))
}

/** Files with ended sessions that were not reported to the service successfully yet. */
export function endsKept({ home }: Place): string[] {
  try {
    return readdirSync(join(home, '.countersign', 'ended-sessions'))
  } catch {
    return []
  }
}

import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { chat } from './chat.ts'
import type { AgentClient, Hooks, Place } from './client.ts'

const configOf = ({ home }: Pick<Place, 'home'>): string => join(home, '.config', 'opencode')

/** The path of the user's settings. */
export const settingsOf = (place: Pick<Place, 'home'>): string => join(configOf(place), 'opencode.json')

/**
 * opencode installs a package into each folder with settings, and waits for that before it loads plugins. This function
 * makes opencode believe that the package is already there.
 */
export function withoutInstallation(folder: string): void {
  mkdirSync(join(folder, 'node_modules'), { recursive: true })
  const packages = { '': { dependencies: { '@opencode-ai/plugin': '*' } } }
  writeFileSync(join(folder, 'package-lock.json'), JSON.stringify({ lockfileVersion: 3, packages }))
}

/** opencode, `opencode run`. */
export const opencode: AgentClient = {
  name: 'opencode',
  dialect: chat,
  prepare: (place, url, trusted) => {
    withoutInstallation(configOf(place))
    const played = {
      npm: '@ai-sdk/openai-compatible',
      options: { baseURL: `${url}/v1`, apiKey: 'fake-key' },
      models: { played: { limit: { context: 100_000_000, output: 10_000 } } },
    }
    const settings = {
      $schema: 'https://opencode.ai/config.json',
      provider: { played },
      permission: trusted ? 'allow' : { bash: 'ask', edit: 'ask' },
      // Otherwise opencode ends when its user refuses a call.
      experimental: { continue_loop_on_deny: true },
    }
    writeFileSync(settingsOf(place), JSON.stringify(settings))
  },
  hook: (place, hooks) => {
    const folder = join(configOf(place), 'plugin')
    mkdirSync(folder)
    writeFileSync(join(folder, 'test.js'), plugin(hooks))
  },
  args: (_place, prompt) => [
    ...['run', '--model', 'played/played', '--format', 'json', '--title', 'a test'],
    prompt,
  ],
  env: () => ({
    OPENCODE_DISABLE_AUTOUPDATE: 'true',
    OPENCODE_DISABLE_MODELS_FETCH: 'true',
    OPENCODE_DISABLE_LSP_DOWNLOAD: 'true',
  }),
  denials: () => null,
  sessionId: (stdout) => (JSON.parse(stdout.split('\n')[0] ?? '') as { sessionID: string }).sessionID,
  shell: (command) => ({ tool: 'bash', input: { command, description: 'a step of the test' } }),
  write: (path, content) => ({ tool: 'write', input: { filePath: path, content } }),
  delegate: (script) => [
    [
      {
        tool: 'task',
        input: { description: 'a part', prompt: `play ${script}`, subagent_type: 'general' },
      },
    ],
  ],
}

/**
 * opencode has no hooks that are commands. This plugin runs the hooks' commands, and blocks a call after exit code 2.
 */
const plugin = (hooks: Hooks): string => `
import { spawnSync } from 'node:child_process'
const hooks = ${JSON.stringify(hooks)}
const run = (role, event) => {
  if (hooks[role] === undefined) return
  const { command, timeout } = hooks[role]
  const ran = spawnSync('/bin/sh', ['-c', command], { input: JSON.stringify(event), timeout: timeout * 1000 })
  if (ran.status === 2) throw new Error(String(ran.stderr))
}
export default async ({ client }) => {
  const seen = new Set()
  const event = async ({ sessionID }, args) => {
    const { data } = await client.session.get({ path: { id: sessionID } })
    seen.add(data.parentID ?? sessionID)
    return { session_id: data.parentID ?? sessionID, tool_input: args }
  }
  return {
    'tool.execute.before': async (input, output) => run('pre', await event(input, output.args)),
    'tool.execute.after': async (input) => run('post', await event(input, input.args)),
    dispose: async () => seen.forEach((id) => run('end', { session_id: id })),
  }
}
`

import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { sharedCache } from '../../src/stack/temporal-binary.ts'
import { chat } from './chat.ts'
import type { AgentClient, HookCommand } from './client.ts'

/** Copilot CLI, `copilot -p`. */
export const copilot: AgentClient = {
  name: 'copilot',
  dialect: chat,
  prepare: ({ home }) => {
    mkdirSync(join(home, '.copilot', 'hooks'), { recursive: true })
  },
  hook: ({ home }, { pre, post, end }) => {
    const hooks = {
      ...(pre && { preToolUse: [entry(pre)] }),
      ...(post && { postToolUse: [entry(post)], postToolUseFailure: [entry(post)] }),
      ...(end && { sessionEnd: [entry(end)] }),
    }
    writeFileSync(join(home, '.copilot', 'hooks', 'test.json'), JSON.stringify({ version: 1, hooks }))
  },
  args: (_place, prompt, trusted) => [
    ...['-p', prompt, '--no-auto-update', '--output-format', 'json'],
    ...(trusted ? ['--allow-all-tools', '--allow-all-paths'] : []),
  ],
  env: (url) => ({
    COPILOT_OFFLINE: 'true',
    COPILOT_PROVIDER_BASE_URL: `${url}/v1`,
    COPILOT_MODEL: 'played',
    // With this variable, Copilot CLI unpacks itself once for all homes.
    COPILOT_CACHE_HOME: join(sharedCache(), 'copilot-cli'),
    // Otherwise Copilot CLI would drop the oldest turns, which contain the script's name.
    COPILOT_PROVIDER_MAX_PROMPT_TOKENS: '100000000',
  }),
  denials: () => null,
  sessionId: (stdout) =>
    (JSON.parse(stdout.trimEnd().split('\n').at(-1) ?? '') as { sessionId: string }).sessionId,
  shell: (command) => ({ tool: 'bash', input: { command, description: 'a step of the test' } }),
  write: (path, text) => ({ tool: 'create', input: { path, file_text: text } }),
  partsApart: true,
  delegate: (script) => [
    [
      {
        tool: 'task',
        input: {
          ...{ name: 'part', description: 'a part', agent_type: 'general-purpose' },
          ...{ prompt: `play ${script}`, mode: 'sync' },
        },
      },
    ],
  ],
}

const entry = ({ command, timeout }: HookCommand): object => ({
  type: 'command',
  bash: command,
  timeoutSec: timeout,
})

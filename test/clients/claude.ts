import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { anthropic } from './anthropic.ts'
import type { AgentClient, HookCommand } from './client.ts'

/** Claude Code, `claude -p`. */
export const claude: AgentClient = {
  name: 'claude',
  dialect: anthropic,
  prepare: ({ home }) => {
    mkdirSync(join(home, '.claude'))
  },
  hook: ({ home }, { pre, post, end }) => {
    const hooks = {
      ...(pre && { PreToolUse: [group(pre)] }),
      ...(post && { PostToolUse: [group(post)], PostToolUseFailure: [group(post)] }),
      ...(end && { SessionEnd: [group(end)] }),
    }
    writeFileSync(join(home, '.claude', 'settings.json'), JSON.stringify({ hooks }))
  },
  args: ({ root }, prompt, trusted) => [
    ...['-p', prompt, '--model', 'claude-sonnet-4-5', '--output-format', 'json'],
    ...['--debug-file', join(root, 'debug.log')],
    ...(trusted ? ['--allowedTools', 'Bash,Write,Edit,Agent'] : []),
  ],
  env: (url) => ({
    ANTHROPIC_BASE_URL: url,
    ANTHROPIC_API_KEY: 'fake-key',
    CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
    CLAUDE_CODE_MAX_RETRIES: '0',
    DISABLE_AUTOUPDATER: '1',
    DISABLE_TELEMETRY: '1',
  }),
  denials: (stdout) => {
    const { permission_denials: denials = [] } = JSON.parse(stdout) as { permission_denials?: unknown[] }
    return denials.length
  },
  sessionId: (stdout) => (JSON.parse(stdout) as { session_id: string }).session_id,
  shell: (command) => ({ tool: 'Bash', input: { command, description: 'a step of the test' } }),
  write: (path, content) => ({ tool: 'Write', input: { file_path: path, content } }),
  delegate: (script) => [
    [
      {
        tool: 'Agent',
        input: {
          description: 'a part',
          prompt: `play ${script}`,
          subagent_type: 'general-purpose',
          run_in_background: false,
        },
      },
    ],
  ],
}

const group = ({ command, timeout, block = false }: HookCommand): object => ({
  matcher: '*',
  hooks: [{ type: 'command', command, timeout, ...(block ? { onFailure: 'block' } : {}) }],
})

import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { AgentClient, HookCommand } from './client.ts'
import { openai } from './openai.ts'

/** Codex, `codex exec`. */
export const codex: AgentClient = {
  name: 'codex',
  dialect: openai,
  prepare: ({ home }, url) => {
    mkdirSync(join(home, '.codex'))
    const provider = [
      '[model_providers.played]',
      'name = "played"',
      `base_url = "${url}/v1"`,
      'wire_api = "responses"',
    ]
    const retries = ['request_max_retries = 0', 'stream_max_retries = 0']
    const config = ['model = "gpt-5"', 'model_provider = "played"', ...provider, ...retries]
    writeFileSync(join(home, '.codex', 'config.toml'), `${config.join('\n')}\n`)
  },
  hook: ({ home }, { pre, post, end }) => {
    const hooks = {
      ...(pre && { PreToolUse: [group(pre)] }),
      ...(post && { PostToolUse: [group(post)] }),
      ...(end && { SessionEnd: [group(end)] }),
    }
    writeFileSync(join(home, '.codex', 'hooks.json'), JSON.stringify({ hooks }))
  },
  args: ({ work }, prompt, trusted) => [
    ...['exec', '--skip-git-repo-check', '--dangerously-bypass-hook-trust', '--json', '-C', work],
    ...['-s', trusted ? 'danger-full-access' : 'read-only', prompt],
  ],
  env: () => ({}),
  denials: () => null,
  sessionId: (stdout) => (JSON.parse(stdout.split('\n')[0] ?? '') as { thread_id: string }).thread_id,
  shell: (command) => ({ tool: 'exec_command', input: { cmd: command, login: false } }),
  // Codex applies a patch itself. A program could not get such a large argument.
  write: (path, text) => {
    const patch = ['*** Begin Patch', `*** Add File: ${path}`, `+${text}`, '*** End Patch']
    return {
      tool: 'exec_command',
      input: { cmd: `apply_patch <<'EOF'\n${patch.join('\n')}\nEOF`, login: false },
    }
  },
  delegate: (script) => [
    [{ tool: 'multi_agent_v1.spawn_agent', input: { message: `play ${script}` } }],
    (read) => {
      const { agent_id: id } = JSON.parse(read.at(-1)?.text ?? '') as { agent_id: string }
      return [{ tool: 'multi_agent_v1.wait_agent', input: { targets: [id], timeout_ms: 120_000 } }]
    },
  ],
}

const group = ({ command, timeout }: HookCommand): object => ({
  matcher: '*',
  hooks: [{ type: 'command', command, timeout }],
})

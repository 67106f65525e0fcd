import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { AgentClient, HookCommand } from './client.ts'
import { events, lastWords, type Calls, type Conversation, type Dialect, type ToolResult } from './script.ts'

interface Item {
  readonly type: string
  readonly role?: string
  readonly call_id?: string
  readonly content?: readonly { text?: string }[]
  readonly output?: unknown
}

/**
 * The Responses API in the form that Codex uses. The tool name `space.name` stands for the tool `name` in the namespace
 * `space`.
 */
const openai: Dialect = {
  read(path, body): Conversation | null {
    if (path !== '/v1/responses') return null
    const { input } = body as { input: readonly Item[] }
    const results = new Map<string, Omit<ToolResult, 'script'>>()
    const answers = new Set<string>()
    let words = ''
    for (const item of input) {
      if (item.type === 'message' && item.role === 'user') {
        words += (item.content ?? []).map(({ text = '' }) => `\n${text}`).join('')
      }
      if (item.type === 'function_call') answers.add((item.call_id ?? '').replace(/_\d+$/, ''))
      if (item.type !== 'function_call_output') continue
      const { output } = item
      results.set(item.call_id ?? '', {
        text: typeof output === 'string' ? output : JSON.stringify(output),
        isError: null,
      })
    }
    return { words, turns: answers.size, results }
  },
  answer(calls: Calls, id: string): string {
    const items =
      calls.length === 0
        ? [
            {
              type: 'message',
              role: 'assistant',
              id: `msg_${id}`,
              content: [{ type: 'output_text', text: lastWords }],
            },
          ]
        : calls.map(({ tool, input }, index) => {
            const [name = '', namespace] = tool.split('.').reverse()
            const call = { type: 'function_call', id: `fc_${id}_${index}`, call_id: `call_${id}_${index}` }
            const place = namespace === undefined ? {} : { namespace }
            return { ...call, ...place, name, arguments: JSON.stringify(input) }
          })
    const usage = { input_tokens: 1, output_tokens: 1, total_tokens: 2 }
    return events(
      [
        { type: 'response.created', response: { id: `resp_${id}` } },
        ...items.map((item, index) => ({ type: 'response.output_item.done', output_index: index, item })),
        { type: 'response.completed', response: { id: `resp_${id}`, usage } },
      ],
      (payload) => (payload as { type: string }).type,
    )
  },
}

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

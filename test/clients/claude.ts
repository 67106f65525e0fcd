import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { AgentClient, HookCommand } from './client.ts'
import { events, lastWords, type Calls, type Conversation, type Dialect, type ToolResult } from './script.ts'

interface Block {
  readonly type: string
  readonly text?: string
  readonly tool_use_id?: string
  readonly is_error?: boolean
  readonly content?: string | readonly Block[]
}
interface Request {
  readonly tools?: readonly unknown[]
  readonly messages: readonly { role: string; content: string | readonly Block[] }[]
}

const textOf = (content: Block['content']): string =>
  typeof content === 'string' ? content : (content ?? []).map((block) => block.text ?? '').join('')

/** The Messages API in the form that Claude Code uses. */
const anthropic: Dialect = {
  read(path, body): Conversation | null {
    const { messages, tools = [] } = body as Request
    if (!path.startsWith('/v1/messages?') || tools.length === 0) return null
    const results = new Map<string, Omit<ToolResult, 'script'>>()
    let words = ''
    let turns = 0
    for (const { role, content } of messages) {
      const blocks = typeof content === 'string' ? [{ type: 'text', text: content }] : content
      if (role === 'assistant' && blocks.some(({ type }) => type === 'tool_use')) turns += 1
      if (role !== 'user') continue
      words += `\n${textOf(blocks.filter(({ type }) => type === 'text'))}`
      for (const block of blocks) {
        if (block.type !== 'tool_result') continue
        results.set(block.tool_use_id ?? '', {
          text: textOf(block.content),
          isError: block.is_error === true,
        })
      }
    }
    return { words, turns, results }
  },
  answer(calls: Calls, id: string): string {
    const blocks =
      calls.length === 0
        ? [{ start: { type: 'text', text: '' }, delta: { type: 'text_delta', text: lastWords } }]
        : calls.map(({ tool, input }, index) => ({
            start: { type: 'tool_use', id: `toolu_${id}_${index}`, name: tool, input: {} },
            delta: { type: 'input_json_delta', partial_json: JSON.stringify(input) },
          }))
    const usage = { input_tokens: 1, output_tokens: 1 }
    const message = {
      id: `msg_${id}`,
      type: 'message',
      role: 'assistant',
      model: 'played',
      content: [],
      usage,
    }
    const reason = calls.length === 0 ? 'end_turn' : 'tool_use'
    return events(
      [
        { type: 'message_start', message: { ...message, stop_reason: null, stop_sequence: null } },
        ...blocks.flatMap(({ start, delta }, index) => [
          { type: 'content_block_start', index, content_block: start },
          { type: 'content_block_delta', index, delta },
          { type: 'content_block_stop', index },
        ]),
        { type: 'message_delta', delta: { stop_reason: reason, stop_sequence: null }, usage },
        { type: 'message_stop' },
      ],
      (payload) => (payload as { type: string }).type,
    )
  },
}

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

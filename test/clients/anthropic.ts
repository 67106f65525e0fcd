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
export const anthropic: Dialect = {
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

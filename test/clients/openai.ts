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
export const openai: Dialect = {
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

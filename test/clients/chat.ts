import { events, lastWords, type Calls, type Conversation, type Dialect, type ToolResult } from './script.ts'

interface Message {
  readonly role: string
  readonly content: string | readonly { readonly text?: string }[] | null
  readonly tool_calls?: readonly unknown[]
  readonly tool_call_id?: string
}
interface Request {
  readonly messages: readonly Message[]
  readonly tools?: readonly unknown[]
}

const textOf = (content: Message['content']): string =>
  typeof content === 'string' ? content : (content ?? []).map(({ text = '' }) => text).join('')

/** Chat completions in the form that Copilot CLI uses with a custom model. */
export const chat: Dialect = {
  read(path, body): Conversation | null {
    const { messages, tools = [] } = body as Request
    if (path !== '/v1/chat/completions' || tools.length === 0) return null
    const results = new Map<string, Omit<ToolResult, 'script'>>()
    let words = ''
    let turns = 0
    for (const { role, content, tool_calls: calls = [], tool_call_id: id = '' } of messages) {
      if (role === 'assistant' && calls.length > 0) turns += 1
      if (role === 'user') words += `\n${textOf(content)}`
      if (role === 'tool') results.set(id, { text: textOf(content), isError: null })
    }
    return { words, turns, results }
  },
  answer(calls: Calls, id: string): string {
    const chunk = (delta: object, reason: string | null = null): object => ({
      ...{ id: `chat_${id}`, object: 'chat.completion.chunk', created: 1, model: 'played' },
      choices: [{ index: 0, delta, finish_reason: reason }],
    })
    const parts = calls.map(({ tool, input }, index) => ({
      ...{ index, id: `call_${id}_${index}`, type: 'function' },
      function: { name: tool, arguments: JSON.stringify(input) },
    }))
    const said =
      calls.length === 0
        ? [chunk({ role: 'assistant', content: lastWords }), chunk({}, 'stop')]
        : [chunk({ role: 'assistant', tool_calls: parts }), chunk({}, 'tool_calls')]
    return `${events(said)}data: [DONE]\n\n`
  },
}

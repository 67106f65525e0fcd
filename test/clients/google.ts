import { events, lastWords, type Calls, type Conversation, type Dialect, type ToolResult } from './script.ts'

interface Part {
  readonly text?: string
  readonly functionCall?: { readonly id?: string }
  readonly functionResponse?: { readonly id?: string; readonly response?: unknown }
}
interface Request {
  readonly contents: readonly { role: string; parts: readonly Part[] }[]
  readonly tools?: readonly unknown[]
}

/** generateContent in the form that Gemini CLI uses. */
export const google: Dialect = {
  read(path, body): Conversation | null {
    const { contents, tools = [] } = body as Request
    if (!path.includes(':streamGenerateContent') || tools.length === 0) return null
    const results = new Map<string, Omit<ToolResult, 'script'>>()
    let words = ''
    let turns = 0
    for (const [place, { role, parts }] of contents.entries()) {
      if (role === 'model' && parts.some((part) => part.functionCall !== undefined)) turns += 1
      if (role !== 'user') continue
      for (const [index, { text = '', functionResponse }] of parts.entries()) {
        words += `\n${text}`
        if (functionResponse === undefined) continue
        results.set(functionResponse.id ?? `${place}/${index}`, {
          text: JSON.stringify(functionResponse.response),
          isError: null,
        })
      }
    }
    return { words, turns, results }
  },
  answer(calls: Calls, id: string): string {
    const parts =
      calls.length === 0
        ? [{ text: lastWords }]
        : calls.map(({ tool, input }, index) => ({
            functionCall: { id: `${id}_${index}`, name: tool, args: input },
          }))
    const usageMetadata = { promptTokenCount: 1, candidatesTokenCount: 1, totalTokenCount: 2 }
    return events([
      { candidates: [{ content: { role: 'model', parts }, finishReason: 'STOP' }], usageMetadata },
    ])
  },
}

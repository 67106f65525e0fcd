import type { ToolContext } from '../../../../src/activities/tools/executor.ts'
import type { Scripted } from '../../../support/scripted-server.ts'
import { toolContext } from '../call.ts'

/** Credentials of services that are all played by the server at `url`. */
export const credentialsAt = (url: string) => ({
  anthropic: { provider: 'anthropic', api_key: 'k1', model: 'm', base_url: `${url}/v1` },
  openai: { provider: 'openai', api_key: 'k1', model: 'm', base_url: `${url}/v1` },
  ollama: { provider: 'ollama', api_key: 'k1', model: 'm', base_url: url },
})
export type Provider = keyof ReturnType<typeof credentialsAt>

export const ofOpenAi = (
  text: unknown,
  tokens: unknown = { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 },
) => ({
  status: 200,
  body: {
    id: 'c1',
    object: 'chat.completion',
    created: 1,
    model: 'm-2',
    choices: [{ index: 0, message: { role: 'assistant', content: text }, finish_reason: 'stop' }],
    usage: tokens,
  },
})

/** Answers in the forms that the services document. */
export const answers: Record<Provider, (text: string) => Scripted> = {
  anthropic: (text) => ({
    status: 200,
    body: {
      id: 'msg_1',
      type: 'message',
      role: 'assistant',
      model: 'm-2',
      content: text === '' ? [] : [{ type: 'text', text }],
      stop_reason: 'end_turn',
      stop_sequence: null,
      usage: { input_tokens: 3, output_tokens: 2 },
    },
  }),
  openai: (text) => ofOpenAi(text),
  ollama: (text) => ofOpenAi(text),
}

/** Prices and reservations of a call. */
export function money(price: { input: number; output: number } | null = { input: 10, output: 100 }) {
  const reserved: number[] = []
  const { tools } = toolContext({ priceOf: () => price })
  const over: Partial<ToolContext> = {
    reserve: async (most) => void reserved.push(most),
    tools,
  }
  return { reserved, over }
}

import { startScriptedServer, type ScriptedServer } from './scripted-server.ts'

/**
 * A server that plays a language model with OpenAI's API. Each answer reports a usage of 3 input and 2 output tokens.
 */
export interface Model extends ScriptedServer {
  /** The body of the request that creates a connection to the model. */
  readonly connection: object
}

export const modelAnswer = (text: string) => ({
  model: 'm',
  choices: [{ index: 0, message: { role: 'assistant', content: text }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 3, completion_tokens: 2 },
})

export async function startModel(key = 'k1'): Promise<Model> {
  const server = await startScriptedServer()
  server.answer = () => ({ status: 200, body: modelAnswer('because') })
  const credential = { provider: 'openai', api_key: key, model: 'm', base_url: server.url }
  return Object.assign(server, { connection: { credential, scope: 'organization' } })
}

import { createAnthropic } from '@ai-sdk/anthropic'
import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { generateText, type LanguageModel } from 'ai'
import type { Fetch } from '../../shared/outgoing/outgoing.ts'
import type { ServiceConnection } from '../kit/executor.ts'
import type { Usage } from './cost.ts'

export interface Asking {
  readonly model: string
  readonly prompt: string
  readonly system: string | undefined
  readonly maxTokens: number
  readonly fetch: Fetch
  readonly signal: AbortSignal
}

interface Generated {
  readonly text: string
  /** The name that the service gives the model. */
  readonly model: string
  readonly usage: Usage
}

/** Turns off the library's warnings. The warnings would list unsupported features of a model on the standard error. */
;(globalThis as { AI_SDK_LOG_WARNINGS?: unknown }).AI_SDK_LOG_WARNINGS = false

/** Sends one request. The library repeats nothing, records nothing, and reads no environment variable. */
export async function generate(
  connection: Pick<ServiceConnection<'llm'>, 'credential' | 'base' | 'headers'>,
  { model, prompt, system, maxTokens, fetch, signal }: Asking,
): Promise<Generated> {
  const { text, response, usage } = await generateText({
    model: modelOf(connection, model, fetch),
    ...(system === undefined ? {} : { instructions: system }),
    prompt,
    maxOutputTokens: maxTokens,
    maxRetries: 0,
    abortSignal: signal,
    telemetry: { isEnabled: false, recordInputs: false, recordOutputs: false },
  })
  return {
    text,
    model: response.modelId.slice(0, 200),
    usage: { input_tokens: tokens(usage.inputTokens), output_tokens: tokens(usage.outputTokens) },
  }
}

function modelOf(
  { credential, base, headers }: Pick<ServiceConnection<'llm'>, 'credential' | 'base' | 'headers'>,
  model: string,
  fetch: Fetch,
): LanguageModel {
  const { provider } = credential
  if (provider === 'anthropic')
    return createAnthropic({ baseURL: base, apiKey: credential.api_key, fetch })(model)
  // Ollama speaks OpenAI's protocol below `/v1`.
  const baseURL = provider === 'ollama' ? `${base}/v1` : base
  const isOpenAi = new URL(base).hostname === 'api.openai.com'
  return createOpenAICompatible({
    name: provider,
    baseURL,
    headers: { ...headers },
    fetch,
    ...(isOpenAi ? { transformRequestBody: withNewName } : {}),
  })(model)
}

/**
 * Renames the field `max_tokens` to `max_completion_tokens`. For its newer models, OpenAI's own service refuses the old
 * name.
 */
export const withNewName = ({
  max_tokens: max,
  ...body
}: Record<string, unknown>): Record<string, unknown> => ({
  ...body,
  max_completion_tokens: max,
})

/**
 * Returns null if the service does not count the tokens. In this case the library gives 0, although every text has at
 * least one token.
 */
const tokens = (count: number | undefined): number | null =>
  count !== undefined && Number.isSafeInteger(count) && count > 0 ? count : null

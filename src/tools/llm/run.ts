import { createAnthropic } from '@ai-sdk/anthropic'
import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { generateText, Output, type LanguageModel, type ModelMessage } from 'ai'
import type { TokenPrice } from '../../shared/model-prices.ts'
import type { Fetch } from '../../shared/outgoing/outgoing.ts'
import type { Service } from '../kit/exchange.ts'
import { ToolError, type Bodies, type ServiceConnection, type ToolBody } from '../kit/executor.ts'
import { watch } from '../kit/read-errors.ts'
import { mostTimeoutSeconds } from '../kit/tool.ts'
import type { JsonObject } from '../../policy/types.ts'
import { readFields, strictSchema } from './fields.ts'
import { tools } from './tools.ts'

const noCredit = [
  'llm_no_credit',
  'the account of the language model has no credit left: add credit there, or connect another account',
] as const
const tooLong = [
  'llm_too_long',
  'the text is longer than the model takes: shorten `prompt` or `system`',
] as const

/** For Anthropic, Ollama, OpenAI, and other servers that speak OpenAI's protocol. */
const llmErrors: Service = {
  prefix: 'llm',
  title: 'the service of the language model',
  address: '`provider` and `base_url` of the connection',
  refusals: {
    400: [
      'llm_refused',
      'the language model does not take this request: shorten the text, lower `max_tokens`, or use another model',
    ],
    402: noCredit,
    403: ['llm_forbidden', 'the account may not use this model: give it the right, or use another model'],
    404: [
      'llm_not_found',
      'the service has no such model, or is not at this address: check `model`, and `base_url` of the connection',
    ],
    413: tooLong,
    422: ['llm_refused', 'the language model does not take these values: check `model` and `max_tokens`'],
  },
  byWords: [
    { status: 400, words: /credit balance is too low/i, means: noCredit },
    { status: 400, words: /context_length_exceeded|prompt is too long/i, means: tooLong },
    { status: 429, words: /insufficient_quota/, means: noCredit },
  ],
}

/** A service may add its own to a prompt, for roles and rules. */
const addedTokens = 2_000

interface Asked {
  readonly prompt: string
  readonly system: string | undefined
}

interface Usage {
  /** Null if the service does not count the tokens. */
  readonly input_tokens: number | null
  readonly output_tokens: number | null
}

/** In currency units. A text has at most as many tokens as bytes. */
function mostCost(price: TokenPrice, { prompt, system = '' }: Asked, maxTokens: number): number {
  const bytes = Buffer.byteLength(prompt) + Buffer.byteLength(system)
  return inUnits(price, bytes + addedTokens, maxTokens)
}

/** At most `most`, which it is if the service has not counted the tokens. */
function costOf(price: TokenPrice, { input_tokens, output_tokens }: Usage, most: number): number {
  if (input_tokens === null || output_tokens === null) return most
  return Math.min(inUnits(price, input_tokens, output_tokens), most)
}

/** The database stores six decimal places. */
const inUnits = ({ input, output }: TokenPrice, inputTokens: number, outputTokens: number): number =>
  Math.ceil(input * inputTokens + output * outputTokens) / 1_000_000

const rounded = (cost: number): number => Math.round(cost * 1_000_000) / 1_000_000

interface Asking {
  readonly model: string
  readonly messages: readonly ModelMessage[]
  /** Null: the answer is text. */
  readonly output: JsonObject | null
  readonly system: string | undefined
  readonly maxTokens: number
  readonly fetch: Fetch
  readonly signal: AbortSignal
}

interface Generated {
  readonly text: string
  /** As the service names it. */
  readonly model: string
  readonly usage: Usage
}

/** They would list unsupported features of a model on the standard error. */
;(globalThis as { AI_SDK_LOG_WARNINGS?: unknown }).AI_SDK_LOG_WARNINGS = false

/** The library repeats nothing, records nothing, and reads no environment variable. */
async function generate(
  connection: Pick<ServiceConnection<'llm'>, 'credential' | 'base' | 'headers'>,
  { model, messages, output, system, maxTokens, fetch, signal }: Asking,
): Promise<Generated> {
  const { text, response, usage } = await generateText({
    model: modelOf(connection, model, fetch),
    ...(system === undefined ? {} : { instructions: system }),
    messages: [...messages],
    ...(output === null ? {} : { output: fieldsOutput(output) }),
    maxOutputTokens: maxTokens,
    maxRetries: 0,
    abortSignal: signal,
    telemetry: { isEnabled: false, recordInputs: false, recordOutputs: false },
  })
  return {
    // A line break at the end would become a part of a path or an address.
    text: text.trim(),
    model: response.modelId.slice(0, 200),
    usage: { input_tokens: tokens(usage.inputTokens), output_tokens: tokens(usage.outputTokens) },
  }
}

/** The text is read here, so that one that does not fit can be asked again. */
const fieldsOutput = (output: JsonObject) => ({
  ...Output.text(),
  responseFormat: Promise.resolve({ type: 'json' as const, name: 'answer', schema: strictSchema(output) }),
})

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
    supportsStructuredOutputs: true,
    ...(isOpenAi ? { transformRequestBody: withNewName } : {}),
  })(model)
}

/** For its newer models, OpenAI's own service refuses the old name. */
export const withNewName = ({
  max_tokens: max,
  ...body
}: Record<string, unknown>): Record<string, unknown> => ({ ...body, max_completion_tokens: max })

/** Null if the service does not count: the library then gives 0, although every text has a token. */
const tokens = (count: number | undefined): number | null =>
  count !== undefined && Number.isSafeInteger(count) && count > 0 ? count : null

/** The step's limit ends a request earlier (call-control.ts): `timeout_seconds`, or the tool's own. */
const exchangeMilliseconds = mostTimeoutSeconds * 1_000
/** The longest text of a model has a few MB. */
export const mostBytes = 8 * 1024 * 1024

/** An answer that does not fit `output` is asked again so often. */
const mostAgain = 2

/**
 * Reserves the highest possible cost of each request before its first byte leaves. The tokens of a readable answer then
 * decide. Without one, the reserved cost stays, unless the service has certainly done no work.
 */
const generateWithModel: ToolBody<'llm_generate'> = async (call, context) => {
  const { max_tokens: maxTokens = tools.llm_generate.defaults.max_tokens } = call.params
  const output = (call.params.output ?? null) as JsonObject | null
  const system = systemOf(call.params.system, output)
  const connection = await context.tools.connection(call, 'llm_generate', 'llm')
  const { credential } = connection
  const model = call.params.model ?? credential.model
  const price = context.tools.priceOf({ provider: credential.provider, model })
  if (price === null) throw noPrice()
  const { signal } = context
  const bounds = { milliseconds: exchangeMilliseconds, bytes: mostBytes, signal }
  let messages: (ModelMessage & { readonly content: string })[] = [
    { role: 'user', content: call.params.prompt },
  ]
  let spent = 0
  for (let again = 0; ; again += 1) {
    const most = mostCost(
      price,
      { prompt: messages.map(({ content }) => content).join(''), system },
      maxTokens,
    )
    await context.reserve(most)
    const watched = watch(connection.fetchWithin(bounds), llmErrors, () => connection.expired())
    const asking = { model, messages, output, system, maxTokens, fetch: watched.fetch, signal }
    const answer = await generate(connection, asking).catch(async (error: unknown) => {
      const read = await watched.errorOf(error, signal)
      if (!(read instanceof ToolError)) throw read
      throw read.withCost(rounded(spent + (watched.mayHaveWorked() ? most : 0)))
    })
    spent = rounded(spent + costOf(price, answer.usage, most))
    if (answer.text === '') throw noText(spent)
    if (output === null) return { output: answer, cost: spent }
    const read = readFields(output, answer.text)
    if ('data' in read) return { output: { ...answer, data: read.data }, cost: spent }
    if (again === mostAgain) throw misfit(read.misfit, answer.text, spent)
    const said = `Your answer cannot be used: ${read.misfit}. Answer again, with the whole object and nothing else.`
    messages = [
      ...messages.slice(0, 1),
      { role: 'assistant', content: answer.text },
      { role: 'user', content: said },
    ]
  }
}

/** Some services and models do not know the schema of the request, so the instructions have it too. */
const systemOf = (system: string | undefined, output: JsonObject | null): string | undefined =>
  output === null
    ? system
    : `${system === undefined ? '' : `${system}\n\n`}Answer with one JSON object and nothing else. It fits this JSON Schema:\n${JSON.stringify(strictSchema(output))}`

/** Field names of the answer are values too, so only the detail has the reason. */
const misfit = (reason: string, text: string, cost: number): ToolError =>
  new ToolError(
    'llm_misfit',
    `the model was asked ${mostAgain + 1} times, and no answer fits \`output\`: the last one stands with the error, for those who may see the values`,
    { cost, detail: { text, reason } },
  )

const noPrice = (): ToolError =>
  new ToolError(
    'llm_no_price',
    'the model has no price: use another model, or let the operator add this one to `LLM_PRICES`',
  )

const noText = (cost: number): ToolError =>
  new ToolError(
    'llm_no_text',
    'the model answered without text: raise `max_tokens`, change `prompt`, or use another model',
    { cost },
  )

export const run = { llm_generate: { body: generateWithModel } } satisfies Bodies<typeof tools>

import { mostTimeoutSeconds } from '../../contract/definition.ts'
import { defaultsOf } from '../../policy/tool-defaults.ts'
import { ToolError } from '../kit/executor.ts'
import type { ToolBody } from '../kit/params.ts'
import { watch } from '../kit/read-errors.ts'
import { costOf, mostCost } from './cost.ts'
import { llmErrors } from './errors.ts'

/**
 * The longest time of a request, in milliseconds. The time limit of the step ends a request earlier (call-control.ts):
 * `timeout_seconds` of the step, or the tool's own limit.
 */
const exchangeMilliseconds = mostTimeoutSeconds * 1_000
/** The largest answer, in bytes. The longest text of a model has a few MB. */
export const mostBytes = 8 * 1024 * 1024

/**
 * Asks the model once. Reserves the highest possible cost before a byte leaves. After a readable answer, the tokens
 * that the service counted decide the cost. Without such an answer, the call keeps the reserved cost, unless the
 * service has certainly done no work.
 */
export const generateWithModel: ToolBody<'llm_generate'> = async (call, context) => {
  const { prompt, system, max_tokens: maxTokens = defaultsOf.llm_generate.max_tokens } = call.params
  const connection = await context.tools.connection(call, 'llm_generate', 'llm')
  const { credential } = connection
  const model = call.params.model ?? credential.model
  const price = context.tools.priceOf({ provider: credential.provider, model })
  if (price === null) throw noPrice()
  const most = mostCost(price, { prompt, system }, maxTokens)
  // The library is loaded by the first call, because it takes 50 MB of a worker's memory.
  const { generate } = await import('./client.ts')
  await context.reserve(most)
  const { signal } = context
  const bounds = { milliseconds: exchangeMilliseconds, bytes: mostBytes, signal }
  const watched = watch(connection.fetchWithin(bounds), llmErrors, () => connection.expired())
  try {
    const output = await generate(connection, {
      model,
      prompt,
      system,
      maxTokens,
      fetch: watched.fetch,
      signal,
    })
    const cost = costOf(price, output.usage, most)
    if (output.text === '') throw noText(cost)
    return { output, cost }
  } catch (error) {
    const read = await watched.errorOf(error, signal)
    throw read instanceof ToolError && read !== error && watched.mayHaveWorked() ? read.withCost(most) : read
  }
}

const noPrice = (): ToolError =>
  new ToolError(
    'llm_no_price',
    'the model has no price: use another model, or let the operator add this one to `LLM_PRICES`',
    { retryable: false },
  )

const noText = (cost: number): ToolError =>
  new ToolError(
    'llm_no_text',
    'the model answered without text: raise `max_tokens`, change `prompt`, or use another model',
    { retryable: false, cost },
  )

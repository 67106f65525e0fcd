import type { TokenPrice } from '../../shared/model-prices.ts'

/** A service may add up to this many tokens of its own to a prompt, for example for roles and rules. */
const addedTokens = 2_000

interface Asked {
  readonly prompt: string
  readonly system?: string | undefined
}

export interface Usage {
  /** Is null if the service does not count the tokens. */
  readonly input_tokens: number | null
  readonly output_tokens: number | null
}

/**
 * Returns the highest possible cost of one request, in currency units. A token has at least one byte. So a text has at
 * most as many tokens as bytes.
 */
export function mostCost(price: TokenPrice, { prompt, system = '' }: Asked, maxTokens: number): number {
  const bytes = Buffer.byteLength(prompt) + Buffer.byteLength(system)
  return inUnits(price, bytes + addedTokens, maxTokens)
}

/** Returns the cost of an answer, but at most `most`. If the service has not counted the tokens, returns `most`. */
export function costOf(price: TokenPrice, { input_tokens, output_tokens }: Usage, most: number): number {
  if (input_tokens === null || output_tokens === null) return most
  return Math.min(inUnits(price, input_tokens, output_tokens), most)
}

/** Rounds the cost up to a millionth of a unit, because the database stores six decimal places. */
const inUnits = ({ input, output }: TokenPrice, inputTokens: number, outputTokens: number): number =>
  Math.ceil(input * inputTokens + output * outputTokens) / 1_000_000

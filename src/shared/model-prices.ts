import type { z } from 'zod'

/** In currency units for a million tokens. */
export interface TokenPrice {
  readonly input: number
  readonly output: number
}

export interface ModelPrice extends TokenPrice {
  /** `provider/model`. A star at the end stands for anything: `anthropic/claude-*`. */
  readonly models: string
}

/** A model without a known price counts as expensive. Ollama, only on hosts that the operator names, costs nothing. */
export const defaultModelPrices = 'ollama/*=0/0,*=5/25'

const mostEntries = 200
const entry =
  /^(\*|(?:anthropic|openai|ollama)\/[^\s,=]{1,200})=(\d{1,6}(?:\.\d{1,6})?)\/(\d{1,6}(?:\.\d{1,6})?)$/

/** `LLM_PRICES`: comma-separated `provider/model=input/output`. */
export function modelPrices(text: string, context: z.RefinementCtx): ModelPrice[] {
  const parts = text
    .split(',')
    .map((each) => each.trim())
    .filter((each) => each !== '')
  const wrong = (message: string): void => context.addIssue({ code: 'custom', message })
  if (parts.length > mostEntries) wrong(`it has more than ${mostEntries} prices`)
  return parts.slice(0, mostEntries).flatMap((part) => {
    const [, models, input, output] = entry.exec(part) ?? []
    if (models !== undefined && !models.slice(0, -1).includes('*'))
      return [{ models, input: Number(input), output: Number(output) }]
    wrong(
      `\`${part}\` is no price: write for example \`anthropic/claude-*=3/15,*=5/25\`, units for a million tokens of input and of output`,
    )
    return []
  })
}

/** The first that matches. */
export function priceOf(
  prices: readonly ModelPrice[],
  { provider, model }: { readonly provider: string; readonly model: string },
): ModelPrice | null {
  const name = `${provider}/${model}`
  const names = ({ models }: ModelPrice): boolean =>
    models.endsWith('*') ? name.startsWith(models.slice(0, -1)) : name === models
  return prices.find(names) ?? null
}

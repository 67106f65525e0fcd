import { z } from 'zod'
import { usualErrors } from '../kit/errors.ts'
import { baseUrl, defineIntegration, ifItHasTheCall, secret } from '../kit/integration.ts'

const model = z.string().min(1).max(200).describe('The model of calls that name none.')

const provider = z.discriminatedUnion('provider', [
  z.strictObject({ provider: z.literal('anthropic'), api_key: secret, base_url: baseUrl.optional(), model }),
  z.strictObject({
    provider: z.literal('openai'),
    api_key: secret.optional().describe('Servers that speak the same protocol may need none.'),
    base_url: baseUrl
      .optional()
      .describe('Any server that speaks OpenAI’s protocol; default `https://api.openai.com/v1`.'),
    model,
  }),
  z.strictObject({
    provider: z.literal('ollama'),
    api_key: secret.optional(),
    base_url: baseUrl.optional().describe('Default `http://127.0.0.1:11434`.'),
    model,
  }),
])
type Credential = z.output<typeof provider>

const bases = {
  anthropic: 'https://api.anthropic.com/v1',
  openai: 'https://api.openai.com/v1',
  ollama: 'http://127.0.0.1:11434',
} as const

const models = { anthropic: '/models', openai: '/models', ollama: '/api/tags' } as const

export const llm = defineIntegration<Credential>({
  name: 'llm',
  title: 'the language model',
  credential: provider,
  addresses: (given) => [given.base_url ?? bases[given.provider]],
  // Even the default is a machine of the operator.
  ownAddresses: ({ provider: name }) => (name === 'ollama' ? [] : [bases[name]]),
  headers(given) {
    const key = given.api_key
    if (given.provider === 'anthropic')
      return { 'x-api-key': given.api_key, 'anthropic-version': '2023-06-01' }
    return key === undefined ? {} : { authorization: `Bearer ${key}` }
  },
  async check(given, ask) {
    const answer = await ask({ method: 'GET', path: models[given.provider] })
    return ifItHasTheCall(answer, () => given.provider)
  },
  errors: {
    ...usualErrors('llm', '`provider` or `base_url`'),
    llm_no_credit: ['credential', 'add credit at the service'],
    llm_forbidden: ['credential', 'give the account the right'],
    llm_not_found: ['credential', 'check `model` and `base_url`'],
    llm_refused: ['caller', 'change the prompt'],
    llm_too_long: ['caller', 'shorten the prompt'],
    llm_no_text: ['caller', 'raise `max_tokens`, or change the prompt'],
    llm_misfit: ['caller', 'change the prompt or `output`'],
    llm_no_price: ['installation', 'use another model, or ask the operator for a price'],
  },
})

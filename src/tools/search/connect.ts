import { z } from 'zod'
import { usualErrors } from '../kit/errors.ts'
import { baseUrl, defineIntegration, ifItHasTheCall, secret } from '../kit/integration.ts'

const provider = z.discriminatedUnion('provider', [
  z.strictObject({
    provider: z.literal('searxng'),
    api_key: secret
      .optional()
      .describe('Sent as a bearer token, for an instance behind a proxy that wants one.'),
    base_url: baseUrl.describe('The address of the instance. Its settings must allow the format `json`.'),
  }),
  z.strictObject({ provider: z.literal('brave'), api_key: secret, base_url: baseUrl.optional() }),
  z.strictObject({ provider: z.literal('tavily'), api_key: secret, base_url: baseUrl.optional() }),
])
type Credential = z.output<typeof provider>

const bases = { brave: 'https://api.search.brave.com', tavily: 'https://api.tavily.com' } as const

export const search = defineIntegration<Credential>({
  name: 'search',
  title: 'web search',
  credential: provider,
  addresses: (given) => [
    given.provider === 'searxng' ? given.base_url : (given.base_url ?? bases[given.provider]),
  ],
  ownAddresses: ({ provider: name }) => (name === 'searxng' ? [] : [bases[name]]),
  headers(given) {
    if (given.provider === 'brave')
      return { 'x-subscription-token': given.api_key, accept: 'application/json' }
    return {
      accept: 'application/json',
      ...(given.api_key === undefined ? {} : { authorization: `Bearer ${given.api_key}` }),
    }
  },
  async check(given, ask) {
    const account = (): string => given.provider
    // Brave counts every request as a search, so the key is not checked.
    if (given.provider === 'brave') return { kind: 'account', account: account() }
    if (given.provider === 'tavily')
      return ifItHasTheCall(await ask({ method: 'GET', path: '/usage' }), account)
    const answer = await ask({ method: 'GET', path: '/search?q=countersign&format=json' })
    if (answer.status === 403)
      return {
        kind: 'refused',
        why: 'it answered 403: allow the format `json` in its settings (`search.formats`)',
      }
    return answer.status === 404 || answer.json === undefined
      ? { kind: 'unclear', status: answer.status }
      : ifItHasTheCall(answer, account)
  },
  errors: {
    ...usualErrors('search', '`provider` or `base_url`'),
    search_no_credit: ['credential', 'add credit at the service'],
    search_forbidden: ['credential', 'give the account the right'],
    search_not_found: ['credential', 'check `base_url`'],
    search_refused: ['caller', 'change the query'],
  },
})

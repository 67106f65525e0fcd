import { z } from 'zod'
import type { CredentialOf } from '../index.ts'
import type { Service } from '../kit/exchange.ts'
import { ToolError, type Bodies, type ServiceConnection, type ToolBody } from '../kit/executor.ts'
import { watch } from '../kit/read-errors.ts'
import { mostResults, mostSearches, tools } from './tools.ts'

const noCredit = [
  'search_no_credit',
  'the account has no searches left: raise its plan at the search service, or connect another account',
] as const

/** SearXNG, Brave and Tavily. */
const searchErrors: Service = {
  prefix: 'search',
  title: 'the search service',
  address: '`provider` and `base_url` of the connection',
  refusals: {
    400: ['search_refused', 'the search service does not take this query: shorten or change it'],
    402: noCredit,
    403: [
      'search_forbidden',
      'the search service does not allow this: give the account the right to search; for SearXNG, allow the format `json` in its settings',
    ],
    404: [
      'search_not_found',
      'there is no search service at the address: check `base_url` of the connection',
    ],
    414: ['search_refused', 'the query is too long for the search service: shorten it'],
    422: ['search_refused', 'the search service does not take this query: shorten or change it'],
    432: noCredit,
    433: noCredit,
  },
  byWords: [{ status: 422, words: /SUBSCRIPTION_TOKEN_INVALID/, means: 'expired' }],
}

/** `path` is below the base address. */
interface SearchRequest {
  readonly path: string
  /** Sent as JSON with POST; without it, a GET. */
  readonly body?: object
}

interface FoundPage {
  readonly title: string
  readonly url: string
  readonly snippet: string
}

interface SearchProvider {
  /** Results of one request; null if the service decides. */
  readonly most: number | null
  readonly hasPages: boolean
  /** `page` counts from 0. */
  request(query: string, page: number, count: number): SearchRequest
  readonly form: z.ZodType<readonly FoundPage[]>
}

const text = z
  .string()
  .nullish()
  .transform((value) => value ?? '')

const results = z.array(
  z
    .object({ title: text, url: text, content: text, description: text })
    .transform(({ content, description, ...rest }) => ({ ...rest, snippet: content || description })),
)

const listed = z.object({ results }).transform((answer) => answer.results)

const query = (path: string, params: Readonly<Record<string, string>>): string =>
  `${path}?${new URLSearchParams(params).toString()}`

const providers: { readonly [Name in CredentialOf<'search'>['provider']]: SearchProvider } = {
  searxng: {
    most: null,
    hasPages: true,
    request: (q, page) => ({ path: query('/search', { q, format: 'json', pageno: String(page + 1) }) }),
    form: listed,
  },
  brave: {
    most: 20,
    hasPages: true,
    request: (q, page, count) => ({
      path: query('/res/v1/web/search', {
        q,
        count: String(count),
        offset: String(page),
        result_filter: 'web',
        text_decorations: 'false',
      }),
    }),
    // Brave's answer has no `web` if there are no results.
    form: z
      .object({ type: z.literal('search'), web: z.object({ results }).nullish() })
      .transform(({ web }) => web?.results ?? []),
  },
  tavily: {
    most: 20,
    hasPages: false,
    request: (words, _page, count) => ({ path: '/search', body: { query: words, max_results: count } }),
    form: listed,
  },
}

/** Three of these fit into the tool's time limit. */
const exchangeMilliseconds = 30_000
export const mostBytes = 4 * 1024 * 1024

/** A later page that fails is left out: services allow few searches in a second and count each. */
const searchWeb: ToolBody<'web_search'> = async (call, context) => {
  const { query, limit = tools.web_search.defaults.limit } = call.params
  const connection = await context.tools.connection(call, 'web_search', 'search')
  const { most, hasPages } = providers[connection.credential.provider]
  const count = Math.min(limit, most ?? mostResults)
  const found = new Map<string, FoundPage>()
  for (let page = 0; page < (hasPages ? mostSearches : 1) && found.size < limit; page += 1) {
    const results = await search(connection, { query, page, count }, context.signal).catch(
      (error: unknown) => {
        if (page > 0 && error instanceof ToolError && error.retryable) return []
        throw error
      },
    )
    const before = found.size
    for (const result of results) addBounded(found, result)
    const isLast = found.size === before || (most !== null && results.length < count)
    if (isLast) break
  }
  return { output: { results: [...found.values()].slice(0, limit) } }
}

async function search(
  { credential, base, headers, fetchWithin, expired }: ServiceConnection<'search'>,
  { query, page, count }: { readonly query: string; readonly page: number; readonly count: number },
  signal: AbortSignal,
): Promise<readonly FoundPage[]> {
  const provider = providers[credential.provider]
  const { path, body } = provider.request(query, page, count)
  const bounds = { milliseconds: exchangeMilliseconds, bytes: mostBytes, signal }
  const watched = watch(fetchWithin(bounds), searchErrors, expired)
  try {
    const answer = await watched.fetch(`${base}${path}`, {
      headers: { 'user-agent': 'countersign', 'content-type': 'application/json', ...headers },
      ...(body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) }),
    })
    if (answer.ok) return provider.form.parse(await answer.json())
    throw new Error('refused')
  } catch (error) {
    throw await watched.errorOf(error, signal)
  }
}

const longest = { title: 500, url: 2_048, snippet: 4_000 }

/** Only links to pages. Anybody on the web may have written the texts. */
function addBounded(found: Map<string, FoundPage>, { title, url, snippet }: FoundPage): void {
  const isPage = url.length <= longest.url && URL.canParse(url) && /^https?:$/.test(new URL(url).protocol)
  if (!isPage || found.has(url)) return
  found.set(url, { title: cut(title, longest.title), url, snippet: cut(snippet, longest.snippet) })
}

/** One line, without control characters and halves of surrogate pairs. */
const cut = (text: string, most: number): string =>
  text
    .replace(/[\p{Cc}\s]+/gu, ' ')
    .trim()
    .slice(0, most)
    .toWellFormed()

export const run = { web_search: { body: searchWeb } } satisfies Bodies<typeof tools>

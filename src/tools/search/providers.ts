import { z } from 'zod'
import type { CredentialOf } from '../integrations.ts'

/** One request for results. `path` is below the base address of the service's API. */
interface SearchRequest {
  readonly path: string
  /** The body is sent as JSON with POST. A request without a body is a GET. */
  readonly body?: object
}

export interface FoundPage {
  readonly title: string
  readonly url: string
  readonly snippet: string
}

/**
 * Describes the requests to one search service, and the fields that are read in its answers. Other fields are ignored.
 */
export interface SearchProvider {
  /** The maximum number of results of one request. Is null if the service decides this number. */
  readonly most: number | null
  /** Whether the service gives more pages than the first one. */
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

export const providers: { readonly [Name in CredentialOf<'search'>['provider']]: SearchProvider } = {
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

import { mostResults, mostSearches } from './tools.ts'
import { defaultsOf } from '../../policy/tool-defaults.ts'
import { ToolError, type ServiceConnection } from '../kit/executor.ts'
import type { ToolBody } from '../kit/params.ts'
import { watch } from '../kit/read-errors.ts'
import { searchErrors } from './errors.ts'
import { providers, type FoundPage } from './providers.ts'

/** The longest time of one search request in milliseconds. Three of these requests fit into the tool's time limit. */
const exchangeMilliseconds = 30_000
/** The largest answer, in bytes. */
export const mostBytes = 4 * 1024 * 1024

/**
 * Asks for pages of results until there are enough, but for at most `mostSearches` pages. If a page after the first
 * page fails with a retryable error, the results of the earlier pages are returned. The call is not repeated for the
 * failed page, because services allow few searches in a second and count each of them.
 */
export const searchWeb: ToolBody<'web_search'> = async (call, context) => {
  const { query, limit = defaultsOf.web_search.limit } = call.params
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

/**
 * Adds a result if it is a link to a page (`http` or `https`). Cuts the texts, because anybody on the web may have
 * written them.
 */
function addBounded(found: Map<string, FoundPage>, { title, url, snippet }: FoundPage): void {
  const isPage = url.length <= longest.url && URL.canParse(url) && /^https?:$/.test(new URL(url).protocol)
  if (!isPage || found.has(url)) return
  found.set(url, { title: cut(title, longest.title), url, snippet: cut(snippet, longest.snippet) })
}

/** Cuts a text to one line of at most `most` characters. Removes control characters and halves of surrogate pairs. */
const cut = (text: string, most: number): string =>
  text
    .replace(/[\p{Cc}\s]+/gu, ' ')
    .trim()
    .slice(0, most)
    .toWellFormed()

import { z } from 'zod'
import { defineTool } from '../kit/tool.ts'

/** Maximum number of requests that one call sends to the search service. Each request returns one page of results. */
export const mostSearches = 3
export const mostResults = 50

/** Anybody can write the pages that a web search finds, so the results of this tool are `untrusted`. */
export const webSearch = defineTool({
  name: 'web_search',
  description: 'Searches the web; at most three pages of results.',
  sideEffect: 'read',
  outputLabels: ['untrusted'],
  params: z.strictObject({
    query: z.string().min(1).max(1000),
    limit: z.int().min(1).max(mostResults).optional().describe('Maximum number of results; default 10.'),
  }),
  output: z.strictObject({
    results: z.array(z.strictObject({ title: z.string(), url: z.string(), snippet: z.string() })),
  }),
  categories: [],
  risk: 'low',
  constraints: { max_response_size_kb: {} },
  repeat: 'free',
  reversible: 'yes',
  connection: 'search',
  hasExecutor: true,
  timeoutSeconds: 90,
})

import { z } from 'zod'
import { byName, defineTool } from '../kit/tool.ts'

/** Requests of one call, each for one page of results. */
export const mostSearches = 3
export const mostResults = 50

export const tools = byName(
  /** Anybody can write the pages that a search finds. */
  defineTool({
    name: 'web_search',
    description: 'Searches the web; at most three pages of results.',
    sideEffect: 'read',
    outputLabels: ['untrusted'],
    params: z.strictObject({
      query: z.string().min(1).max(1000),
      limit: z.int().min(1).max(mostResults).optional().describe('Maximum number of results; default 10.'),
    }),
    defaults: { limit: 10 },
    freeTexts: ['query'],
    output: z.strictObject({
      results: z.array(z.strictObject({ title: z.string(), url: z.string(), snippet: z.string() })),
    }),
    categories: [],
    risk: 'low',
    constraints: { max_response_size_kb: {} },
    repeat: 'free',
    reversible: 'yes',
    connection: 'search',
    timeoutSeconds: 90,
  }),
)

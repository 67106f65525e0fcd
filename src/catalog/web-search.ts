import { z } from 'zod'
import { defineTool } from './tool.ts'

/** Anybody can write what a search of the web finds, so its results are `untrusted`. */
export const webSearch = defineTool({
  name: 'web_search',
  description: 'Searches the web.',
  sideEffect: 'read',
  outputLabels: ['untrusted'],
  params: z.strictObject({
    query: z.string().min(1).max(1000),
    limit: z.int().min(1).max(50).optional().describe('Maximum number of results; default 10.'),
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
  hasExecutor: false,
  timeoutSeconds: 90,
})

import { z } from 'zod'
import { defineTool } from './tool.ts'

/** Tokens of an answer, for a call that does not say. It bounds what a call can cost. */
export const defaultMaxTokens = 4_096

/** A service that does not count says null. */
const tokens = z.int().nullable()

/** Its output carries the labels of its inputs, like the output of every tool, and adds none. */
export const llmGenerate = defineTool({
  name: 'llm_generate',
  description: 'Asks a language model. Its cost counts for the organization’s month.',
  sideEffect: 'read',
  outputLabels: [],
  params: z.strictObject({
    prompt: z.string().min(1).max(1_000_000),
    system: z.string().max(100_000).optional().describe('Instructions for the model.'),
    model: z.string().min(1).max(200).optional().describe('Default: the model of the connection.'),
    max_tokens: z
      .int()
      .min(1)
      .max(200_000)
      .optional()
      .describe(`Maximum length of the answer in tokens; default ${defaultMaxTokens}.`),
  }),
  output: z.strictObject({
    text: z.string(),
    model: z.string(),
    usage: z.strictObject({ input_tokens: tokens, output_tokens: tokens }),
  }),
  categories: [],
  risk: 'low',
  constraints: { max_response_size_kb: {} },
  repeat: 'free',
  reversible: 'yes',
  connection: 'llm',
  hasExecutor: true,
  timeoutSeconds: 300,
})

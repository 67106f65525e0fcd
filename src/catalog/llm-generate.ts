import { z } from 'zod'
import { defineTool } from './tool.ts'

/** Its output carries the labels of its inputs, like the output of every tool, and adds none. */
export const llmGenerate = defineTool({
  name: 'llm_generate',
  description: 'Asks a language model.',
  sideEffect: 'read',
  outputLabels: [],
  params: z.strictObject({
    prompt: z.string().min(1).max(1_000_000),
    system: z.string().max(100_000).optional().describe('Instructions for the model.'),
    model: z.string().min(1).max(200).optional().describe('Default: the model of the connection.'),
    max_tokens: z.int().min(1).max(200_000).optional().describe('Maximum length of the answer.'),
  }),
  output: z.strictObject({
    text: z.string(),
    model: z.string(),
    usage: z.strictObject({ input_tokens: z.int(), output_tokens: z.int() }),
  }),
  categories: [],
  risk: 'low',
  constraints: { max_response_size_kb: {} },
  repeat: 'free',
  reversible: 'yes',
  connection: 'llm',
  hasExecutor: false,
  timeoutSeconds: 300,
})

import { z } from 'zod'
import type { JsonObject } from '../../policy/types.ts'
import { anyJson, byName, defineTool } from '../kit/tool.ts'
import { outputSchema, strictSchema } from './fields.ts'

const tokens = z.int().nullable()

export const tools = byName(
  /** Adds no labels to those of its inputs. */
  defineTool({
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
        .describe('Maximum length of the answer in tokens; default 4096.'),
      output: outputSchema.optional(),
    }),
    // Bounds the cost of a call that does not set `max_tokens`.
    defaults: { max_tokens: 4_096 },
    freeTexts: ['prompt', 'system'],
    output: z.strictObject({
      text: z.string(),
      data: z.record(z.string(), anyJson).optional().describe('With `output`: the fields of the answer.'),
      model: z.string(),
      usage: z.strictObject({ input_tokens: tokens, output_tokens: tokens }),
    }),
    formOf: ({ output }) => ({
      data: output === undefined ? null : strictSchema(output as JsonObject),
    }),
    categories: [],
    risk: 'low',
    constraints: { max_response_size_kb: {} },
    repeat: 'free',
    reversible: 'yes',
    connection: 'llm',
    timeoutSeconds: 300,
  }),
)

import { z } from 'zod'
import { memoryKey } from './key.ts'
import { anyJson, defineTool } from '../kit/tool.ts'

/**
 * Reads a value stored by `memory_set` or `PUT /memory/{key}`. The output carries the labels that are stored with the
 * value. The tool itself adds no label.
 */
export const memoryGet = defineTool({
  name: 'memory_get',
  description: 'Reads a value from the organization’s memory; null if the key has none.',
  sideEffect: 'read',
  outputLabels: [],
  params: z.strictObject({ key: memoryKey.describe('Name of the value.') }),
  output: z.strictObject({
    key: z.string(),
    value: anyJson.describe('Any JSON value; null if the key has none.'),
  }),
  categories: [],
  risk: 'medium',
  constraints: { max_response_size_kb: {} },
  repeat: 'free',
  reversible: 'yes',
  connection: 'none',
  hasExecutor: true,
  timeoutSeconds: 10,
})

import { z } from 'zod'
import { memoryKey } from './memory-key.ts'
import { defineTool } from './tool.ts'

/**
 * Reads a value kept by `memory_set` or `PUT /memory/{key}`. No labels of its own: the labels that were stored with
 * the value travel with it (contract section 8).
 */
export const memoryGet = defineTool({
  name: 'memory_get',
  description: 'Reads a value of the organization’s memory; null if nothing is kept under the key.',
  sideEffect: 'read',
  outputLabels: [],
  params: z.strictObject({ key: memoryKey.describe('Name of the value.') }),
  categories: [],
  risk: 'medium',
  constraints: ['max_response_size_kb'],
  repeat: 'free',
  connection: 'none',
  timeoutSeconds: 10,
})

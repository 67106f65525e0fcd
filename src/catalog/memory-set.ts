import { z } from 'zod'
import { maxMemoryValueLength, memoryKey } from './memory-key.ts'
import { defineTool } from './tool.ts'

/** Keeps a value under a key; the call's labels stay with it (contract section 8). Replaces value and labels together. */
export const memorySet = defineTool({
  name: 'memory_set',
  description: 'Keeps a value in the organization’s memory, together with its labels.',
  sideEffect: 'write',
  outputLabels: [],
  params: z.strictObject({
    key: memoryKey.describe('Name of the value.'),
    value: z
      .json()
      .refine((value) => JSON.stringify(value).length <= maxMemoryValueLength, {
        error: `a value takes at most ${maxMemoryValueLength} characters as JSON; keep large documents in files`,
      })
      .describe('Any JSON value.'),
  }),
  categories: [],
  risk: 'low',
  constraints: ['read_only'],
  repeat: 'transactional',
  connection: 'none',
  timeoutSeconds: 10,
})

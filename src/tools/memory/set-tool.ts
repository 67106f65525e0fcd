import { z } from 'zod'
import { maxMemoryValueLength, memoryKey } from './key.ts'
import { quoted } from '../kit/preview.ts'
import { defineTool } from '../kit/tool.ts'

/**
 * Stores a value under a key. If an admin or owner started the run, the call's labels replace the key's labels.
 * Otherwise, the call's labels are added to the key's labels.
 */
export const memorySet = defineTool({
  name: 'memory_set',
  description: 'Stores a value in the organization’s memory, together with its labels.',
  sideEffect: 'write',
  outputLabels: [],
  params: z.strictObject({
    key: memoryKey.describe('Name of the value.'),
    // `z.json()` is not used, because it takes ten times as long. The parameters have already been checked to be JSON.
    value: z
      .unknown()
      .refine((value) => value !== undefined, { error: 'is missing', abort: true })
      .refine((value) => JSON.stringify(value).length <= maxMemoryValueLength, {
        error: `must have at most ${maxMemoryValueLength.toLocaleString('en-US')} characters as JSON: keep large documents in files`,
      })
      .describe('Any JSON value.'),
  }),
  output: z.strictObject({ key: z.string() }),
  categories: [],
  risk: 'low',
  constraints: { read_only: {} },
  repeat: 'transactional',
  // The old value is not kept, so a person must restore it.
  reversible: 'by hand',
  precondition: { of: 'the value in the memory', check: 'transaction' },
  preview: ({ key, value }) => ({ title: `Store a value under ${quoted(key)}`, fields: { key, value } }),
  connection: 'none',
  hasExecutor: true,
  timeoutSeconds: 10,
})

import { z } from 'zod'
import { quoted } from '../kit/preview.ts'
import { anyJson, byName, defineTool } from '../kit/tool.ts'

/** Characters of JSON. */
export const maxMemoryValueLength = 1_000_000

export const memoryKey = z
  .string()
  .min(1)
  .max(256)
  .regex(/^\P{Cc}*$/u, 'must not contain control characters')

export const tools = byName(
  /** The output carries the labels that are stored with the value; the tool adds none. */
  defineTool({
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
    timeoutSeconds: 10,
  }),

  /** If an admin or owner started the run, the call's labels replace the key's; otherwise they are added. */
  defineTool({
    name: 'memory_set',
    description: 'Stores a value in the organization’s memory, together with its labels.',
    sideEffect: 'write',
    outputLabels: [],
    params: z.strictObject({
      key: memoryKey.describe('Name of the value.'),
      // `z.json()` takes ten times as long, and the parameters are known to be JSON.
      value: z
        .unknown()
        .refine((value) => value !== undefined, { error: 'is missing', abort: true })
        .refine((value) => JSON.stringify(value).length <= maxMemoryValueLength, {
          error: `must have at most ${maxMemoryValueLength.toLocaleString('en-US')} characters as JSON: keep large documents in files`,
        })
        .describe('Any JSON value.'),
      if_absent: z.boolean().optional().describe('true: stores nothing if the key has a value.'),
    }),
    output: z.strictObject({
      key: z.string(),
      set: z.boolean().describe('false: the key had a value, and `if_absent` was true.'),
    }),
    categories: [],
    risk: 'low',
    constraints: { read_only: {} },
    repeat: 'transactional',
    // The old value is not kept.
    reversible: 'by hand',
    precondition: { of: 'the value in the memory', check: 'transaction' },
    preview: ({ key, value, if_absent: ifAbsent }) => ({
      title: `Store a value under ${quoted(key)}${ifAbsent === true ? ', if it has none' : ''}`,
      fields: { key, value },
    }),
    connection: 'none',
    timeoutSeconds: 10,
  }),
)

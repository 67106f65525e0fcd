import { z } from 'zod'
import { maxMemoryValueLength } from '../../tools/memory/tools.ts'
import { labelSlug } from '../../policy/text.ts'
import { mostLabels } from '../../policy/types.ts'
import { anyJson } from './common.ts'

const value = anyJson
  .refine((given) => given !== undefined, 'is missing')
  .refine(
    (given) => given === undefined || JSON.stringify(given).length <= maxMemoryValueLength,
    `takes at most ${maxMemoryValueLength} characters as JSON; keep large documents in files`,
  )

export const memoryBody = z.strictObject({ value, labels: z.array(labelSlug).max(mostLabels).optional() })

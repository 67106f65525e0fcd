import { z } from 'zod'

/** Longest JSON text of a memory value, in characters. */
export const maxMemoryValueLength = 1_000_000

/** Key of a memory value: 1 to 256 characters, no control characters. */
export const memoryKey = z
  .string()
  .min(1)
  .max(256)
  .regex(/^\P{Cc}*$/u, 'must not contain control characters')

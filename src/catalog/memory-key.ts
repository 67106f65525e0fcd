import { z } from 'zod'

/** Longest JSON text of a remembered value, in characters. */
export const maxMemoryValueLength = 1_000_000

/** Key of a remembered value: any text without control characters (they neither print nor store), 1 to 256 characters. */
export const memoryKey = z
  .string()
  .min(1)
  .max(256)
  .regex(/^\P{Cc}+$/u, 'a key has no control characters')

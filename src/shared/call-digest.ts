import { createHash } from 'node:crypto'

/** 32 characters of `0-9` and `a-f` that name a call at a service. A hash shows no names, but is no secret. */
export const callDigest = (idempotencyKey: string): string =>
  createHash('sha256').update(idempotencyKey).digest('hex').slice(0, 32)

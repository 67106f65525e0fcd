import { sql, type Transaction } from 'kysely'
import type { Database } from '../../db/schema/index.ts'
import type { Label } from '../../policy/types.ts'
import type { Exceeded } from './run-quota.ts'

/** There is room again once values are taken away, whenever that is. */
const retryAfterSeconds = 60

interface Entry {
  readonly key: string
  readonly text: string
  readonly labels: readonly Label[]
}

/**
 * Whether keeping `text` under `key` would take the organization's values, keys and labels included, over `memory_mb`; null if there
 * is room. A value that grows smaller is kept over the limit too. Under the organization's lock.
 */
export async function memoryOver(
  trx: Transaction<Database>,
  organizationId: string,
  entry: Entry,
  limit: number,
): Promise<Exceeded | null> {
  const { used, more } = await growthOf(trx, organizationId, entry)
  if (more <= 0 || used + more <= limit * 1024 ** 2) return null
  return { limit: 'memory_mb', value: limit, retryAfter: retryAfterSeconds }
}

/** How many bytes more keeping `text` under `key` would take than what is there; below 0 for fewer. */
export const memoryGrowth = async (
  trx: Transaction<Database>,
  organizationId: string,
  entry: Entry,
): Promise<number> => (await growthOf(trx, organizationId, entry)).more

async function growthOf(
  trx: Transaction<Database>,
  organizationId: string,
  { key, text, labels }: Entry,
): Promise<{ used: number; more: number }> {
  const { rows } = await sql<{ used: number; before: number }>`
    select coalesce((select bytes from memory_usage where organization_id = ${organizationId}), 0) as used,
           coalesce((select memory_bytes(key, value_sealed, value, labels) from memory
                     where organization_id = ${organizationId} and key = ${key}), 0) as before`.execute(trx)
  const { used, before } = rows[0] as { used: number; before: number }
  const size = (each: string): number => Buffer.byteLength(each)
  return { used, more: size(key) + size(text) + size(labels.join(' ')) - before }
}

import { sql, type Transaction } from 'kysely'
import type { Database } from '../../db/schema/index.ts'
import type { Label } from '../../policy/types.ts'
import type { Exceeded } from './run-quota.ts'

/** There is room again once values are taken away, whenever that is. */
const retryAfterSeconds = 60

/**
 * Whether keeping `text` under `key` would take the organization's values, keys and labels included, over `memory_mb`; null if there
 * is room. A value that grows smaller is kept over the limit too. Under the organization's lock.
 */
export async function memoryOver(
  trx: Transaction<Database>,
  organizationId: string,
  entry: { readonly key: string; readonly text: string; readonly labels: readonly Label[] },
  limit: number,
): Promise<Exceeded | null> {
  const { rows } = await sql<{ used: number; before: number }>`
    select coalesce((select bytes from memory_usage where organization_id = ${organizationId}), 0) as used,
           coalesce((select memory_bytes(key, value_sealed, value, labels) from memory
                     where organization_id = ${organizationId} and key = ${entry.key}), 0) as before`.execute(
    trx,
  )
  const { used, before } = rows[0] as { used: number; before: number }
  const size = (text: string): number => Buffer.byteLength(text)
  const more = size(entry.key) + size(entry.text) + size(entry.labels.join(' ')) - before
  if (more <= 0 || used + more <= limit * 1024 ** 2) return null
  return { limit: 'memory_mb', value: limit, retryAfter: retryAfterSeconds }
}

import { sql, type Transaction } from 'kysely'
import type { Database } from '../../db/schema/index.ts'
import type { Label } from '../../policy/types.ts'
import type { Exceeded } from '../limits/run-quota.ts'

/**
 * A refused caller may try again after this many seconds. This is a guess, because memory becomes free only when
 * somebody deletes or shortens a value.
 */
const retryAfterSeconds = 60

interface Entry {
  readonly key: string
  readonly text: string
  readonly labels: readonly Label[]
}

/**
 * Returns the limit `memory_mb` if storing the entry would exceed it, else null. The limit counts values, keys and
 * labels. A change that does not enlarge the organization's memory is accepted even above the limit. Call this function
 * under the organization's lock.
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

/**
 * Returns the number of bytes by which storing the entry would enlarge the organization's memory. The number is
 * negative if the memory would become smaller.
 */
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
           coalesce((select memory_bytes(key, value_sealed, labels) from memory
                     where organization_id = ${organizationId} and key = ${key}), 0) as before`.execute(trx)
  const { used, before } = rows[0] as { used: number; before: number }
  const size = (each: string): number => Buffer.byteLength(each)
  return { used, more: size(key) + size(text) + size(labels.join(' ')) - before }
}

import type { Context } from '../context.ts'
import { unionLabels, type Json, type Label } from '../policy/types.ts'
import { sha256 } from './canonical.ts'
import type { ChainTx } from './chain-tx.ts'
import { notFound } from './errors.ts'
import { actorOf, type Caller } from './identity.ts'
import { memoryOver } from './quotas/memory-room.ts'
import { growAs } from './quotas/storage.ts'
import { runAs } from './standing.ts'

/** A remembered value with the labels that stay with it (contract section 8). */
export interface MemoryView {
  readonly key: string
  readonly value: Json
  readonly labels: readonly Label[]
  readonly updated_at: string
}

export async function readMemory(context: Context, organizationId: string, key: string): Promise<MemoryView> {
  const row = await context.db
    .selectFrom('memory')
    .select(['key', 'value', 'labels', 'updated_at'])
    .where('organization_id', '=', organizationId)
    .where('key', '=', key)
    .executeTakeFirst()
  if (row === undefined) throw notFound('value', key)
  const value = JSON.parse(row.value) as Json
  return { key: row.key, value, labels: row.labels, updated_at: row.updated_at.toISOString() }
}

/**
 * Keeps a value under a key, in place of what was there; `labels` null leaves those that were there. Throws `quota_exceeded` for one that
 * the organization has no room for.
 */
export async function setMemory(
  context: Context,
  caller: Caller,
  entry: { readonly key: string; readonly value: Json; readonly labels: readonly Label[] | null },
): Promise<MemoryView> {
  const text = JSON.stringify(entry.value)
  return growAs(context, caller, 'org.change', {
    action: 'set',
    bytes: text.length,
    room: (tx) =>
      memoryOver(tx.trx, caller.organizationId, { key: entry.key, text }, tx.policy.limits.memory_mb),
    async work(tx) {
      const labels = entry.labels === null ? await labelsOf(tx, entry.key) : unionLabels(entry.labels)
      const row = { value: text, labels, updated_at: tx.now, updated_by: caller.userId }
      await tx.trx
        .insertInto('memory')
        .values({ organization_id: caller.organizationId, key: entry.key, ...row })
        .onConflict((conflict) => conflict.columns(['organization_id', 'key']).doUpdateSet(row))
        .execute()
      tx.append({
        eventType: 'memory.set',
        action: 'set',
        status: 'success',
        actor: actorOf(caller),
        metadata: { key: entry.key, value_hash: sha256(text), labels },
      })
      return { key: entry.key, value: entry.value, labels, updated_at: tx.now.toISOString() }
    },
  })
}

async function labelsOf(tx: ChainTx, key: string): Promise<Label[]> {
  const row = await tx.trx
    .selectFrom('memory')
    .select('labels')
    .where('organization_id', '=', tx.organizationId)
    .where('key', '=', key)
    .executeTakeFirst()
  return row?.labels ?? []
}

export async function deleteMemory(context: Context, caller: Caller, key: string): Promise<void> {
  await runAs(context, caller, 'org.change', async (tx) => {
    const { numDeletedRows } = await tx.trx
      .deleteFrom('memory')
      .where('organization_id', '=', caller.organizationId)
      .where('key', '=', key)
      .executeTakeFirstOrThrow()
    if (numDeletedRows === 0n) throw notFound('value', key)
    tx.append({
      eventType: 'memory.deleted',
      action: 'delete',
      status: 'success',
      actor: actorOf(caller),
      metadata: { key },
    })
  })
}

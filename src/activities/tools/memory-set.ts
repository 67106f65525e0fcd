import { sql, type Transaction } from 'kysely'
import type { Database } from '../../db/schema/index.ts'
import { sha256 } from '../../shared/canonical-json.ts'
import { memoryOver } from '../../governance/tools/memory-limit.ts'
import { hasRole } from '../../governance/access/scopes.ts'
import { mostLabels, tooManyLabels, unionLabels, type Label } from '../../policy/types.ts'
import type { ToolBody } from './params.ts'

/**
 * Writes nothing itself. `commit` replaces the value in the transaction that also commits the outcome, so a crash
 * before it leaves nothing and a repeated attempt writes once. The value gets the labels on which the call was
 * decided. Labels that the key already has stay, even those of a deleted value, unless an admin started the run
 * (docs/decisions/0071). The last writer wins.
 */
export const setMemory: ToolBody<'memory_set'> = async (call, context) => {
  const { organizationId } = call
  const { key } = call.params
  const text = JSON.stringify(call.params.value)
  const sealed = await context.tools.memory.seal(organizationId, key, text)
  const own = unionLabels(call.labels)
  return {
    output: { key },
    commit: async ({ trx, limits, role, append }) => {
      const before = await labelsOf(trx, organizationId, key)
      const isAdmin = role !== null && hasRole(role, 'admin')
      const labels = isAdmin ? own : unionLabels(before, own)
      if (labels.length > Math.max(mostLabels, before.length)) return tooMany
      const over = await memoryOver(trx, organizationId, { key, text, labels }, limits.memory_mb)
      if (over !== null) return over
      const row = {
        value: null,
        value_sealed: sealed,
        labels,
        updated_at: sql<Date>`now()`,
        updated_by: call.requester.userId,
        deleted_at: null,
      }
      await trx
        .insertInto('memory')
        .values({ organization_id: organizationId, key, ...row })
        .onConflict((conflict) => conflict.columns(['organization_id', 'key']).doUpdateSet(row))
        .execute()
      if (!isSame(labels, before))
        append({
          eventType: 'memory.set',
          action: 'set',
          status: 'success',
          metadata: { key, value_hash: sha256(text), labels, labels_before: before },
        })
      return null
    },
  }
}

const tooMany = { code: 'resource_exhausted', message: tooManyLabels('the key would have') }

/** The labels of a key, including those that a deleted value left. */
async function labelsOf(
  trx: Transaction<Database>,
  organizationId: string,
  key: string,
): Promise<readonly Label[]> {
  const row = await trx
    .selectFrom('memory')
    .select('labels')
    .where('organization_id', '=', organizationId)
    .where('key', '=', key)
    .executeTakeFirst()
  return row?.labels ?? []
}

/** Compares two lists without repeats, ignoring their order. */
const isSame = (one: readonly Label[], other: readonly Label[]): boolean =>
  one.length === other.length && unionLabels(one, other).length === one.length

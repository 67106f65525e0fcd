import { sql, type Transaction } from 'kysely'
import type { Database } from '../../db/schema/index.ts'
import { sha256 } from '../../shared/canonical-json.ts'
import { memoryOver } from '../../governance/tools/memory-limit.ts'
import { hasRole } from '../../governance/access/scopes.ts'
import { mostLabels, tooManyLabels, unionLabels, type Label } from '../../policy/types.ts'
import { memoryRevision } from '../../governance/tools/memory.ts'
import type { StateReaderOf, ToolBody } from '../kit/params.ts'

/**
 * The body itself writes nothing. `commit` replaces the value in the transaction that also commits the outcome. So a
 * crash before the commit leaves nothing, and a repeated attempt writes only once. The value gets the input labels that
 * the call had when it was decided. The key also keeps its earlier labels, even labels of a deleted value. The earlier
 * labels are dropped only if an admin started the run (docs/decisions/0071). If two calls write the same key, the value
 * of the later call stays. But an approved call writes only if the key is unchanged since the approvers saw it.
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
      const { labels: before, revision } = await presentOf(trx, organizationId, key)
      if (call.revision !== null && call.revision !== revision) return 'outdated'
      const isAdmin = role !== null && hasRole(role, 'admin')
      const labels = isAdmin ? own : unionLabels(before, own)
      if (labels.length > Math.max(mostLabels, before.length)) return tooMany
      const over = await memoryOver(trx, organizationId, { key, text, labels }, limits.memory_mb)
      if (over !== null) return over
      const row = {
        value: null,
        ...sealed,
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

/** Reads the state that approvers see: the present value, the new value and the labels of the key. */
export const readMemoryState: StateReaderOf<'memory_set'> = async (call, context) => {
  const { key, value } = call.params
  const { text, isBroken, labels, revision } = await context.tools.memory.state(call.organizationId, key)
  const fields = { 'labels of the key now': labels.length === 0 ? undefined : labels }
  const note = isBroken ? { note: 'The present value of the key cannot be opened.' } : {}
  const after = JSON.stringify(value)
  const inLines = Math.max(text?.length ?? 0, after.length) <= mostInLines
  const shown = (json: string): string => (inLines ? readable(JSON.parse(json)) : json)
  const diff = { before: text === null ? null : shown(text), after: shown(after) }
  return { revision, fields, ...note, ...(isBroken ? {} : { diff }) }
}

/** A text of several lines stays as it is. Every other value is shown as JSON. */
const readable = (value: unknown): string =>
  typeof value === 'string' && value.includes('\n') ? value : JSON.stringify(value, null, 2)

/**
 * If the JSON of the present or the new value has more characters than this, approvers see each of the two values as
 * JSON in one line.
 */
const mostInLines = 50_000

/** Reads the revision and the labels of a key. The labels of a deleted value are included. */
async function presentOf(
  trx: Transaction<Database>,
  organizationId: string,
  key: string,
): Promise<{ labels: readonly Label[]; revision: string }> {
  const row = await trx
    .selectFrom('memory')
    .select(['labels', 'revision'])
    .where('organization_id', '=', organizationId)
    .where('key', '=', key)
    .executeTakeFirst()
  return { labels: row?.labels ?? [], revision: memoryRevision(row) }
}

/** Returns whether two lists have the same labels in any order. No label may be repeated in a list. */
const isSame = (one: readonly Label[], other: readonly Label[]): boolean =>
  one.length === other.length && unionLabels(one, other).length === one.length

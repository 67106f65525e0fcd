import { sql, type RawBuilder, type Transaction } from 'kysely'
import type { Limits } from '../../contract/plan-limits.ts'
import type { MemoryWrite, SealedMemory } from '../../contract/tool-services.ts'
import type { Database } from '../../db/schema/index.ts'
import type { StepError } from '../../db/schema/runs.ts'
import type { AuditDraft } from '../audit/entry.ts'
import type { Context } from '../context.ts'
import type { Exceeded } from '../limits/run-quota.ts'
import {
  mostLabels,
  tooManyLabels,
  unionLabels,
  type Json,
  type Label,
  type Role,
} from '../../policy/types.ts'
import { sha256 } from '../../shared/canonical-json.ts'
import type { ChainTx } from '../audit/chain-tx.ts'
import { notFound, errorAt } from '../errors.ts'
import { actorOf, type Caller } from '../access/identity.ts'
import { growAs } from '../limits/storage.ts'
import { hasRole } from '../access/scopes.ts'
import { memoryPlace, newVersion, type Version } from '../sealing/places.ts'
import { openKept, type Kept, type Sealer } from '../sealing/sealer.ts'
import { runAs, type Acting } from '../access/recheck.ts'

/** A value in the organization's memory, with the labels of its key. */
export interface MemoryView {
  readonly key: string
  readonly value: Json
  readonly labels: readonly Label[]
  readonly updated_at: string
}

export async function readMemory(
  context: Pick<Context, 'db' | 'sealer'>,
  organizationId: string,
  key: string,
): Promise<MemoryView> {
  const row = await context.db
    .selectFrom('memory')
    .select(['key', ...keptColumns, 'labels', 'updated_at'])
    .where('organization_id', '=', organizationId)
    .where('key', '=', key)
    .where('deleted_at', 'is', null)
    .executeTakeFirst()
  if (row === undefined) throw notFound('value', key)
  const text = (await openMemory(context.sealer, organizationId, key, row)) ?? 'null'
  const value = JSON.parse(text) as Json
  return { key: row.key, value, labels: row.labels, updated_at: row.updated_at.toISOString() }
}

/**
 * Returns the revision of a key. Each write gives the key a new revision. A key without a row has the revision
 * `absent`.
 */
export const memoryRevision = (row: { readonly revision: number } | undefined): string =>
  row === undefined ? 'absent' : String(row.revision)

/** The columns of `memory` that `openMemory` reads. */
export const keptColumns = ['value as plain', 'value_sealed as sealed', 'value_version as version'] as const

/** Returns the JSON text of the value in a row of `memory`. Throws UnsealError. */
export const openMemory = (
  sealer: Sealer,
  organizationId: string,
  key: string,
  kept: Kept & { readonly version: Version },
): Promise<string | null> => openKept(sealer, memoryPlace(organizationId, key, kept.version), kept)

/** Seals the JSON text of a value for the row of its key. */
export async function sealMemory(
  sealer: Sealer,
  organizationId: string,
  key: string,
  text: string,
): Promise<SealedMemory> {
  const value_version = newVersion()
  return {
    value_sealed: await sealer.seal(memoryPlace(organizationId, key, value_version), text),
    value_version,
  }
}

/**
 * Stores a value under a key and replaces the old value. If `labels` is null, the key keeps its present labels. The
 * labels of a deleted value count as present too. If `labels` is a list, it replaces the present labels. Everybody may
 * add labels, but only an admin may remove labels. If anybody else would remove labels, throws `insufficient_role`,
 * with the names of these labels. Throws `validation_error` for too many labels, and `quota_exceeded` if no storage is
 * left.
 */
export async function setMemory(
  context: Pick<Context, 'combiner' | 'config' | 'sealer'>,
  caller: Caller,
  entry: { readonly key: string; readonly value: Json; readonly labels: readonly Label[] | null },
): Promise<MemoryView> {
  const text = JSON.stringify(entry.value)
  const { key } = entry
  if (entry.labels !== null && new Set(entry.labels).size > mostLabels) {
    throw errorAt('validation_error', 'labels', tooManyLabels('`labels` has'))
  }
  const sealed = await sealMemory(context.sealer, caller.organizationId, key, text)
  const labelsBefore = async (tx: ChainTx) => (await keptUnder(tx, key))?.labels ?? []
  const asKept = async (tx: ChainTx) => ({ key, text, labels: entry.labels ?? (await labelsBefore(tx)) })
  return growAs(context, caller, 'org.change', {
    action: 'set',
    bytes: async (tx) => memoryGrowth(tx.trx, caller.organizationId, await asKept(tx)),
    exceeded: async (tx) =>
      memoryOver(tx.trx, caller.organizationId, await asKept(tx), tx.policy.limits.memory_mb),
    async work(tx, now) {
      const before = await labelsBefore(tx)
      const labels = entry.labels === null ? before : unionLabels(entry.labels)
      const staying = new Set(labels)
      const lost = before.filter((label) => !staying.has(label))
      if (lost.length > 0) requireRemover((await now()).role, lost)
      const { organizationId, userId } = caller
      await putRow(tx.trx, { organizationId, userId, key, sealed, labels }, sql.val(tx.now))
      tx.append({ ...setEntry({ key, text, labels }, before), actor: actorOf(caller) })
      return { key, value: entry.value, labels, updated_at: tx.now.toISOString() }
    },
  })
}

async function putRow(
  trx: Transaction<Database>,
  { organizationId, userId, key, sealed, labels }: Omit<MemoryWrite, 'text' | 'revision'>,
  at: RawBuilder<Date>,
): Promise<void> {
  const row = {
    value: null,
    ...sealed,
    labels: [...labels],
    updated_at: at,
    updated_by: userId,
    deleted_at: null,
  }
  await trx
    .insertInto('memory')
    .values({ organization_id: organizationId, key, ...row })
    .onConflict((conflict) => conflict.columns(['organization_id', 'key']).doUpdateSet(row))
    .execute()
}

const setEntry = (
  { key, text, labels }: Pick<MemoryWrite, 'key' | 'text' | 'labels'>,
  before: readonly Label[],
) =>
  ({
    eventType: 'memory.set',
    action: 'set',
    metadata: { key, value_hash: sha256(text), labels, labels_before: before },
  }) as const

/** Nothing was written, because the thing that the call would change is not as the call's approvers saw it. */
export type Outdated = 'outdated'

/** The transaction that commits the outcome of a call. It holds the organization's lock. */
export interface OutcomeTx {
  readonly trx: Transaction<Database>
  readonly limits: Limits
  /** The current role of the person who started the run; null if that person is no longer a member. */
  readonly role: Role | null
  /** Adds an audit entry about the run to the same transaction. */
  append(entry: Omit<AuditDraft<'memory.set'>, 'actor' | 'workflowId' | 'runId'>): void
}

/**
 * Stores the value of a call in the transaction that commits its outcome. So a crash before the commit leaves nothing,
 * and a repeated attempt writes only once. Returns null after the write. If the write would exceed a limit, writes
 * nothing and returns the limit or an error.
 *
 * The key keeps its earlier labels, even labels of a deleted value. They are dropped only if an admin started the run
 * (docs/decisions/0071). If two calls write the same key, the value of the later call stays. But an approved call writes
 * only if the key is unchanged since the approvers saw it. Otherwise this function returns `outdated`.
 */
export async function storeOfCall(
  { trx, limits, role, append }: OutcomeTx,
  write: MemoryWrite,
): Promise<Exceeded | StepError | Outdated | null> {
  const { organizationId, key, text } = write
  const row = await trx
    .selectFrom('memory')
    .select(['labels', 'revision'])
    .where('organization_id', '=', organizationId)
    .where('key', '=', key)
    .executeTakeFirst()
  const before = row?.labels ?? []
  if (write.revision !== null && write.revision !== memoryRevision(row)) return 'outdated'
  const isAdmin = role !== null && hasRole(role, 'admin')
  const labels = isAdmin ? unionLabels(write.labels) : unionLabels(before, write.labels)
  if (labels.length > Math.max(mostLabels, before.length)) return tooMany
  const over = await memoryOver(trx, organizationId, { key, text, labels }, limits.memory_mb)
  if (over !== null) return over
  await putRow(trx, { ...write, labels }, sql<Date>`now()`)
  if (!isSame(labels, before)) append(setEntry({ key, text, labels }, before))
  return null
}

const tooMany: StepError = { code: 'resource_exhausted', message: tooManyLabels('the key would have') }

/** Returns whether two lists have the same labels in any order. No label may be repeated in a list. */
const isSame = (one: readonly Label[], other: readonly Label[]): boolean =>
  one.length === other.length && unionLabels(one, other).length === one.length

function requireRemover(role: Role, lost: readonly Label[]): void {
  if (hasRole(role, 'admin')) return
  const which = lost.map((label) => `\`${label}\``).join(', ')
  throw errorAt(
    'insufficient_role',
    'labels',
    `${which} would be removed: give all labels of the key, or omit \`labels\`; removing one needs the role \`admin\``,
  )
}

/** Returns the row of a key. If the value was deleted, the row has only labels. */
function keptUnder(tx: ChainTx, key: string) {
  return tx.trx
    .selectFrom('memory')
    .select(['labels', 'deleted_at'])
    .where('organization_id', '=', tx.organizationId)
    .where('key', '=', key)
    .executeTakeFirst()
}

/**
 * Deletes a value. The key keeps its labels, so a later value under this key gets these labels again. If an admin
 * deletes the same key once more, the labels are deleted too. Throws `not_found` if there is no value. An admin gets
 * this error only if there are no labels either.
 */
export async function deleteMemory(context: Acting, caller: Caller, key: string): Promise<void> {
  await runAs(context, caller, 'org.change', async (tx, now) => {
    const kept = await keptUnder(tx, key)
    const isGone = kept === undefined || kept.deleted_at !== null
    if (kept === undefined || (isGone && !hasRole((await now()).role, 'admin'))) throw notFound('value', key)
    const leaves = isGone ? [] : kept.labels
    if (leaves.length === 0) await forget(tx, key)
    else await forgetValue(tx, caller, key)
    tx.append({
      eventType: 'memory.deleted',
      action: 'delete',
      actor: actorOf(caller),
      metadata: { key, labels: leaves, labels_before: kept.labels },
    })
  })
}

const forget = (tx: ChainTx, key: string) =>
  tx.trx
    .deleteFrom('memory')
    .where('organization_id', '=', tx.organizationId)
    .where('key', '=', key)
    .execute()

const forgetValue = (tx: ChainTx, caller: Caller, key: string) =>
  tx.trx
    .updateTable('memory')
    .set({
      value: null,
      value_sealed: null,
      deleted_at: tx.now,
      updated_at: tx.now,
      updated_by: caller.userId,
    })
    .where('organization_id', '=', tx.organizationId)
    .where('key', '=', key)
    .execute()

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
async function memoryOver(
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
const memoryGrowth = async (
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

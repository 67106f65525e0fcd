import { sql, type RawBuilder, type Transaction } from 'kysely'
import type { Limits } from '../../contract/plan-limits.ts'
import type { MemoryWrite, SealedMemory } from '../../contract/tool-services.ts'
import type { Database, Db } from '../../db/schema/index.ts'
import type { StepError } from '../../db/schema/runs.ts'
import type { AuditDraft } from '../audit/entry.ts'
import type { Unsealing, ChangingRuns } from '../context.ts'
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
import { readSettings } from '../../policy/settings.ts'
import { list, quote } from '../../policy/text.ts'
import { hiddenError, type Viewer } from '../access/viewer.ts'
import { notFound, errorAt } from '../errors.ts'
import { actorOf, type Caller } from '../access/identity.ts'
import { pageOf, readBounded, readCursor, type Page, type PageRequest } from '../page.ts'
import { growAs } from '../limits/storage.ts'
import { hasRole } from '../access/scopes.ts'
import { memoryBinding, newVersion } from '../sealing/bindings.ts'
import { openKept, type Sealer } from '../sealing/sealer.ts'
import { runAs, type Acting } from '../access/recheck.ts'

export interface MemoryView {
  readonly key: string
  readonly value: Json
  readonly labels: readonly Label[]
  readonly updated_at: string
}

/** Throws if a label of the value restricts who reads it (`restricted_labels`). */
export async function readMemory(context: Unsealing, viewer: Viewer, key: string): Promise<MemoryView> {
  const { organizationId } = viewer
  const row = await context.db
    .selectFrom('memory as v')
    .innerJoin('organizations as o', 'o.id', 'v.organization_id')
    .innerJoin('users as u', 'u.id', 'v.updated_by')
    .select([
      'v.value_sealed as sealed',
      'v.value_version as version',
      'v.labels',
      'v.updated_at',
      'v.updated_by',
    ])
    .select(['u.email', 'o.settings'])
    .where('v.organization_id', '=', organizationId)
    .where('v.key', '=', key)
    .where('v.deleted_at', 'is', null)
    .executeTakeFirst()
  if (row === undefined) throw notFound('value', key)
  const { restricted_labels } = readSettings(row.settings)
  const restricted = row.labels.filter((label) => restricted_labels.includes(label))
  if (restricted.length > 0 && row.updated_by !== viewer.userId && !hasRole(viewer.role, 'admin')) {
    const which = list(restricted.map(quote), 'and')
    const reason = `a value with ${which} is shown only to the person who wrote it, and to admins and owners`
    throw hiddenError({ reason, ask: [row.email, 'admins and owners'] }, 'admin')
  }
  const text = (await openMemory(context.sealer, organizationId, key, row)) ?? 'null'
  const value = JSON.parse(text) as Json
  return { key, value, labels: row.labels, updated_at: row.updated_at.toISOString() }
}

export interface MemoryHead {
  readonly key: string
  readonly labels: readonly Label[]
  readonly bytes: number
  readonly updated_at: string
  readonly updated_by: string
  readonly updated_by_email: string
}

/** The keys in their order, without their values. */
export async function listMemory(
  db: Db,
  organizationId: string,
  { limit, cursor }: PageRequest,
): Promise<Page<MemoryHead>> {
  const after = readCursor(cursor, /^key:\P{Cc}{1,256}$/u)?.slice('key:'.length)
  const rows = await readBounded(db, (trx) =>
    trx
      .selectFrom('memory as v')
      .innerJoin('users as u', 'u.id', 'v.updated_by')
      .select(['v.key', 'v.labels', 'v.updated_at', 'v.updated_by', 'u.email'])
      .select(sql<number>`memory_bytes(v.key, v.value_sealed, v.labels)`.as('bytes'))
      .where('v.organization_id', '=', organizationId)
      .where('v.deleted_at', 'is', null)
      .$if(after !== undefined, (rest) => rest.where('v.key', '>', after as string))
      .orderBy('v.key')
      .limit(limit + 1)
      .execute(),
  )
  return pageOf(
    rows,
    limit,
    ({ key }) => `key:${key}`,
    ({ email, updated_at, ...row }) => ({
      ...row,
      updated_at: updated_at.toISOString(),
      updated_by_email: email,
    }),
  )
}

/** Each write gives the key a new one. */
export const memoryRevision = (row: { readonly revision: number } | undefined): string =>
  row === undefined ? 'absent' : String(row.revision)

/** For `openMemory`. */
export const keptColumns = ['value_sealed as sealed', 'value_version as version'] as const

/** The JSON text. Throws UnsealError. */
export const openMemory = (
  sealer: Sealer,
  organizationId: string,
  key: string,
  kept: { readonly sealed: Buffer | null; readonly version: string | null },
): Promise<string | null> =>
  openKept(sealer, memoryBinding(organizationId, key, String(kept.version)), kept.sealed)

export async function sealMemory(
  sealer: Sealer,
  organizationId: string,
  key: string,
  text: string,
): Promise<SealedMemory> {
  const value_version = newVersion()
  return {
    value_sealed: await sealer.seal(memoryBinding(organizationId, key, value_version), text),
    value_version,
  }
}

/**
 * Replaces the value of a key. null keeps its labels, also those of a deleted value. Everybody may add labels, only an
 * admin may remove some: throws `insufficient_role` with their names. Throws `validation_error` for too many, and
 * `quota_exceeded`.
 */
export async function setMemory(
  context: ChangingRuns,
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

/** Nothing was written: the key is not as the call's approvers saw it. */
export type Outdated = 'outdated'

/** Commits the outcome of a call, under the organization's lock. */
export interface OutcomeTx {
  readonly trx: Transaction<Database>
  readonly limits: Limits
  /** The role of the person who started the run; null for a former member. */
  readonly role: Role | null
  append(entry: Omit<AuditDraft<'memory.set'>, 'actor' | 'workflowId' | 'runId'>): void
}

/**
 * Stores the value in the transaction that commits the call's outcome: a crash leaves nothing, and a repetition writes
 * once. Returns null after the write; a limit or an error if it would exceed one.
 *
 * The key keeps its labels, also of a deleted value, unless an admin started the run (docs/decisions/0071). Of two
 * calls, the later value stays. But an approved call writes only if the key is as its approvers saw it.
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

/** Labels are not repeated in a list. */
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

/** With labels only, if the value was deleted. */
function keptUnder(tx: ChainTx, key: string) {
  return tx.trx
    .selectFrom('memory')
    .select(['labels', 'deleted_at'])
    .where('organization_id', '=', tx.organizationId)
    .where('key', '=', key)
    .executeTakeFirst()
}

/**
 * The key keeps its labels for a later value, until an admin deletes it once more. Throws `not_found` without a value;
 * for an admin, only without labels either.
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
      value_sealed: null,
      deleted_at: tx.now,
      updated_at: tx.now,
      updated_by: caller.userId,
    })
    .where('organization_id', '=', tx.organizationId)
    .where('key', '=', key)
    .execute()

/** A guess: memory becomes free when somebody deletes or shortens a value. */
const retryAfterSeconds = 60

interface Entry {
  readonly key: string
  readonly text: string
  readonly labels: readonly Label[]
}

/** Counts values, keys and labels. What does not enlarge the memory is accepted above the limit. Needs the lock. */
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

/** In bytes; negative if the memory becomes smaller. */
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
           coalesce((select memory_bytes(key, value_sealed, labels) from memory
                     where organization_id = ${organizationId} and key = ${key}), 0) as before`.execute(trx)
  const { used, before } = rows[0] as { used: number; before: number }
  const size = (each: string): number => Buffer.byteLength(each)
  return { used, more: size(key) + size(text) + size(labels.join(' ')) - before }
}

import { deleteOldVersions, forgetDeletedObjects, insertVersion } from '../../db/queries/rules.ts'
import type { Db } from '../../db/schema/index.ts'
import type { PolicyVersionsTable, VersionedKind } from '../../db/schema/policy.ts'
import { hashOf } from '../../shared/canonical-json.ts'
import type { ChainTx } from '../audit/chain-tx.ts'
import { plainJson } from '../approvals/change.ts'
import type { Changer } from '../changes/gate.ts'
import { DomainError, notFound } from '../errors.ts'
import { grownEntry, storageOver } from '../limits/storage.ts'
import { pageOf, readCursor, versionNumber, type Page, type PageRequest } from '../page.ts'
import { mostRuleBytes } from './size-limit.ts'

/*
 * Each change of a rule, a label rule or a tool policy keeps a version, in the transaction of the change. Versions of a
 * deleted object stay, so that it can be restored.
 */

/** For each object. */
export const mostVersions = 200
/** In one organization. The versions of objects that were deleted before are forgotten. */
export const mostDeletedObjects = 1_000

/** `id` is what `object_id` holds. */
export interface Versioned {
  readonly kind: VersionedKind
  readonly id: string
}

export interface VersionSummary {
  readonly version: number
  readonly change: PolicyVersionsTable['change']
  /** The version whose body was taken again. */
  readonly restored_from: number | null
  readonly created_by: string
  readonly created_by_email: string
  /** The second person whom the change needed; null for none. */
  readonly approved_by: string | null
  readonly approved_by_email: string | null
  readonly created_at: string
}

export interface VersionView extends VersionSummary {
  /** null after a deletion. */
  readonly body: object | null
  /** The body of the version before; null if there was none, or none is kept. */
  readonly before: object | null
}

/** What a change found and left; null for none. */
export interface Change {
  readonly before: object | null
  readonly after: object | null
  readonly restoredFrom?: number | null
}

export interface VersionedChange extends Change {
  readonly object: Versioned
}

/**
 * Keeps the version of each change, and returns what the audit entry says of it: the bodies before and after, or only
 * their hashes if they are too long for an entry.
 */
export async function keepVersions(
  tx: ChainTx,
  changer: Pick<Changer, 'userId' | 'cause'>,
  changes: readonly VersionedChange[],
) {
  const kept = await Promise.all(changes.map((change) => keepVersion(tx, changer, change)))
  if (changes.some(({ after }) => after === null))
    void tx.send(forgetDeletedObjects(tx.organizationId, mostDeletedObjects))
  return kept
}

async function keepVersion(
  tx: ChainTx,
  { userId, cause }: Pick<Changer, 'userId' | 'cause'>,
  { object, ...change }: VersionedChange,
) {
  const { restoredFrom = null } = change
  const [before, after] = [plainJson(change.before), plainJson(change.after)]
  const key = { organization_id: tx.organizationId, kind: object.kind, object_id: object.id }
  const inserting = tx.send(
    insertVersion({
      ...key,
      change: after === null ? 'deleted' : before === null ? 'created' : 'updated',
      body: after === null ? null : JSON.stringify(after),
      restored_from: restoredFrom,
      created_by: userId,
      approved_by: cause?.approved_by ?? null,
      created_at: tx.now,
    }),
  )
  // Over the limit, a large body takes the place of older ones.
  const mayGrow = storageOver(tx) === null || grownEntry(JSON.stringify(after).length) === 0
  void tx.send(deleteOldVersions(key, { most: mostVersions, mostBytes: mostRuleBytes, mayGrow }))
  const [row] = await inserting
  const { version } = row as { readonly version: number }
  const fits = grownEntry(JSON.stringify([before, after]).length) === 0
  return {
    version,
    ...(restoredFrom === null ? {} : { restored_from: restoredFrom }),
    ...(before === null ? {} : { before_hash: hashOf(before), ...(fits ? { before } : {}) }),
    ...(after === null ? {} : { after_hash: hashOf(after), ...(fits ? { after } : {}) }),
  }
}

/** Newest first. */
export async function listPolicyVersions(
  db: Db,
  organizationId: string,
  object: Versioned,
  { limit, cursor }: PageRequest,
): Promise<Page<VersionSummary>> {
  const before = readCursor(cursor, /^[1-9]\d{0,8}$/)
  const rows = await versionsOf(db, organizationId, object)
    .select(shownColumns)
    .$if(before !== null, (rest) => rest.where('version', '<', Number(before)))
    .orderBy('version', 'desc')
    .limit(limit + 1)
    .execute()
  return pageOf(rows, limit, ({ version }) => `${version}`, summaryOf)
}

/** Throws `not_found`. */
export async function readPolicyVersion(
  db: Db,
  organizationId: string,
  object: Versioned,
  version: string,
): Promise<VersionView> {
  const number = versionNumber(version)
  const rows = await versionsOf(db, organizationId, object)
    .select([...shownColumns, 'body'])
    .where('version', 'in', [number - 1, number])
    .orderBy('version', 'desc')
    .execute()
  const [row, former] = rows
  if (row?.version !== number) throw notFound('version', version)
  return { ...summaryOf(row), body: row.body, before: former?.body ?? null }
}

/** Throws `not_found`, and `conflict` for the version of a deletion, which has nothing to restore. */
export async function bodyToRestore(
  db: Db,
  organizationId: string,
  object: Versioned,
  version: string,
): Promise<{ readonly number: number; readonly body: object }> {
  const { body, version: number } = await readPolicyVersion(db, organizationId, object, version)
  if (body !== null) return { number, body }
  throw new DomainError('conflict', `version ${number} is a deletion: restore version ${number - 1} instead`)
}

const versionsOf = (db: Db, organizationId: string, { kind, id }: Versioned) =>
  db
    .selectFrom('policy_versions')
    .innerJoin('users', 'users.id', 'policy_versions.created_by')
    .leftJoin('users as second', 'second.id', 'policy_versions.approved_by')
    .where('organization_id', '=', organizationId)
    .where('kind', '=', kind)
    .where('object_id', '=', id)

const shownColumns = [
  'version',
  'change',
  'restored_from',
  'created_by',
  'users.email as created_by_email',
  'approved_by',
  'second.email as approved_by_email',
  'policy_versions.created_at',
] as const

const summaryOf = (
  row: Omit<VersionSummary, 'created_at'> & { readonly created_at: Date },
): VersionSummary => ({
  version: row.version,
  change: row.change,
  restored_from: row.restored_from,
  created_by: row.created_by,
  created_by_email: row.created_by_email,
  approved_by: row.approved_by,
  approved_by_email: row.approved_by_email,
  created_at: row.created_at.toISOString(),
})

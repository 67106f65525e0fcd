import { sql, type Transaction } from 'kysely'
import { declaredFingerprint, presentObjects } from '../../db/queries/declared.ts'
import type { Database, Db } from '../../db/schema/index.ts'
import type { ManagedBy } from '../../db/schema/policy.ts'
import type { GovernanceSettings } from '../../policy/settings.ts'
import type { JsonObject } from '../../policy/types.ts'
import type { LoadedPolicy } from '../audit/policy-cache.ts'
import { keyOf, organizationName, type ApplyRequest, type DeclaredKind } from './declared.ts'

/* What an organization has now, as files would declare it. */

export interface Present {
  readonly kind: DeclaredKind
  readonly name: string
  /** null for what has no id: policies and overrides. */
  readonly id: string | null
  /** A workflow has `digest` in place of its definition. */
  readonly body: JsonObject
  readonly managed: ManagedBy | null
  /** A group that the directory of a company manages. */
  readonly isOfDirectory?: boolean
  /** The present version of a workflow. */
  readonly version?: number
}

export interface PresentState {
  readonly policy: LoadedPolicy
  readonly objects: ReadonlyMap<string, Present>
  readonly settings: GovernanceSettings
  /** Members of the organization that the request names, by what names them in lower case. */
  readonly people: ReadonlyMap<string, { readonly id: string; readonly email: string }>
  /** Another one, or another version of the policy: something has changed meanwhile. */
  readonly fingerprint: string
}

export type Reader = Db | Transaction<Database>

/** All objects that files can declare, but for workflows without a slug. */
export async function readObjects(db: Reader, organizationId: string) {
  const { rows } = await presentObjects<Omit<Present, 'isOfDirectory' | 'version'>>(
    organizationId,
    organizationName,
  ).execute(db)
  return rows
}

/** `db` holds the chain's lock, or one snapshot that is not older than the policy. */
export async function readState(
  db: Reader,
  organizationId: string,
  policy: LoadedPolicy,
  request: ApplyRequest,
): Promise<PresentState> {
  // First: what changes before the rows are read gives another one under the lock.
  const fingerprint = await readFingerprint(db, organizationId)
  const rows = await readObjects(db, organizationId)
  const people = await peopleIn(db, organizationId, request)
  const objects = rows.map(({ directory, version, ...row }): Present => ({
    ...row,
    ...(directory ? { isOfDirectory: true } : {}),
    ...(version === null ? {} : { version }),
  }))
  return {
    policy,
    objects: new Map(objects.map((object) => [keyOf(object), object])),
    settings: policy.settings,
    people,
    fingerprint,
  }
}

/** It covers what changes without a new version of the policy. */
export async function readFingerprint(db: Reader, organizationId: string): Promise<string> {
  const { rows } = await declaredFingerprint(organizationId).execute(db)
  return rows[0]?.mark ?? ''
}

async function peopleIn(
  db: Reader,
  organizationId: string,
  { objects }: ApplyRequest,
): Promise<PresentState['people']> {
  const named = objects.flatMap(({ kind, body }) => (kind === 'group' ? body.members : []))
  if (named.length === 0) return new Map()
  const wanted = [...new Set(named.map((each) => each.toLowerCase()))]
  const { rows } = await sql<{ id: string; email: string }>`
    select u.id, u.email from memberships m join users u on u.id = m.user_id
    where m.organization_id = ${organizationId} and (lower(u.id) = any(${wanted}) or lower(u.email) = any(${wanted}))`.execute(
    db,
  )
  return new Map(
    rows.flatMap((row) => [[row.id.toLowerCase(), row] as const, [row.email.toLowerCase(), row] as const]),
  )
}

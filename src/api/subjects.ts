import { sql, type RawBuilder } from 'kysely'
import type { Db } from '../db/schema/index.ts'
import { notFound } from '../governance/errors.ts'
import { missingFactor, type MissingFactor } from '../governance/access/second-factor.ts'
import type { Sender } from '../governance/access/identity.ts'
import { missingToKey } from '../governance/access/recheck.ts'
import type { Role } from '../policy/types.ts'
import type { Subject } from './access.ts'
import type { InnerObject } from './inner-objects.ts'

/** The organization that a call is about, and the role of the caller in this organization. */
export interface Standing {
  readonly organizationId: string
  readonly role: Role
  /**
   * The second factor that the caller lacks, although the organization or the call requires it. Is null if none is
   * missing.
   */
  readonly missing: MissingFactor | null
  /** An object inside the subject that the request names and that does not exist; null if all of them exist. */
  readonly absent: InnerObject | null
}

/**
 * The values of a request that can name the subject. `params` are the path parameters. `organizationId` is used only
 * for the subject `own`. It comes from the query or the body, else from the caller's key or session.
 */
export interface Naming {
  readonly params: Readonly<Record<string, string>>
  readonly organizationId: string
}

const words = {
  own: 'organization',
  organization: 'organization',
  workflow: 'workflow',
  run: 'run',
  approval: 'approval',
  api_key: 'API key',
  agent_session: 'agent session',
  connection: 'connection',
  file: 'file',
} as const satisfies Record<Exclude<Subject, 'nothing'>, string>

/** SQL that selects the subject's `organization_id`, or no row. */
const sources: Readonly<Record<Exclude<Subject, 'nothing'>, (id: string) => RawBuilder<unknown>>> = {
  own: (id) => sql`select ${id}::text as organization_id`,
  organization: (id) => sql`select ${id}::text as organization_id`,
  workflow: (id) => sql`select organization_id from workflows where id = ${id} and deleted_at is null`,
  // Decisions and receipts of an agent session have the session's `run_id` in place of a run's id, so this id is also
  // accepted.
  run: (id) => sql`select organization_id from runs where id = ${id}
                   union all select organization_id from agent_sessions where run_id = ${id}`,
  // An unknown outcome is shown as an approval, under the id `RUN/STEP/ITEM`.
  approval: (id) => sql`select organization_id from approvals where id = ${id}
                        union all select organization_id from runs where id = ${id.includes('/') ? id.split('/')[0] : null}`,
  api_key: (id) => sql`select organization_id from api_keys where id = ${id}`,
  agent_session: (id) => sql`select organization_id from agent_sessions where id = ${id}`,
  connection: (id) => sql`select organization_id from connections where id = ${id}`,
  file: (id) => sql`select organization_id from files where id = ${id}`,
}

/**
 * Checks a call that is about the caller and not about an organization. Returns the second factor that the caller's key
 * lacks, or null if none is missing. The organization of the key decides whether a second factor is required.
 */
export async function findMissingToKey(db: Db, sender: Sender): Promise<MissingFactor | null> {
  const { rows } = await sql<{ missing: MissingFactor | null }>`
    select (${missingToKey(sender)}) as missing`.execute(db)
  return rows[0]?.missing ?? null
}

interface Needed {
  readonly subject: Exclude<Subject, 'nothing'>
  readonly factor?: boolean
  /** The objects inside the subject that the request names. */
  readonly inner?: readonly InnerObject[]
}

/**
 * Finds the subject's organization and the user's role in this organization, in one statement. Throws `not_found` if
 * the subject does not exist for the user, and also if the user is not a member of this organization. The caller
 * refuses an absent inner object after it has checked the second factor.
 */
export async function findStanding(
  db: Db,
  sender: Sender,
  { subject, factor, inner = [] }: Needed,
  naming: Naming,
): Promise<Standing> {
  const id = subject === 'own' ? naming.organizationId : (naming.params['id'] ?? '')
  const { rows } = await sql<Row>`
    select s.organization_id, m.role, ${missingFactor(sender, factor)} as missing, ${firstAbsent(inner)} as absent
    from (${sources[subject](id)}) as s
    join memberships m on m.organization_id = s.organization_id and m.user_id = ${sender.userId}
    join organizations o on o.id = s.organization_id join users u on u.id = m.user_id`.execute(db)
  const [row] = rows
  if (row === undefined) throw notFound(words[subject], id)
  const { organization_id: organizationId, role, missing, absent } = row
  const missed = absentOf(inner, absent)
  if (missed?.isSubject === true) refuseAbsent(missed)
  return { organizationId, role, missing, absent: missed }
}

interface Row {
  readonly organization_id: string
  readonly role: Role
  readonly missing: MissingFactor | null
  readonly absent: number | null
}

/** Throws `not_found` if an object that the path of a call about the caller names does not exist for the caller. */
export async function requireOwnObjects(
  db: Db,
  { userId }: Sender,
  inner: readonly InnerObject[],
): Promise<void> {
  if (inner.length === 0) return
  const { rows } = await sql<Pick<Row, 'absent'>>`
    select ${firstAbsent(inner)} as absent from (select ${userId}::text as user_id) as m`.execute(db)
  refuseAbsent(absentOf(inner, rows[0]?.absent ?? null))
}

/** Throws `not_found` for an inner object that does not exist. */
export function refuseAbsent(absent: InnerObject | null): void {
  if (absent !== null) throw notFound(absent.word, absent.name)
}

const absentOf = (inner: readonly InnerObject[], index: number | null): InnerObject | null =>
  index === null ? null : (inner[index] ?? null)

/** SQL: the index of the first inner object that does not exist, or null. */
function firstAbsent(inner: readonly InnerObject[]): RawBuilder<number | null> {
  const cases = inner.map(({ exists }, index) => sql`when not ${exists} then ${sql.lit(index)}`)
  return cases.length === 0 ? sql`null::int` : sql`case ${sql.join(cases, sql` `)} end`
}

import { sql, type RawBuilder } from 'kysely'
import type { Db } from '../db/schema/index.ts'
import { notFound } from '../governance/errors.ts'
import type { Owned } from '../governance/page.ts'
import { missingFactor, type MissingFactor } from '../governance/access/second-factor.ts'
import type { Sender, Caller } from '../governance/access/identity.ts'
import { missingToKey } from '../governance/access/recheck.ts'
import type { Role } from '../policy/types.ts'
import { ApiError } from './errors.ts'

/** The word for the subject, and SQL that selects its `organization_id`, or no row. */
const subjects = {
  own: { word: 'organization', source: (id: string) => sql`select ${id}::text as organization_id` },
  organization: { word: 'organization', source: (id: string) => sql`select ${id}::text as organization_id` },
  workflow: {
    word: 'workflow',
    source: (id: string) =>
      sql`select organization_id from workflows where id = ${id} and deleted_at is null and poll_of is null`,
  },
  // Decisions and receipts of an agent session have its `run_id` in place of a run's id.
  run: {
    word: 'run',
    source: (id: string) => sql`select organization_id from runs where id = ${id}
      union all select organization_id from agent_sessions where run_id = ${id}`,
  },
  // An unknown outcome is shown as an approval, under the id `RUN/STEP/ITEM`.
  approval: {
    word: 'approval',
    source: (id: string) => sql`select organization_id from approvals where id = ${id}
      union all select organization_id from runs where id = ${id.includes('/') ? id.split('/')[0] : null}`,
  },
  api_key: { word: 'API key', source: ownerOf('api_keys') },
  agent_session: { word: 'agent session', source: ownerOf('agent_sessions') },
  connection: { word: 'connection', source: ownerOf('connections') },
  file: { word: 'file', source: ownerOf('files') },
}

function ownerOf(table: string): (id: string) => RawBuilder<unknown> {
  return (id) => sql`select organization_id from ${sql.table(table)} where id = ${id}`
}

/**
 * How the organization of a request is found. That comes before the check of the role, so the answer to a caller who is
 * no member of the object's organization is 404, and not 403.
 * - `own`: the `organization_id` of the query or body. Without one, what a signed-in person's header
 *   `X-Organization-Id` or the console's cookie names, else the organization of the key, or one of the person's.
 * - `organization`: named by the path's `{id}`; the other names: owner of the object that the path's `{id}` names.
 * - `nothing`: the call is about the caller, or the handler finds the organization. No role is checked beforehand.
 */
export type Subject = keyof typeof subjects | 'nothing'

interface Standing {
  readonly organizationId: string
  readonly role: Role
  /** The second factor that the caller lacks, although the organization or the call requires it. */
  readonly missing: MissingFactor | null
  /** The first object inside the subject that the request names and that does not exist. */
  readonly absent: InnerObject | null
}

/** What can name the subject. `organizationId` is only for the subject `own`. */
interface Naming {
  readonly params: Readonly<Record<string, string>>
  readonly organizationId: string
}

/** For a call that is about the caller. The organization of the key decides whether a second factor is required. */
export async function findMissingToKey(db: Db, sender: Sender): Promise<MissingFactor | null> {
  const { rows } = await sql<{ missing: MissingFactor | null }>`
    select (${missingToKey(sender)}) as missing`.execute(db)
  return rows[0]?.missing ?? null
}

interface Needed {
  readonly subject: Exclude<Subject, 'nothing'>
  readonly factor?: boolean
  readonly inner?: readonly InnerObject[]
}

/**
 * A path names a workflow of the organization by its id or its slug. Afterwards it has the id. Somebody who is no member
 * keeps the slug, so that the refusal tells no id.
 */
export async function withWorkflowId(
  db: Db,
  { userId }: Sender,
  params: Record<string, string>,
  organizationId: string,
): Promise<Record<string, string>> {
  const { id: named = '' } = params
  if (named.includes('_') || named.includes('\u0000')) return params
  const row = await db
    .selectFrom('workflows')
    .select('id')
    .where('organization_id', '=', organizationId)
    .where('slug', '=', named)
    .where(({ exists, selectFrom }) =>
      exists(
        selectFrom('memberships')
          .select('user_id')
          .where('organization_id', '=', organizationId)
          .where('user_id', '=', userId),
      ),
    )
    .where('deleted_at', 'is', null)
    .executeTakeFirst()
  return row === undefined ? params : { ...params, id: row.id }
}

/**
 * In one statement. Throws `not_found` if the subject does not exist for the user, or the user is no member of its
 * organization. The caller refuses an absent inner object after it has checked the second factor.
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
    from (${subjects[subject].source(id)}) as s
    join memberships m on m.organization_id = s.organization_id and m.user_id = ${sender.userId}
    join organizations o on o.id = s.organization_id join users u on u.id = m.user_id`.execute(db)
  const [row] = rows
  if (row === undefined) throw notFound(subjects[subject].word, id)
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

/** Throws `not_found` if an object in the path does not exist for the caller. */
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

export function refuseAbsent(absent: InnerObject | null): void {
  if (absent !== null) throw notFound(absent.word, absent.name)
}

const absentOf = (inner: readonly InnerObject[], index: number | null): InnerObject | null =>
  index === null ? null : (inner[index] ?? null)

/** SQL: the index of the first one that does not exist. */
function firstAbsent(inner: readonly InnerObject[]): RawBuilder<number | null> {
  const cases = inner.map(({ exists }, index) => sql`when not ${exists} then ${sql.lit(index)}`)
  return cases.length === 0 ? sql`null::int` : sql`case ${sql.join(cases, sql` `)} end`
}

export function organizationNamed(query: Record<string, string>, body: unknown): string | null {
  return query['organization_id'] ?? organizationOfBody(body)
}

/** 422 if query and body name different organizations: choosing one could create the object in the wrong one. */
export function requireOneOrganization(query: Record<string, string>, body: unknown): void {
  const [inQuery, inBody] = [query['organization_id'], organizationOfBody(body)]
  if (inQuery === undefined || inBody === null || inQuery === inBody) return
  const message = 'the body names another organization than the query: name only one'
  throw new ApiError('validation_error', message, [
    {
      path: 'organization_id',
      message: `\`${inBody.slice(0, 100)}\` in the body, \`${inQuery.slice(0, 100)}\` in the query`,
    },
  ])
}

/** 422 if `organization_id` is not that of the object in the path. */
export function requireSubjectsOrganization(
  query: Record<string, string>,
  body: unknown,
  caller: Caller,
): void {
  const named = organizationNamed(query, body)
  if (named === null || named === caller.organizationId) return
  const message =
    'the path names an object of another organization than `organization_id`: leave `organization_id` out'
  throw new ApiError('validation_error', message, [{ path: 'organization_id', message }])
}

/** The validation of the body refuses a value that is not a text. */
function organizationOfBody(body: unknown): string | null {
  if (typeof body !== 'object' || body === null || !Object.hasOwn(body, 'organization_id')) return null
  const named = (body as { organization_id: unknown }).organization_id
  return typeof named === 'string' ? named : null
}

interface InnerNaming {
  readonly params: Readonly<Record<string, string>>
  readonly query: Readonly<Record<string, string>>
  readonly body: unknown
}

/**
 * An object inside the subject of a route, such as a version of a workflow. If it does not exist, the answer is 404,
 * also for a caller whose role is too low or whose body is wrong (docs/decisions/0247).
 */
export interface Inner {
  readonly word: string
  /** What names it in the path. `id` names the subject itself, such as another person's key. */
  readonly param: string
  /** SQL: `s.organization_id` is the organization of the subject, and `m` the row of the caller's membership. */
  readonly exists: (named: InnerNaming) => RawBuilder<boolean>
}

/** An object with a row of its own. */
export const inTable = (param: string, word: string, table: string, column = 'id'): Inner => ({
  word,
  param,
  exists: ({ params }) => sql`exists (select from ${sql.table(table)}
    where ${sql.ref(column)} = ${params[param]} and organization_id = s.organization_id)`,
})

/** One of these rows, if the caller sees it. */
export const inOwned = (param: string, { word, table, seen }: Owned): Inner => ({
  word,
  param,
  exists: ({ params }) => sql`exists (select from ${sql.table(table)} as o
    where o.id = ${params[param]} and o.organization_id = s.organization_id and (${seen ?? sql`true`}))`,
})

/** An inner object that a request names. */
export interface InnerObject {
  readonly word: string
  readonly name: string
  /** It must look like an unknown subject. */
  readonly isSubject: boolean
  readonly exists: RawBuilder<boolean>
}

export const innerObjectsOf = (inner: readonly Inner[], named: InnerNaming): readonly InnerObject[] =>
  inner.map(({ word, param, exists }) => ({
    word,
    name: named.params[param] ?? '',
    isSubject: param === 'id',
    exists: exists(named),
  }))

import { sql, type RawBuilder } from 'kysely'
import type { Db } from '../db/schema/index.ts'
import { notFound } from '../governance/errors.ts'
import { missingFactor, type MissingFactor } from '../governance/access/second-factor.ts'
import type { Sender, Caller } from '../governance/access/identity.ts'
import { missingToKey } from '../governance/access/recheck.ts'
import type { Role } from '../policy/types.ts'
import { access, splitKey, subjectWords, type RouteKey } from './access.ts'
import { ApiError } from './errors.ts'
import { getTool } from '../tools/index.ts'
import { readCallId } from '../contract/ids.ts'
import { versionNumber } from '../governance/workflows/versions.ts'
import { role as roles } from './schemas/common.ts'

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

/** SQL that selects the subject's `organization_id`, or no row. */
const sources: Readonly<Record<keyof typeof subjectWords, (id: string) => RawBuilder<unknown>>> = {
  own: (id) => sql`select ${id}::text as organization_id`,
  organization: (id) => sql`select ${id}::text as organization_id`,
  workflow: (id) => sql`select organization_id from workflows where id = ${id} and deleted_at is null`,
  // Decisions and receipts of an agent session have its `run_id` in place of a run's id.
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

/** For a call that is about the caller. The organization of the key decides whether a second factor is required. */
export async function findMissingToKey(db: Db, sender: Sender): Promise<MissingFactor | null> {
  const { rows } = await sql<{ missing: MissingFactor | null }>`
    select (${missingToKey(sender)}) as missing`.execute(db)
  return rows[0]?.missing ?? null
}

interface Needed {
  readonly subject: keyof typeof subjectWords
  readonly factor?: boolean
  readonly inner?: readonly InnerObject[]
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
    from (${sources[subject](id)}) as s
    join memberships m on m.organization_id = s.organization_id and m.user_id = ${sender.userId}
    join organizations o on o.id = s.organization_id join users u on u.id = m.user_id`.execute(db)
  const [row] = rows
  if (row === undefined) throw notFound(subjectWords[subject], id)
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
 * An object inside the subject of a route (access.ts), such as a version of a workflow. If it does not exist, the
 * answer is 404, also for a caller whose role is too low or whose body is wrong (docs/decisions/0247).
 */
export interface InnerObject {
  readonly word: string
  readonly name: string
  /** The subject itself, such as another person's key, which must look like an unknown subject. */
  readonly isSubject: boolean
  readonly exists: RawBuilder<boolean>
}

interface Kind {
  /** The routes with this path, and those whose path continues it. Its last parameter names the object. */
  readonly path: string
  /** A route of these paths that needs no such object. */
  readonly except?: RouteKey
  readonly word: string
  /** SQL: `s.organization_id` is the organization of the subject, and `m` the row of the caller's membership. */
  readonly exists: (named: InnerNaming, key: RouteKey) => RawBuilder<boolean>
}

const isAdmin = sql`m.role in ('admin', 'owner')`

/** SQL: whether a table has a row of the organization with this value in the column. */
const has = (table: string, column: string, value: string | undefined): RawBuilder<boolean> =>
  sql`exists (select from ${sql.table(table)}
              where ${sql.ref(column)} = ${value} and organization_id = s.organization_id)`

/** An object with a row of its own, which the last parameter of the path names. */
const inTable = (path: string, word: string, table: string, column = 'id'): Kind => ({
  path,
  word,
  exists: ({ params }) => has(table, column, params[lastParam(path)]),
})

const lastParam = (path: string): string => /.*\{(\w+)\}/.exec(path)?.[1] ?? ''

const ofTool = (table: string, tool: string | undefined, role: string | null): RawBuilder<boolean> =>
  sql`exists (select from ${sql.table(table)} where organization_id = s.organization_id
              and tool_name = ${tool} and (${role}::text is null or role = ${role}))`

const kinds: readonly Kind[] = [
  inTable('/organizations/{id}/rules/{rule}', 'rule', 'rules'),
  inTable('/organizations/{id}/label-rules/{rule}', 'label rule', 'label_rules'),
  inTable('/organizations/{id}/members/{user}', 'member', 'memberships', 'user_id'),
  inTable('/organizations/{id}/invitations/{invitation}', 'invitation', 'invitations'),
  inTable('/organizations/{id}/webhooks/{webhook}', 'webhook', 'webhooks'),
  {
    path: '/organizations/{id}/webhooks/{webhook}/deliveries/{delivery}',
    word: 'delivery',
    exists: ({ params }) => sql`exists (select from webhook_deliveries
      where id = ${params['delivery']} and webhook_id = ${params['webhook']})`,
  },
  {
    path: '/organizations/{id}/tool-policies/{tool}',
    word: 'tool policy',
    exists: ({ params, query, body }) =>
      ofTool('tool_policies', params['tool'], policyRole(query['role'] ?? roleOfBody(body))),
  },
  {
    path: '/organizations/{id}/role-policy-overrides/{tool}',
    word: 'override',
    exists: ({ params, query }) => ofTool('role_policy_overrides', params['tool'], query['role'] ?? null),
  },
  {
    path: '/workflows/{id}/versions/{version}',
    word: 'version',
    exists: ({ params }) => sql`exists (select from workflow_versions
      where workflow_id = ${params['id']} and version = ${versionNumber(params['version'] ?? '')})`,
  },
  {
    path: '/workflow-registry/{id}/use',
    word: 'template',
    exists: ({ params }) => has('registry_entries', 'workflow_id', params['id']),
  },
  {
    path: '/runs/{id}/steps/{step}',
    word: 'step',
    exists: ({ params }) =>
      sql`exists (select from run_steps where run_id = ${params['id']} and step_id = ${params['step']})`,
  },
  {
    // Only the id of an unknown outcome names a call inside a run. That of an approval is the subject itself.
    path: '/approvals/{id}',
    word: 'approval',
    exists({ params: { id = '' } }) {
      if (!id.includes('/')) return sql`true`
      const call = readCallId(id)
      return sql`exists (select from effects where run_id = ${call?.runId ?? null}
        and step_id = ${call?.stepId ?? null} and item_index = ${call?.itemIndex ?? null})`
    },
  },
  {
    path: '/authorize/approvals/{id}',
    word: 'approval',
    // The call is about the caller, so there is no organization (`s`).
    exists: ({ params }) => sql`exists (select from approvals as a
      join memberships as own on own.organization_id = a.organization_id and own.user_id = a.requested_by
      where a.id = ${params['id']} and a.kind = 'agent_call' and a.requested_by = m.user_id)`,
  },
  {
    // A person does not learn of other people's keys, except as an owner.
    path: '/api-keys/{id}',
    word: 'API key',
    exists: ({ params }) => sql`exists (select from api_keys
      where id = ${params['id']} and (user_id = m.user_id or m.role = 'owner'))`,
  },
  {
    // A person does not learn of other people's connections, except as an admin.
    path: '/connections/{id}',
    word: 'connection',
    exists: ({ params }) => sql`exists (select from connections
      where id = ${params['id']} and (owner_id is null or owner_id = m.user_id or ${isAdmin}))`,
  },
  {
    path: '/memory/{key}',
    except: 'PUT /memory/{key}',
    word: 'value',
    // An admin can delete the labels that a deleted value has left.
    exists: ({ params }, key) => sql`exists (select from memory
      where organization_id = s.organization_id and key = ${params['key']}
      and (deleted_at is null or (${sql.lit(key === 'DELETE /memory/{key}')} and ${isAdmin})))`,
  },
  {
    path: '/tools/{name}',
    word: 'tool',
    exists: ({ params }) => sql`${sql.lit(getTool(params['name'] ?? '') !== undefined)}`,
  },
]

/** By route, the outer one first. */
const kindsOf = new Map<RouteKey, readonly Kind[]>(
  (Object.keys(access) as RouteKey[]).map((key) => [
    key,
    kinds.filter((kind) => kind.except !== key && `${splitKey(key).path}/`.startsWith(`${kind.path}/`)),
  ]),
)

export const innerObjectsOf = (key: RouteKey, named: InnerNaming): readonly InnerObject[] =>
  (kindsOf.get(key) ?? []).map(({ path, word, exists }) => ({
    word,
    name: named.params[lastParam(path)] ?? '',
    isSubject: lastParam(path) === 'id',
    exists: exists(named, key),
  }))

/**
 * '' is the policy of the organization. For a text that is no role, null: any policy of the tool counts, so that the
 * validation can say which roles there are.
 */
function policyRole(role: string | undefined): string | null {
  if (role === undefined) return ''
  return roles.safeParse(role).success ? role : null
}

function roleOfBody(body: unknown): string | undefined {
  if (typeof body !== 'object' || body === null || !Object.hasOwn(body, 'role')) return undefined
  const { role } = body as { role: unknown }
  return typeof role === 'string' ? role : 'unreadable'
}

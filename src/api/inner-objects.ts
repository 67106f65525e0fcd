import { sql, type RawBuilder } from 'kysely'
import { getTool } from '../tools/index.ts'
import { readCallId } from '../contract/effect-key.ts'
import { versionNumber } from '../governance/workflows/versions.ts'
import { access, splitKey, type RouteKey } from './access.ts'
import { role as roles } from './schemas/common.ts'

/** The parts of a request that can name an inner object. */
export interface InnerNaming {
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
  /** The name that the path gives. */
  readonly name: string
  /** Whether this is the subject itself, such as another person's key. Then it must look like an unknown subject. */
  readonly isSubject: boolean
  /** SQL: whether the object exists. */
  readonly exists: RawBuilder<boolean>
}

interface Kind {
  /** The routes with this path, and those whose path continues it. */
  readonly path: string
  /** A route of these paths that needs no such object. */
  readonly except?: RouteKey
  readonly word: string
  /** The path parameter with the object's name. */
  readonly param: string
  /**
   * SQL: whether the object exists. In the statement, `s.organization_id` is the organization of the subject, and `m`
   * is the row of the caller's membership.
   */
  readonly exists: (named: InnerNaming, key: RouteKey) => RawBuilder<boolean>
}

const isAdmin = sql`m.role in ('admin', 'owner')`

/** SQL: whether a table has a row of the organization with the column equal to the value. */
const has = (table: string, column: string, value: string | undefined): RawBuilder<boolean> =>
  sql`exists (select from ${sql.table(table)}
              where ${sql.ref(column)} = ${value} and organization_id = s.organization_id)`

const ofTool = (table: string, tool: string | undefined, role: string | null): RawBuilder<boolean> =>
  sql`exists (select from ${sql.table(table)} where organization_id = s.organization_id
              and tool_name = ${tool} and (${role}::text is null or role = ${role}))`

const kinds: readonly Kind[] = [
  {
    path: '/organizations/{id}/rules/{rule}',
    word: 'rule',
    param: 'rule',
    exists: ({ params }) => has('rules', 'id', params['rule']),
  },
  {
    path: '/organizations/{id}/label-rules/{rule}',
    word: 'label rule',
    param: 'rule',
    exists: ({ params }) => has('label_rules', 'id', params['rule']),
  },
  {
    path: '/organizations/{id}/members/{user}',
    word: 'member',
    param: 'user',
    exists: ({ params }) => has('memberships', 'user_id', params['user']),
  },
  {
    path: '/organizations/{id}/invitations/{invitation}',
    word: 'invitation',
    param: 'invitation',
    exists: ({ params }) => has('invitations', 'id', params['invitation']),
  },
  {
    path: '/organizations/{id}/webhooks/{webhook}',
    word: 'webhook',
    param: 'webhook',
    exists: ({ params }) => has('webhooks', 'id', params['webhook']),
  },
  {
    path: '/organizations/{id}/webhooks/{webhook}/deliveries/{delivery}',
    word: 'delivery',
    param: 'delivery',
    exists: ({ params }) => sql`exists (select from webhook_deliveries
      where id = ${params['delivery']} and webhook_id = ${params['webhook']})`,
  },
  {
    path: '/organizations/{id}/tool-policies/{tool}',
    word: 'tool policy',
    param: 'tool',
    exists: ({ params, query, body }) =>
      ofTool('tool_policies', params['tool'], policyRole(query['role'] ?? roleOfBody(body))),
  },
  {
    path: '/organizations/{id}/role-policy-overrides/{tool}',
    word: 'override',
    param: 'tool',
    exists: ({ params, query }) => ofTool('role_policy_overrides', params['tool'], query['role'] ?? null),
  },
  {
    path: '/workflows/{id}/versions/{version}',
    word: 'version',
    param: 'version',
    exists: ({ params }) => sql`exists (select from workflow_versions
      where workflow_id = ${params['id']} and version = ${versionNumber(params['version'] ?? '')})`,
  },
  {
    path: '/workflow-registry/{id}/use',
    word: 'template',
    param: 'id',
    exists: ({ params }) => has('registry_entries', 'workflow_id', params['id']),
  },
  {
    path: '/runs/{id}/steps/{step}',
    word: 'step',
    param: 'step',
    exists: ({ params }) =>
      sql`exists (select from run_steps where run_id = ${params['id']} and step_id = ${params['step']})`,
  },
  {
    // Only the id of an unknown outcome names a call inside a run. The id of an approval is the subject itself.
    path: '/approvals/{id}',
    word: 'approval',
    param: 'id',
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
    param: 'id',
    // The call is about the caller, so the statement has no organization (`s`) here.
    exists: ({ params }) => sql`exists (select from approvals as a
      join memberships as own on own.organization_id = a.organization_id and own.user_id = a.requested_by
      where a.id = ${params['id']} and a.kind = 'agent_call' and a.requested_by = m.user_id)`,
  },
  {
    // A person does not learn of other people's keys, except as an owner.
    path: '/api-keys/{id}',
    word: 'API key',
    param: 'id',
    exists: ({ params }) => sql`exists (select from api_keys
      where id = ${params['id']} and (user_id = m.user_id or m.role = 'owner'))`,
  },
  {
    // A person does not learn of other people's connections, except as an admin.
    path: '/connections/{id}',
    word: 'connection',
    param: 'id',
    exists: ({ params }) => sql`exists (select from connections
      where id = ${params['id']} and (owner_id is null or owner_id = m.user_id or ${isAdmin}))`,
  },
  {
    path: '/memory/{key}',
    except: 'PUT /memory/{key}',
    word: 'value',
    param: 'key',
    // An admin can delete the labels that a deleted value has left.
    exists: ({ params }, key) => sql`exists (select from memory
      where organization_id = s.organization_id and key = ${params['key']}
      and (deleted_at is null or (${sql.lit(key === 'DELETE /memory/{key}')} and ${isAdmin})))`,
  },
  {
    path: '/tools/{name}',
    word: 'tool',
    param: 'name',
    exists: ({ params }) => sql`${sql.lit(getTool(params['name'] ?? '') !== undefined)}`,
  },
]

/** The kinds of inner objects that the path of each route names, the outer one first. */
const kindsOf = new Map<RouteKey, readonly Kind[]>(
  (Object.keys(access) as RouteKey[]).map((key) => [
    key,
    kinds.filter((kind) => kind.except !== key && `${splitKey(key).path}/`.startsWith(`${kind.path}/`)),
  ]),
)

/** Returns the inner objects that a request names in its path, the outer one first. */
export const innerObjectsOf = (key: RouteKey, named: InnerNaming): readonly InnerObject[] =>
  (kindsOf.get(key) ?? []).map(({ word, param, exists }) => ({
    word,
    name: named.params[param] ?? '',
    isSubject: param === 'id',
    exists: exists(named, key),
  }))

/**
 * Returns the role of a tool policy; '' for the policy of the organization. Returns null for a text that is not a role.
 * Then any policy of the tool counts, so that the validation can say which roles there are.
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

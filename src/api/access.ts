import type { Scope } from '../governance/access/scopes.ts'
import type { Role } from '../policy/types.ts'

/**
 * How the organization of a request is found. That comes before the check of the role, so the answer to a caller who is
 * no member of the object's organization is 404, and not 403.
 * - `own`: the `organization_id` of the query or body. Without one, what a signed-in person's header
 *   `X-Organization-Id` or the console's cookie names, else the organization of the key, or one of the person's.
 * - `organization`: named by the path's `{id}`; the other names: owner of the object that the path's `{id}` names.
 * - `nothing`: the call is about the caller, or the handler finds the organization. No role is checked beforehand.
 * A path can also name an object inside the subject, such as a version of a workflow (subjects.ts).
 */
export type Subject = keyof typeof subjectWords | 'nothing'

export const subjectWords = {
  own: 'organization',
  organization: 'organization',
  workflow: 'workflow',
  run: 'run',
  approval: 'approval',
  api_key: 'API key',
  agent_session: 'agent session',
  connection: 'connection',
  file: 'file',
} as const

export type Access =
  | { readonly public: true }
  | {
      readonly public: false
      readonly scope: Scope | null
      /** A key needs these too, because the answer also shows what they protect. */
      readonly further?: readonly Scope[]
      readonly role: Role
      readonly subject: Subject
      /** The session must have been opened with a second factor, even if the organization requires none. */
      readonly factor?: boolean
      /**
       * With the subject `own`, a request that names no organization is about every one in which the caller has the
       * role. A key also needs the role in its own organization (docs/decisions/0246).
       */
      readonly every?: boolean
    }

const open: Access = { public: true }
const needs = (scope: Scope | null, role: Role, subject: Subject) => ({
  public: false as const,
  scope,
  role,
  subject,
})

const withFurther = (access: ReturnType<typeof needs>, further: readonly Scope[]): Access => ({
  ...access,
  further,
})

const inEvery = (access: ReturnType<typeof needs>): Access => ({ ...access, every: true })

const withFactor = (access: ReturnType<typeof needs>): Access => ({ ...access, factor: true })

/** What each route needs. A route that is missing here cannot be mounted. */
export const access = {
  'GET /health': open,
  'GET /health/secrets': needs('secrets:*', 'admin', 'own'),
  'GET /openapi.json': open,
  'GET /docs': open,

  // Only about the caller and the list of scopes. Every key except an agent's may call them.
  'GET /me': needs(null, 'viewer', 'nothing'),
  'GET /me/notifications': needs(null, 'viewer', 'own'),
  'PUT /me/notifications': needs(null, 'viewer', 'own'),
  'GET /scopes': needs(null, 'viewer', 'nothing'),

  // They create an organization or a membership for the caller, who needs no role in any.
  'POST /organizations': needs('organizations:*', 'viewer', 'nothing'),
  'POST /invitations/accept': needs('organizations:*', 'viewer', 'nothing'),
  'GET /organizations/{id}/members': needs('organizations:*', 'owner', 'organization'),
  'PATCH /organizations/{id}/members/{user}': needs('organizations:*', 'owner', 'organization'),
  // Every member may leave. `removeMember` checks that only owners remove others.
  'DELETE /organizations/{id}/members/{user}': needs('organizations:*', 'viewer', 'organization'),
  // Members may link their own Slack account, and admins anybody's: `linkSlackAccount` checks this.
  'PUT /organizations/{id}/members/{user}/accounts/slack': needs('organizations:*', 'viewer', 'organization'),
  'DELETE /organizations/{id}/members/{user}/accounts/slack': needs(
    'organizations:*',
    'viewer',
    'organization',
  ),
  'GET /organizations/{id}/notifications': needs('approvals:read', 'admin', 'organization'),
  'POST /organizations/{id}/invitations': needs('organizations:*', 'owner', 'organization'),
  'GET /organizations/{id}/invitations': needs('organizations:*', 'owner', 'organization'),
  'DELETE /organizations/{id}/invitations/{invitation}': needs('organizations:*', 'owner', 'organization'),

  'POST /api-keys': needs('api_keys:*', 'viewer', 'own'),
  'GET /api-keys': needs('api_keys:*', 'viewer', 'own'),
  'PATCH /api-keys/{id}': needs('api_keys:*', 'viewer', 'api_key'),
  'DELETE /api-keys/{id}': needs('api_keys:*', 'viewer', 'api_key'),
  'POST /api-keys/{id}/confirm': withFactor(needs('api_keys:*', 'viewer', 'api_key')),

  'POST /workflows': needs('workflows:write', 'member', 'own'),
  'GET /workflows': needs('workflows:read', 'viewer', 'own'),
  'GET /workflows/{id}': needs('workflows:read', 'viewer', 'workflow'),
  'PUT /workflows/{id}': needs('workflows:write', 'member', 'workflow'),
  'DELETE /workflows/{id}': needs('workflows:write', 'member', 'workflow'),
  'GET /workflows/{id}/versions': needs('workflows:read', 'viewer', 'workflow'),
  'GET /workflows/{id}/versions/{version}': needs('workflows:read', 'admin', 'workflow'),
  'POST /workflows/{id}/versions/{version}/rollback': needs('workflows:write', 'admin', 'workflow'),

  // Using a template only creates a workflow, so it needs the scope of members. Only owners have `registry:write`.
  'GET /workflow-registry': needs('workflows:read', 'viewer', 'own'),
  'POST /workflow-registry/{id}/approve-template': needs('registry:write', 'owner', 'workflow'),
  'POST /workflow-registry/{id}/deprecate': needs('registry:write', 'owner', 'workflow'),
  'POST /workflow-registry/{id}/archive': needs('registry:write', 'owner', 'workflow'),
  'POST /workflow-registry/{id}/use': needs('workflows:write', 'member', 'workflow'),

  'POST /workflows/{id}/execute': needs('runs:write', 'member', 'workflow'),
  'POST /workflows/{id}/authorization-preview': needs('workflows:read', 'viewer', 'workflow'),
  'GET /runs': needs('runs:read', 'viewer', 'own'),
  'GET /runs/{id}': needs('runs:read', 'viewer', 'run'),
  'POST /runs/{id}/cancel': needs('runs:write', 'member', 'run'),
  'GET /executions': needs('runs:read', 'viewer', 'own'),
  'GET /executions/{id}': needs('runs:read', 'viewer', 'run'),
  'POST /executions/{id}/cancel': needs('runs:write', 'member', 'run'),
  'GET /runs/{id}/authorization': needs('runs:read', 'viewer', 'run'),
  'GET /runs/{id}/events': needs('runs:read', 'viewer', 'run'),
  'GET /runs/{id}/steps/{step}/output': needs('runs:read', 'viewer', 'run'),
  'GET /runs/{id}/steps/{step}/calls': needs('runs:read', 'viewer', 'run'),
  'POST /runs/{id}/steps/{step}/resolve': needs('approvals:decide', 'admin', 'run'),

  'GET /organizations/{id}/approvals/summary': needs('approvals:read', 'member', 'organization'),
  'GET /approvals': needs('approvals:read', 'member', 'own'),
  'GET /approvals/{id}': needs('approvals:read', 'member', 'approval'),
  'POST /approvals/{id}/approve': needs('approvals:decide', 'admin', 'approval'),
  'POST /approvals/{id}/reject': needs('approvals:decide', 'admin', 'approval'),

  'POST /organizations/{id}/rules': needs('rules:write', 'admin', 'organization'),
  'GET /organizations/{id}/rules': needs('rules:read', 'member', 'organization'),
  'GET /organizations/{id}/rules/{rule}': needs('rules:read', 'member', 'organization'),
  'PUT /organizations/{id}/rules/{rule}': needs('rules:write', 'admin', 'organization'),
  'PATCH /organizations/{id}/rules/{rule}': needs('rules:write', 'admin', 'organization'),
  'DELETE /organizations/{id}/rules/{rule}': needs('rules:write', 'admin', 'organization'),
  'POST /organizations/{id}/rules/test': needs('rules:read', 'member', 'organization'),
  // Counts of a draft with a condition show what the parameters of calls were, and samples name runs, sessions and
  // labels. So only people who may see these values may send a backtest, with a key that may read them.
  'POST /organizations/{id}/rules/backtest': withFurther(needs('rules:read', 'admin', 'organization'), [
    'runs:read',
    'approvals:read',
    'agents:read',
  ]),
  'GET /organizations/{id}/rules/analysis': needs('rules:read', 'member', 'organization'),
  'POST /organizations/{id}/rules/diff': needs('rules:read', 'member', 'organization'),
  'POST /organizations/{id}/label-rules': needs('rules:write', 'admin', 'organization'),
  'GET /organizations/{id}/label-rules': needs('rules:read', 'member', 'organization'),
  'GET /organizations/{id}/label-rules/{rule}': needs('rules:read', 'member', 'organization'),
  'PUT /organizations/{id}/label-rules/{rule}': needs('rules:write', 'admin', 'organization'),
  'PATCH /organizations/{id}/label-rules/{rule}': needs('rules:write', 'admin', 'organization'),
  'DELETE /organizations/{id}/label-rules/{rule}': needs('rules:write', 'admin', 'organization'),
  'GET /rule-templates': needs('rules:read', 'member', 'own'),

  'GET /organizations/{id}/governance': needs('governance:read', 'admin', 'organization'),
  'PATCH /organizations/{id}/governance': needs('governance:write', 'owner', 'organization'),
  'GET /organizations/{id}/governance/audit': needs('audit:read', 'admin', 'organization'),
  'GET /organizations/{id}/governance/report': needs('governance:read', 'admin', 'organization'),
  'GET /organizations/{id}/governance/approvals': needs('governance:read', 'admin', 'organization'),

  'POST /organizations/{id}/webhooks': needs('governance:write', 'owner', 'organization'),
  'GET /organizations/{id}/webhooks': needs('governance:read', 'owner', 'organization'),
  'GET /organizations/{id}/webhooks/{webhook}': needs('governance:read', 'owner', 'organization'),
  'PATCH /organizations/{id}/webhooks/{webhook}': needs('governance:write', 'owner', 'organization'),
  'DELETE /organizations/{id}/webhooks/{webhook}': needs('governance:write', 'owner', 'organization'),
  'POST /organizations/{id}/webhooks/{webhook}/rotate-secret': needs(
    'governance:write',
    'owner',
    'organization',
  ),
  'POST /organizations/{id}/webhooks/{webhook}/test': needs('governance:write', 'owner', 'organization'),
  'GET /organizations/{id}/webhooks/{webhook}/deliveries': needs('governance:read', 'owner', 'organization'),
  'POST /organizations/{id}/webhooks/{webhook}/deliveries/{delivery}/redeliver': needs(
    'governance:write',
    'owner',
    'organization',
  ),

  'GET /organizations/{id}/quota': needs('quota:read', 'admin', 'organization'),
  'PATCH /organizations/{id}/quota': needs('quota:write', 'owner', 'organization'),

  'GET /organizations/{id}/audit-events/verify': needs('audit:read', 'admin', 'organization'),
  'GET /organizations/{id}/audit-events/checkpoint': needs('audit:read', 'admin', 'organization'),
  'GET /organizations/{id}/audit-events/export': needs('audit:read', 'admin', 'organization'),

  'POST /organizations/{id}/freeze': needs('governance:write', 'owner', 'organization'),
  'POST /organizations/{id}/unfreeze': needs('governance:write', 'owner', 'organization'),

  'GET /organizations/{id}/tool-policies': needs('policies:read', 'admin', 'organization'),
  'POST /organizations/{id}/tool-policies': needs('policies:write', 'owner', 'organization'),
  'PATCH /organizations/{id}/tool-policies/{tool}': needs('policies:write', 'owner', 'organization'),
  'DELETE /organizations/{id}/tool-policies/{tool}': needs('policies:write', 'owner', 'organization'),
  'GET /organizations/{id}/role-policy-overrides': needs('policies:read', 'admin', 'organization'),
  'POST /organizations/{id}/role-policy-overrides': needs('policies:write', 'owner', 'organization'),
  'DELETE /organizations/{id}/role-policy-overrides/{tool}': needs('policies:write', 'owner', 'organization'),
  'GET /governance/tool-constraints': needs('policies:read', 'admin', 'own'),

  // The decision checks the role and answers `deny`: after an HTTP error, a fail-open client would make the call.
  'POST /authorize': needs('agents:authorize', 'member', 'nothing'),
  'POST /hooks/claude-code': needs('agents:authorize', 'member', 'nothing'),
  'GET /authorize/approvals/{id}': needs('agents:authorize', 'member', 'nothing'),
  'POST /authorize/approvals/{id}/cancel': needs('agents:authorize', 'member', 'nothing'),
  'POST /authorize/observe': needs('agents:authorize', 'member', 'nothing'),
  'POST /authorize/sessions/end': needs('agents:authorize', 'member', 'nothing'),
  'GET /agent-sessions': inEvery(needs('agents:read', 'admin', 'own')),
  'GET /agent-sessions/{id}': needs('agents:read', 'admin', 'agent_session'),
  'POST /agent-sessions/{id}/revoke': needs('agents:revoke', 'admin', 'agent_session'),
  'GET /integrations': open,
  'GET /integrations/{file}': open,

  'GET /tools': needs('tools:read', 'viewer', 'own'),
  'GET /tools/{name}': needs('tools:read', 'viewer', 'own'),

  // `connect`, `renameConnection` and `revokeConnection` check that only admins change the organization's.
  'POST /tools/{name}/connect': needs('tools:connect', 'member', 'own'),
  // Only the person who began the authorization can complete it, in the organization where it began.
  'GET /connections/callback/{integration}': needs('tools:connect', 'member', 'nothing'),
  'GET /connections': needs('tools:read', 'viewer', 'own'),
  'PATCH /connections/{id}': needs('tools:connect', 'member', 'connection'),
  'DELETE /connections/{id}': needs('tools:connect', 'member', 'connection'),

  // Also for reading, because these routes never show the content of a file.
  'POST /files': needs('files:write', 'member', 'own'),
  'GET /files': needs('files:write', 'member', 'own'),
  'GET /files/{id}': needs('files:write', 'member', 'file'),
  'DELETE /files/{id}': needs('files:write', 'member', 'file'),

  'GET /memory/{key}': needs('memory:read', 'member', 'own'),
  'PUT /memory/{key}': needs('memory:write', 'member', 'own'),
  'DELETE /memory/{key}': needs('memory:write', 'member', 'own'),
} as const satisfies Record<string, Access>

export type RouteKey = keyof typeof access
export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'

export function splitKey(key: RouteKey): { method: Method; path: string } {
  const [method, path] = key.split(' ') as [Method, string]
  return { method, path }
}

/** POST routes that ignore `Idempotency-Key`. */
const asking = [
  // They change nothing, so the key would only repeat an old answer.
  'POST /workflows/{id}/authorization-preview',
  'POST /organizations/{id}/rules/test',
  'POST /organizations/{id}/rules/backtest',
  'POST /organizations/{id}/rules/diff',
  // Their bodies have an id of their own, `tool_use_id`: the same id gets the same answer.
  'POST /authorize',
  'POST /authorize/observe',
  'POST /hooks/claude-code',
] as const satisfies RouteKey[]
export type ActingKey = Exclude<Extract<RouteKey, `POST ${string}`>, (typeof asking)[number]>

/** Without an `Idempotency-Key`, a repeated call of such a route would make its change twice. */
export function acts(key: RouteKey): key is ActingKey {
  return splitKey(key).method === 'POST' && !asking.some((each) => each === key)
}

export function accessOf(key: RouteKey): Access {
  return access[key]
}

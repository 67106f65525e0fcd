import type { Scope } from '../governance/scopes.ts'
import type { Role } from '../policy/types.ts'

/**
 * Where a route's organization comes from. It is found before anything else about the call is judged: what belongs to
 * an organization of which the caller is no member does not exist for them (contract section 1).
 * - `own`: the `organization_id` of query or body, else the key's;
 * - `organization`: the path's `{id}`; `rule`, `label_rule`: a rule below it;
 * - `workflow`, `run`, `approval`, `api_key`, `agent_session`: the organization that the path's `{id}` belongs to;
 * - `nothing`: the call is about the caller alone, or finds its organization itself; no role is asked for beforehand.
 */
export type Subject =
  | 'own'
  | 'organization'
  | 'rule'
  | 'label_rule'
  | 'workflow'
  | 'run'
  | 'approval'
  | 'api_key'
  | 'agent_session'
  | 'nothing'

export type Access =
  | { readonly public: true }
  | {
      readonly public: false
      readonly scope: Scope | null
      readonly role: Role
      readonly subject: Subject
      /** Whether only a session that was opened with a second factor may do it, whatever the organization requires. */
      readonly factor?: boolean
    }

const open: Access = { public: true }
const needs = (scope: Scope | null, role: Role, subject: Subject) => ({
  public: false as const,
  scope,
  role,
  subject,
})

const withFactor = (access: ReturnType<typeof needs>): Access => ({ ...access, factor: true })

/** Scope, lowest role and subject of every route there is. A route that is not in this table cannot be mounted. */
export const access = {
  'GET /health': open,
  'GET /openapi.json': open,
  'GET /docs': open,

  // Any key but an agent's may ask who it is and what there is: it learns nothing but its own rights.
  'GET /me': needs(null, 'viewer', 'nothing'),
  'GET /scopes': needs(null, 'viewer', 'nothing'),

  // What is made is the caller's own: no role anywhere is needed for it.
  'POST /organizations': needs('organizations:*', 'viewer', 'nothing'),
  'POST /invitations/accept': needs('organizations:*', 'viewer', 'nothing'),
  'GET /organizations/{id}/members': needs('organizations:*', 'owner', 'organization'),
  'PATCH /organizations/{id}/members/{user}': needs('organizations:*', 'owner', 'organization'),
  // Anybody may leave; that only an owner removes others is judged where members are changed.
  'DELETE /organizations/{id}/members/{user}': needs('organizations:*', 'viewer', 'organization'),
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

  // Making a workflow out of a template is writing a workflow: members do it, and `registry:write` is of use to owners.
  'GET /workflow-registry': needs('workflows:read', 'viewer', 'own'),
  'POST /workflow-registry/{id}/approve-template': needs('registry:write', 'owner', 'workflow'),
  'POST /workflow-registry/{id}/deprecate': needs('registry:write', 'owner', 'workflow'),
  'POST /workflow-registry/{id}/archive': needs('registry:write', 'owner', 'workflow'),
  'POST /workflow-registry/{id}/use': needs('workflows:write', 'member', 'workflow'),

  'POST /workflows/{id}/execute': needs('runs:write', 'member', 'workflow'),
  'GET /runs': needs('runs:read', 'viewer', 'own'),
  'GET /runs/{id}': needs('runs:read', 'viewer', 'run'),
  'POST /runs/{id}/cancel': needs('runs:write', 'member', 'run'),
  'GET /executions': needs('runs:read', 'viewer', 'own'),
  'GET /executions/{id}': needs('runs:read', 'viewer', 'run'),
  'POST /executions/{id}/cancel': needs('runs:write', 'member', 'run'),
  'GET /runs/{id}/authorization': needs('runs:read', 'viewer', 'run'),
  'GET /runs/{id}/events': needs('runs:read', 'viewer', 'run'),
  'GET /runs/{id}/steps/{step}/output': needs('runs:read', 'viewer', 'run'),
  'POST /runs/{id}/steps/{step}/resolve': needs('approvals:decide', 'admin', 'run'),

  'GET /approvals': needs('approvals:read', 'member', 'own'),
  'GET /approvals/{id}': needs('approvals:read', 'member', 'approval'),
  'POST /approvals/{id}/approve': needs('approvals:decide', 'admin', 'approval'),
  'POST /approvals/{id}/reject': needs('approvals:decide', 'admin', 'approval'),

  'POST /organizations/{id}/rules': needs('rules:write', 'admin', 'organization'),
  'GET /organizations/{id}/rules': needs('rules:read', 'member', 'organization'),
  'GET /organizations/{id}/rules/{rule}': needs('rules:read', 'member', 'rule'),
  'PUT /organizations/{id}/rules/{rule}': needs('rules:write', 'admin', 'rule'),
  'PATCH /organizations/{id}/rules/{rule}': needs('rules:write', 'admin', 'rule'),
  'DELETE /organizations/{id}/rules/{rule}': needs('rules:write', 'admin', 'rule'),
  'POST /organizations/{id}/rules/test': needs('rules:read', 'member', 'organization'),
  'POST /organizations/{id}/label-rules': needs('rules:write', 'admin', 'organization'),
  'GET /organizations/{id}/label-rules': needs('rules:read', 'member', 'organization'),
  'GET /organizations/{id}/label-rules/{rule}': needs('rules:read', 'member', 'label_rule'),
  'PUT /organizations/{id}/label-rules/{rule}': needs('rules:write', 'admin', 'label_rule'),
  'PATCH /organizations/{id}/label-rules/{rule}': needs('rules:write', 'admin', 'label_rule'),
  'DELETE /organizations/{id}/label-rules/{rule}': needs('rules:write', 'admin', 'label_rule'),
  'GET /rule-templates': needs('rules:read', 'member', 'own'),

  'GET /organizations/{id}/governance': needs('governance:read', 'admin', 'organization'),
  'PATCH /organizations/{id}/governance': needs('governance:write', 'owner', 'organization'),
  'GET /organizations/{id}/governance/audit': needs('audit:read', 'admin', 'organization'),

  'GET /organizations/{id}/quota': needs('quota:read', 'admin', 'organization'),
  'PATCH /organizations/{id}/quota': needs('quota:write', 'owner', 'organization'),

  'GET /organizations/{id}/audit-events/verify': needs('audit:read', 'admin', 'organization'),

  'POST /organizations/{id}/freeze': needs('governance:write', 'owner', 'organization'),
  'POST /organizations/{id}/unfreeze': needs('governance:write', 'owner', 'organization'),

  'GET /organizations/{id}/tool-policies': needs('policies:read', 'admin', 'organization'),
  'POST /organizations/{id}/tool-policies': needs('policies:write', 'owner', 'organization'),
  'PATCH /organizations/{id}/tool-policies/{tool}': needs('policies:write', 'owner', 'organization'),
  'DELETE /organizations/{id}/tool-policies/{tool}': needs('policies:write', 'owner', 'organization'),

  // The role is part of the decision: anywhere else it would be an error, and not let a fail-open client be denied.
  'POST /authorize': needs('agents:authorize', 'member', 'nothing'),
  'POST /hooks/claude-code': needs('agents:authorize', 'member', 'nothing'),
  'GET /authorize/approvals/{id}': needs('agents:authorize', 'member', 'nothing'),
  'POST /authorize/approvals/{id}/cancel': needs('agents:authorize', 'member', 'nothing'),
  'POST /authorize/observe': needs('agents:authorize', 'member', 'nothing'),
  'POST /authorize/sessions/end': needs('agents:authorize', 'member', 'nothing'),
  'GET /agent-sessions': needs('agents:read', 'admin', 'own'),
  'GET /agent-sessions/{id}': needs('agents:read', 'admin', 'agent_session'),
  'POST /agent-sessions/{id}/revoke': needs('agents:revoke', 'admin', 'agent_session'),
  'GET /integrations': open,
  'GET /integrations/{file}': open,

  'GET /tools': needs('tools:read', 'viewer', 'own'),
  'GET /tools/{name}': needs('tools:read', 'viewer', 'own'),

  'GET /memory/{key}': needs('memory:read', 'member', 'own'),
  'PUT /memory/{key}': needs('memory:write', 'member', 'own'),
  'DELETE /memory/{key}': needs('memory:write', 'member', 'own'),
} as const satisfies Record<string, Access>

export type RouteKey = keyof typeof access
export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'

/** `'GET /workflows/{id}'` → method, path and whether it acts through POST (and so takes an `Idempotency-Key`). */
export function splitKey(key: RouteKey): { method: Method; path: string } {
  const [method, path] = key.split(' ') as [Method, string]
  return { method, path }
}

/** POST routes that change nothing: an `Idempotency-Key` would only repeat what was true when they were first asked. */
const asking = [
  'POST /organizations/{id}/rules/test',
  // These carry an id of their own, `tool_use_id`, and are answered again by it.
  'POST /authorize',
  'POST /authorize/observe',
  'POST /hooks/claude-code',
] as const satisfies RouteKey[]
export type ActingKey = Exclude<Extract<RouteKey, `POST ${string}`>, (typeof asking)[number]>

/** Whether a call of the route does something, once for each `Idempotency-Key` (contract section 1). */
export function acts(key: RouteKey): key is ActingKey {
  return splitKey(key).method === 'POST' && !asking.some((each) => each === key)
}

export function accessOf(key: RouteKey): Access {
  return access[key]
}

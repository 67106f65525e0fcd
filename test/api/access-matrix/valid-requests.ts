import { access, accessOf, splitKey, type Access, type RouteKey } from '../../../src/api/access.ts'
import { newId } from '../../../src/contract/ids.ts'
import type { Scope } from '../../../src/governance/access/scopes.ts'
import { oneStep } from '../../governance/runs/engine-fixture.ts'
import { formOf } from '../fixtures.ts'
import { another } from './place.ts'
import {
  about,
  aNewRule,
  anApiKey,
  aStep,
  aWebhookOf,
  inMemory,
  of,
  rule,
  type Filling,
  type ValidRequest,
} from './request-parts.ts'
import { aWebhook, type World } from './world.ts'

/*
 * One valid request for every route that needs a key. The request succeeds for a person of the route's lowest role
 * whose key has only the route's scopes. A new route in the access table must be added here.
 */

type PublicKey = { [Key in RouteKey]: (typeof access)[Key] extends { public: true } ? Key : never }[RouteKey]
export type GuardedKey = Exclude<RouteKey, PublicKey>
export const accessTo = (key: GuardedKey) => accessOf(key) as Extract<Access, { public: false }>

/** The scopes that a key needs for the route. Is empty if the route needs none. */
export const scopesTo = (key: GuardedKey): readonly Scope[] => {
  const { scope, further = [] } = accessTo(key)
  return scope === null ? [] : [scope, ...further]
}

const definition = oneStep
const named = { name: 'another' }

const aSlackId = (): string => `U${newId('user').slice(-20).toUpperCase()}`

/** The only credential that is accepted without asking a service. */
const aCredential = { credential: { provider: 'brave', api_key: 'k' }, scope: 'personal' }

const anAgentSession = async (world: World): Promise<string> =>
  (await world.agentSession(world.place.requester)).id

export const validRequests: Readonly<Record<GuardedKey, ValidRequest>> = {
  'GET /health/secrets': of(200),
  'GET /me': of(200),
  'GET /me/notifications': of(200),
  'PUT /me/notifications': of(200, async () => ({ body: { mail: true, delay_seconds: 60 } })),
  'GET /scopes': of(200),

  'POST /organizations': of(201, async () => ({ body: { name: 'O' } })),
  'POST /invitations/accept': of(200, async (world) => ({
    body: { token: await world.membership.invitationToSender() },
  })),
  'GET /organizations/{id}/members': of(200),
  'PATCH /organizations/{id}/members/{user}': of(200, async (world) => ({
    ids: { user: await world.anotherMember() },
    body: { role: 'admin' },
  })),
  'DELETE /organizations/{id}/members/{user}': {
    status: 204,
    prepare: async (world) => ({ ids: { user: await world.membership.aLeaver() } }),
    restore: (world) => world.membership.comeBack(),
  },
  'PUT /organizations/{id}/members/{user}/accounts/slack': of(200, async (world) => {
    await world.membership.mayClaimSlack()
    return { ids: { user: world.sender.userId }, body: { external_id: aSlackId() } }
  }),
  'DELETE /organizations/{id}/members/{user}/accounts/slack': of(204, async (world) => {
    await world.membership.linkSlack(aSlackId())
    return { ids: { user: world.sender.userId } }
  }),
  'GET /organizations/{id}/notifications': of(200),
  'POST /organizations/{id}/invitations': of(201, async () => ({
    body: { email: `${newId('user')}@elsewhere.test`, role: 'viewer', send_mail: false },
  })),
  'GET /organizations/{id}/invitations': of(200),
  'DELETE /organizations/{id}/invitations/{invitation}': of(204, async (world) => ({
    ids: { invitation: await world.invitation() },
  })),

  'POST /api-keys': of(201, async () => ({ body: { name: 'k', scopes: ['api_keys:*'] } })),
  'GET /api-keys': of(200),
  'PATCH /api-keys/{id}': about(200, anApiKey, named),
  'DELETE /api-keys/{id}': about(204, anApiKey),
  'POST /api-keys/{id}/confirm': about(200, anApiKey, {}),

  'POST /workflows': of(201, async () => ({ body: { name: 'W', definition } })),
  'GET /workflows': of(200),
  'GET /workflows/{id}': about(200, (world) => world.workflow()),
  'PUT /workflows/{id}': about(200, (world) => world.workflow(), { definition }),
  'DELETE /workflows/{id}': about(204, (world) => world.workflow()),
  'GET /workflows/{id}/versions': about(200, (world) => world.workflow()),
  'GET /workflows/{id}/versions/{version}': of(200, async (world) => ({
    ids: { id: await world.workflow(), version: '1' },
  })),
  'POST /workflows/{id}/versions/{version}/rollback': of(200, async (world) => ({
    ids: { id: await world.workflow(), version: '1' },
    body: { message: 'm' },
  })),

  'GET /workflow-registry': of(200),
  'POST /workflow-registry/{id}/approve-template': about(200, (world) => world.workflow(), {
    template_name: 'T',
  }),
  'POST /workflow-registry/{id}/deprecate': about(200, (world) => world.template(), { reason: 'r' }),
  'POST /workflow-registry/{id}/archive': about(200, (world) => world.template('deprecated'), {}),
  'POST /workflow-registry/{id}/use': about(201, (world) => world.template(), {}),

  'POST /workflows/{id}/execute': of(202, async (world) => ({
    ids: { id: await world.workflow() },
    query: 'wait=0',
    body: {},
  })),
  'POST /workflows/{id}/authorization-preview': about(200, (world) => world.workflow(), {}),
  'GET /runs': of(200),
  'GET /runs/{id}': about(200, (world) => world.run()),
  'POST /runs/{id}/cancel': about(200, (world) => world.run(world.sender), {}),
  'GET /executions': of(200),
  'GET /executions/{id}': about(200, (world) => world.run()),
  'POST /executions/{id}/cancel': about(200, (world) => world.run(world.sender), {}),
  'GET /runs/{id}/authorization': about(200, (world) => world.run()),
  'GET /runs/{id}/events': about(200, (world) => world.endedRun()),
  'GET /runs/{id}/steps/{step}/output': aStep(200, 'completed'),
  'GET /runs/{id}/steps/{step}/calls': aStep(200, 'completed'),
  'POST /runs/{id}/steps/{step}/resolve': aStep(200, 'unknown_outcome', { outcome: 'fail' }),

  'GET /organizations/{id}/approvals/summary': of(200),
  'GET /approvals': of(200),
  'GET /approvals/{id}': about(200, (world) => world.approval()),
  'POST /approvals/{id}/approve': about(200, (world) => world.approval(), { comment: 'c' }),
  'POST /approvals/{id}/reject': about(200, (world) => world.approval(), { comment: 'c' }),

  'POST /organizations/{id}/rules': of(201, async () => ({ body: rule('rules') })),
  'GET /organizations/{id}/rules': of(200),
  'POST /organizations/{id}/rules/test': of(200, async () => ({ body: { call: { tool: 'mail_send' } } })),
  'POST /organizations/{id}/rules/backtest': of(200, async () => ({ body: { rules: [] } })),
  'GET /organizations/{id}/rules/analysis': of(200),
  'POST /organizations/{id}/rules/diff': of(200, async () => ({ body: { from: 'active', to: [] } })),
  'GET /organizations/{id}/rules/{rule}': aNewRule('rules', 200),
  'PUT /organizations/{id}/rules/{rule}': aNewRule('rules', 200, () => rule('rules')),
  'PATCH /organizations/{id}/rules/{rule}': aNewRule('rules', 200, () => ({ status: 'shadow' })),
  'DELETE /organizations/{id}/rules/{rule}': aNewRule('rules', 204),
  'POST /organizations/{id}/label-rules': of(201, async () => ({ body: rule('label-rules') })),
  'GET /organizations/{id}/label-rules': of(200),
  'GET /organizations/{id}/label-rules/{rule}': aNewRule('label-rules', 200),
  'PUT /organizations/{id}/label-rules/{rule}': aNewRule('label-rules', 200, () => rule('label-rules')),
  'PATCH /organizations/{id}/label-rules/{rule}': aNewRule('label-rules', 200, () => ({ status: 'shadow' })),
  'DELETE /organizations/{id}/label-rules/{rule}': aNewRule('label-rules', 204),
  'GET /rule-templates': of(200),

  'GET /organizations/{id}/governance': of(200),
  'PATCH /organizations/{id}/governance': of(200, async () => ({
    body: { category_flags: { [`c${another()}`]: true } },
  })),
  'GET /organizations/{id}/governance/audit': of(200),
  'GET /organizations/{id}/governance/report': of(200),
  'GET /organizations/{id}/governance/approvals': of(200),
  'POST /organizations/{id}/webhooks': of(201, async (world) => {
    await world.withoutWebhooks()
    return { body: aWebhook }
  }),
  'GET /organizations/{id}/webhooks': of(200),
  'GET /organizations/{id}/webhooks/{webhook}': aWebhookOf(200),
  'PATCH /organizations/{id}/webhooks/{webhook}': aWebhookOf(200, { active: false }),
  'DELETE /organizations/{id}/webhooks/{webhook}': aWebhookOf(204),
  'POST /organizations/{id}/webhooks/{webhook}/rotate-secret': aWebhookOf(200, {}),
  'POST /organizations/{id}/webhooks/{webhook}/test': aWebhookOf(202, {}),
  'GET /organizations/{id}/webhooks/{webhook}/deliveries': aWebhookOf(200),
  'POST /organizations/{id}/webhooks/{webhook}/deliveries/{delivery}/redeliver': of(202, async (world) => ({
    ids: await world.delivery(),
    body: {},
  })),

  'GET /organizations/{id}/quota': of(200),
  'PATCH /organizations/{id}/quota': of(200, async () => ({ body: { memory_mb: 300 + another() } })),
  'GET /organizations/{id}/audit-events/verify': of(200),
  'GET /organizations/{id}/audit-events/checkpoint': of(200),
  'GET /organizations/{id}/audit-events/export': of(200),

  'POST /organizations/{id}/freeze': {
    ...of(200, async () => ({ body: { reason: 'r' } })),
    restore: (world) => world.thaw(),
  },
  'POST /organizations/{id}/unfreeze': of(200, async () => ({ body: { reason: 'r' } })),
  'GET /organizations/{id}/tool-policies': of(200),
  'POST /organizations/{id}/tool-policies': of(201, async () => ({
    body: { tool_name: `mcp__s__${newId('rule').toLowerCase()}`, allowed: false },
  })),
  'PATCH /organizations/{id}/tool-policies/{tool}': of(200, async (world) => ({
    ids: { tool: await world.toolPolicy() },
    body: { allowed: true },
  })),
  'DELETE /organizations/{id}/tool-policies/{tool}': of(204, async (world) => ({
    ids: { tool: await world.toolPolicy() },
  })),
  'GET /organizations/{id}/role-policy-overrides': of(200),
  'POST /organizations/{id}/role-policy-overrides': of(201, async () => ({
    body: { tool_name: `mcp__s__${newId('rule').toLowerCase()}`, role: 'auditor', allowed: false },
  })),
  'DELETE /organizations/{id}/role-policy-overrides/{tool}': of(204, async (world) => ({
    ids: { tool: await world.roleOverride() },
    query: 'role=auditor',
  })),
  'GET /governance/tool-constraints': of(200),

  'POST /authorize': of(200, async () => ({
    body: { agent: { name: 'a', kind: 'hook' }, session_id: 's', tool_name: 'Read', tool_input: {} },
  })),
  'POST /hooks/claude-code': of(200, async () => ({
    query: 'wait=0',
    body: { hook_event_name: 'PreToolUse', session_id: 's', tool_name: 'Read', tool_input: {} },
  })),
  'GET /authorize/approvals/{id}': about(200, (world) => world.heldCall()),
  'POST /authorize/approvals/{id}/cancel': about(200, (world) => world.heldCall(), {}),
  // The session belongs to the organization, because without one the person's own organization would count. The call is
  // new, because a report also counts for a call that was allowed in another session of the person.
  'POST /authorize/observe': of(200, async (world) => ({
    body: {
      session_id: (await world.agentSession(world.sender)).sessionId,
      tool_name: 'Read',
      tool_input: { file_path: newId('file') },
    },
  })),
  'POST /authorize/sessions/end': of(200, async (world) => ({
    body: { session_id: (await world.agentSession(world.sender)).sessionId },
  })),
  'GET /agent-sessions': of(200),
  'GET /agent-sessions/{id}': about(200, anAgentSession),
  'POST /agent-sessions/{id}/revoke': about(200, anAgentSession, { reason: 'r' }),

  'GET /tools': of(200),
  'GET /tools/{name}': of(200, async () => ({ ids: { name: 'file_read' } })),

  'POST /tools/{name}/connect': of(201, async () => ({ ids: { name: 'web_search' }, body: aCredential })),
  'GET /connections/callback/{integration}': of(200, async (world) => ({
    ids: { integration: 'google' },
    query: `error=access_denied&state=${await world.authorization()}`,
  })),
  'GET /connections': of(200),
  'PATCH /connections/{id}': about(200, (world) => world.connection(), named),
  'DELETE /connections/{id}': about(204, (world) => world.connection()),

  'POST /files': of(201, async () => ({ body: formOf('notes.txt', 'hello') })),
  'GET /files': of(200),
  'GET /files/{id}': about(200, (world) => world.file()),
  'DELETE /files/{id}': about(204, (world) => world.file()),

  'GET /memory/{key}': inMemory(200),
  'PUT /memory/{key}': of(200, async (world) => ({
    ids: { key: await world.memoryKey() },
    body: { value: 2 },
  })),
  'DELETE /memory/{key}': inMemory(204),
}

export interface Request {
  readonly path: string
  readonly body: unknown
}

/** The request with these ids, in this organization. */
export function requestOf(key: GuardedKey, organizationId: string, filling: Filling): Request {
  const { ids = {}, query, body } = filling
  const path = splitKey(key).path.replaceAll(/\{(\w+)\}/g, (_, name: string) => ids[name] ?? organizationId)
  const named = accessTo(key).subject === 'own' ? [`organization_id=${organizationId}`] : []
  const search = [...named, ...(query === undefined ? [] : [query])].join('&')
  return { path: search === '' ? path : `${path}?${search}`, body }
}

import { acts, isGuarded, splitKey, type GuardedRoute } from '../../../src/api/route.ts'
import { routes, type GuardedKey } from '../../../src/api/routes/index.ts'
import type { AuditEventType } from '../../../src/contract/audit-events.ts'
import { beginTerminalLogin } from '../../../src/governance/people/terminal-logins.ts'
import { newId } from '../../../src/contract/ids.ts'
import type { Scope } from '../../../src/governance/access/scopes.ts'
import { oneStep } from '../../governance/runs/engine-fixture.ts'
import { addKey, aLabelRule, aRule, formOf } from '../fixtures.ts'
import { another } from './place.ts'
import { aProvider, aWebhook, type World } from './world.ts'

/*
 * One valid request for every route that needs a key. The request succeeds for a person of the route's lowest role
 * whose key has only the route's scopes. A new route must be added here.
 */

const byKey = new Map(routes.filter(isGuarded).map((route) => [route.key, route]))
export const guardedKeys = [...byKey.keys()] as GuardedKey[]
export const routeOf = (key: GuardedKey) => byKey.get(key) as GuardedRoute
export const accessTo = (key: GuardedKey) => routeOf(key).needs
/** Whether the route takes an `Idempotency-Key`. */
export const isActing = (key: GuardedKey): boolean => acts(routeOf(key))

/** The scopes that a key needs for the route. Is empty if the route needs none. */
export const scopesTo = (key: GuardedKey): readonly Scope[] => {
  const { scope, further = [] } = accessTo(key)
  return scope === null ? [] : [scope, ...further]
}

/**
 * Values for the parameters in the path, and the rest of the request. An organization's `{id}` is filled in
 * automatically.
 */
export interface Filling {
  readonly ids?: Readonly<Record<string, string>>
  readonly query?: string
  readonly body?: unknown
}
interface ValidRequest {
  /** The HTTP status of a success. */
  readonly status: number
  /** Creates the object of the request. Each call creates a new one. */
  readonly prepare: (world: World) => Promise<Filling>
  /** Undoes effects that would prevent the sender's next request. */
  readonly restore?: (world: World) => Promise<void>
}

const of = (status: number, prepare: ValidRequest['prepare'] = async () => ({})): ValidRequest => ({
  status,
  prepare,
})
/** A request that only has a body. */
const sends = (status: number, body: () => unknown): ValidRequest =>
  of(status, async () => ({ body: body() }))
/** A request about an object that is made for it. `name` is its parameter in the path. */
const aboutA =
  (name: string) =>
  (status: number, make: (world: World) => Promise<string>, body?: unknown): ValidRequest =>
    of(status, async (world) => ({ ids: { [name]: await make(world) }, body }))
const about = aboutA('id')
const aboutUser = aboutA('user')
const aboutTool = aboutA('tool')
const aboutMemory = aboutA('key')
const aboutAccount = (status: number, body?: unknown) =>
  aboutA('account')(status, (world) => world.serviceAccount(), body)
const aboutWorkflow = (status: number, body?: unknown) => about(status, (world) => world.workflow(), body)
const aboutVersion = (status: number, body?: unknown) =>
  of(status, async (world) => ({ ids: { id: await world.ownWorkflow(), version: '1' }, body }))
const aStep = (status: number, state: 'completed' | 'unknown_outcome', body?: unknown): ValidRequest =>
  of(status, async (world) => ({ ids: { id: await world.runWithStep(state), step: 's' }, body }))
/** Another key of the sender. It is not the key that sends the request. */
const anApiKey = async ({ server, organizationId, sender }: World): Promise<string> =>
  (await addKey(server.context, organizationId, sender.userId, ['api_keys:*'])).id
/** A terminal that waits to be signed in, from an address of its own. */
const aTerminal: ValidRequest = of(200, async ({ server }) => ({
  body: {
    code: (await beginTerminalLogin(server.context, { machine: 'laptop', address: newId('key') })).code,
  },
}))
const aProviderOf = (status: number): ValidRequest =>
  of(status, async (world) => {
    await world.provider()
    return {}
  })
const aWebhookOf = (status: number, body?: object): ValidRequest =>
  aboutA('webhook')(status, (world) => world.webhook(), body)
const aRerunOf = (status: number, body?: object): ValidRequest =>
  aboutA('rerun')(status, (world) => world.rerun(), body)
const aTriggerOf = (status: number, body?: object): ValidRequest =>
  of(status, async (world) => ({ ids: await world.trigger(), body }))
/** A rule that matches nothing, with a unique name. */
const rule = (kind: 'rules' | 'label-rules') => ({
  ...(kind === 'rules' ? aRule : aLabelRule),
  name: newId('rule'),
  status: 'inactive',
})
const aNewRule = (kind: 'rules' | 'label-rules', status: number, body?: () => object): ValidRequest =>
  of(status, async (world) => ({
    ids: { rule: await world.make(`/organizations/${world.organizationId}/${kind}`, rule(kind)) },
    body: body?.(),
  }))
/** The first version of such a rule. */
const aRuleVersion = (kind: 'rules' | 'label-rules', body?: object): ValidRequest =>
  of(200, async (world) => ({
    ids: {
      rule: await world.make(`/organizations/${world.organizationId}/${kind}`, rule(kind)),
      version: '1',
    },
    body,
  }))
const aPolicyVersion = (body?: object): ValidRequest =>
  of(200, async (world) => ({ ids: { tool: await world.toolPolicy(), version: '1' }, body }))

const definition = oneStep
const named = { name: 'another' }
const aSlackId = (): string => `U${newId('user').slice(-20).toUpperCase()}`
const aGroupName = (): string => newId('group').toLowerCase()
const aGroup = (status: number, body?: object): ValidRequest =>
  aboutA('group')(status, (world) => world.group(), body)
const aToolName = (): string => `mcp__s__${newId('rule').toLowerCase()}`

const anAbsence = async (world: World) => ({
  from: new Date().toISOString(),
  until: new Date(Date.now() + 60_000).toISOString(),
  deputy: await world.anotherMember(),
})

/** The only credential that is accepted without asking a service. */
const aCredential = { credential: { provider: 'brave', api_key: 'k' }, scope: 'personal' }

const anAgentSession = async (world: World): Promise<string> => (await world.agentSession(world.sender)).id
/** A body that names a new session of the sender's agent. */
const ofNewSession = (more: () => object = () => ({})) =>
  of(200, async (world) => ({
    body: { session_id: (await world.agentSession(world.sender)).sessionId, ...more() },
  }))

export const validRequests: Readonly<Record<GuardedKey, ValidRequest>> = {
  'GET /health/secrets': of(200),
  'GET /me': of(200),
  'GET /me/notifications': of(200),
  'PUT /me/notifications': sends(200, () => ({ mail: true, delay_seconds: 60 })),
  'GET /me/absence': of(200),
  'PUT /me/absence': of(200, async (world) => ({ body: await anAbsence(world) })),
  'DELETE /me/absence': of(204, async (world) => {
    const path = `/me/absence?organization_id=${world.organizationId}`
    await world.send(world.sender, 'PUT', path, await anAbsence(world))
    return {}
  }),
  'GET /scopes': of(200),

  'POST /organizations': sends(201, () => ({ name: 'O' })),
  'POST /invitations/accept': of(200, async (world) => ({
    body: { token: await world.invitationToSender() },
  })),
  'GET /organizations/{id}/members': of(200),
  'PATCH /organizations/{id}/members/{user}': aboutUser(200, (world) => world.anotherMember(), {
    role: 'admin',
  }),
  'DELETE /organizations/{id}/members/{user}': {
    ...aboutUser(204, (world) => world.leaver()),
    restore: (world) => world.comeBack(),
  },
  'GET /organizations/{id}/sign-in': of(200),
  'PUT /organizations/{id}/sign-in': sends(200, () => aProvider(['acme.example'])),
  'DELETE /organizations/{id}/sign-in': aProviderOf(204),
  'POST /organizations/{id}/sign-in/test': aProviderOf(200),
  'POST /organizations/{id}/sign-in/domains/{domain}/prove': aboutA('domain')(200, (world) =>
    world.provider(),
  ),
  'POST /organizations/{id}/scim-tokens': of(201, async (world) => {
    await world.scimToken()
    return { body: { name: 'Okta' } }
  }),
  'GET /organizations/{id}/scim-tokens': of(200),
  'DELETE /organizations/{id}/scim-tokens/{token}': aboutA('token')(204, (world) => world.scimToken()),
  'DELETE /organizations/{id}/members/{user}/sign-in': aboutUser(204, (world) => world.linkedMember()),
  'PUT /organizations/{id}/members/{user}/accounts/slack': of(200, async (world) => {
    await world.mayClaimSlack()
    return { ids: { user: world.sender.userId }, body: { external_id: aSlackId() } }
  }),
  'DELETE /organizations/{id}/members/{user}/accounts/slack': aboutUser(204, async (world) => {
    await world.linkSlack(aSlackId())
    return world.sender.userId
  }),
  'GET /organizations/{id}/notifications': of(200),
  'POST /organizations/{id}/invitations': sends(201, () => ({
    email: `${newId('user')}@elsewhere.test`,
    role: 'viewer',
    send_mail: false,
  })),
  'POST /organizations/{id}/invite': sends(201, () => ({
    emails: [`${newId('user')}@elsewhere.test`],
    role: 'viewer',
    send_mail: false,
  })),
  'GET /organizations/{id}/invitations': of(200),
  'DELETE /organizations/{id}/invitations/{invitation}': aboutA('invitation')(204, (world) =>
    world.invitation(),
  ),

  'POST /organizations/{id}/groups': of(201, async (world) => {
    await world.withoutGroups()
    return { body: { name: aGroupName() } }
  }),
  'GET /organizations/{id}/groups': of(200),
  'GET /organizations/{id}/freeze': of(200),
  'GET /organizations/{id}/groups/{group}': aGroup(200),
  'PATCH /organizations/{id}/groups/{group}': aGroup(200, { description: 'd' }),
  'DELETE /organizations/{id}/groups/{group}': aGroup(204),
  'PUT /organizations/{id}/groups/{group}/members/{user}': of(200, async (world) => ({
    ids: { group: await world.group(), user: await world.anotherMember() },
  })),
  'DELETE /organizations/{id}/groups/{group}/members/{user}': of(204, async (world) => {
    const user = await world.anotherMember()
    return { ids: { group: await world.group([user]), user } }
  }),

  'POST /api-keys': sends(201, () => ({ name: 'k', scopes: ['api_keys:*'] })),
  'GET /api-keys': of(200),
  'GET /api-keys/{id}': about(200, anApiKey),
  'PATCH /api-keys/{id}': about(200, anApiKey, named),
  'DELETE /api-keys/{id}': about(204, anApiKey),
  'POST /api-keys/{id}/confirm': about(200, anApiKey, {}),
  'POST /terminal-logins/look': aTerminal,
  'POST /terminal-logins/approve': aTerminal,
  'POST /terminal-logins/deny': aTerminal,

  'POST /workflows': sends(201, () => ({ name: 'W', definition })),
  'POST /workflows/validate': sends(200, () => ({ definition })),
  'POST /workflows/preview': sends(200, () => ({ definition })),
  'GET /workflows': of(200),
  'GET /workflows/{id}': aboutWorkflow(200),
  'PUT /workflows/{id}': aboutWorkflow(200, {
    definition: { steps: definition.steps.map((step) => ({ ...step, id: 'changed' })) },
  }),
  'DELETE /workflows/{id}': aboutWorkflow(204),
  'GET /workflows/{id}/versions': aboutWorkflow(200),
  'GET /workflows/{id}/versions/{version}': aboutVersion(200),
  'POST /workflows/{id}/versions/{version}/rollback': aboutVersion(200, { message: 'm' }),

  'GET /workflow-registry': of(200),
  'GET /workflow-registry/{id}': about(200, (world) => world.template()),
  'POST /workflow-registry/{id}/approve-template': aboutWorkflow(200, { template_name: 'T' }),
  'POST /workflow-registry/{id}/deprecate': about(200, (world) => world.template(), { reason: 'r' }),
  'POST /workflow-registry/{id}/archive': about(200, (world) => world.template('deprecated'), {}),
  'POST /workflow-registry/{id}/use': about(201, (world) => world.template(), {}),

  'POST /workflows/{id}/execute': of(202, async (world) => ({
    ids: { id: await world.workflow() },
    query: 'wait=0',
    body: {},
  })),
  'POST /workflows/{id}/authorization-preview': aboutWorkflow(200, {}),
  'GET /runs': of(200),
  'GET /runs/{id}': about(200, (world) => world.run()),
  'POST /runs/{id}/cancel': about(200, (world) => world.run(world.sender), {}),
  'POST /runs/rerun': of(202, async (world) => {
    await world.withoutReruns()
    return { body: { filter: { run_ids: [await world.endedRun(world.sender)] } } }
  }),
  'GET /organizations/{id}/reruns': of(200),
  'GET /organizations/{id}/reruns/{rerun}': aRerunOf(200),
  'GET /organizations/{id}/reruns/{rerun}/runs': aRerunOf(200),
  'POST /organizations/{id}/reruns/{rerun}/cancel': aRerunOf(200, {}),
  'POST /runs/{id}/rerun': about(202, (world) => world.endedRun(world.sender), {}),
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
  'GET /approvals/{id}': about(200, (world) => world.votable()),
  'POST /approvals/{id}/approve': about(200, (world) => world.votable(), { comment: 'c' }),
  'POST /approvals/{id}/reject': about(200, (world) => world.votable(), { comment: 'c' }),
  'POST /approvals/{id}/answer': about(200, (world) => world.question(), { answer: 'yes' }),
  'POST /approvals/{id}/revise': about(200, (world) => world.revision(), {
    params: { to: 'c@d.test', subject: 's', text: 't' },
  }),
  'POST /approvals/{id}/withdraw': about(200, (world) => world.heldChange(), {}),

  'GET /organizations/{id}/service-accounts': of(200),
  'POST /organizations/{id}/service-accounts': sends(201, () => ({ name: newId('user') })),
  'GET /organizations/{id}/service-accounts/{account}': aboutAccount(200),
  'PATCH /organizations/{id}/service-accounts/{account}': aboutAccount(200, { role: 'viewer' }),
  'DELETE /organizations/{id}/service-accounts/{account}': aboutAccount(204),
  'POST /organizations/{id}/rules': sends(201, () => rule('rules')),
  'GET /organizations/{id}/rules': of(200),
  'POST /organizations/{id}/rules/test': sends(200, () => ({ call: { tool: 'mail_send' } })),
  'POST /organizations/{id}/rules/backtest': sends(200, () => ({ rules: [] })),
  'GET /organizations/{id}/rules/analysis': of(200),
  'GET /organizations/{id}/rules/counts': of(200),
  'POST /organizations/{id}/rules/diff': sends(200, () => ({ from: 'active', to: [] })),
  'GET /organizations/{id}/rules/{rule}': aNewRule('rules', 200),
  'PUT /organizations/{id}/rules/{rule}': aNewRule('rules', 200, () => rule('rules')),
  'PATCH /organizations/{id}/rules/{rule}': aNewRule('rules', 200, () => ({ status: 'shadow' })),
  'DELETE /organizations/{id}/rules/{rule}': aNewRule('rules', 204),
  'GET /organizations/{id}/rules/{rule}/versions': aNewRule('rules', 200),
  'GET /organizations/{id}/rules/{rule}/versions/{version}': aRuleVersion('rules'),
  'POST /organizations/{id}/rules/{rule}/versions/{version}/restore': aRuleVersion('rules', {}),
  'POST /organizations/{id}/label-rules': sends(201, () => rule('label-rules')),
  'GET /organizations/{id}/label-rules': of(200),
  'GET /organizations/{id}/label-rules/{rule}': aNewRule('label-rules', 200),
  'PUT /organizations/{id}/label-rules/{rule}': aNewRule('label-rules', 200, () => rule('label-rules')),
  'PATCH /organizations/{id}/label-rules/{rule}': aNewRule('label-rules', 200, () => ({ status: 'shadow' })),
  'DELETE /organizations/{id}/label-rules/{rule}': aNewRule('label-rules', 204),
  'GET /organizations/{id}/label-rules/{rule}/versions': aNewRule('label-rules', 200),
  'GET /organizations/{id}/label-rules/{rule}/versions/{version}': aRuleVersion('label-rules'),
  'POST /organizations/{id}/label-rules/{rule}/versions/{version}/restore': aRuleVersion('label-rules', {}),
  'GET /rule-templates': of(200),

  'GET /organizations/{id}/governance': of(200),
  'PATCH /organizations/{id}/governance': sends(200, () => ({
    category_flags: { [`c${another()}`]: true },
  })),
  'GET /organizations/{id}/governance/audit': of(200),
  'GET /organizations/{id}/governance/report': of(200),
  'GET /organizations/{id}/governance/approvals': of(200),
  'POST /organizations/{id}/webhooks': of(201, async (world) => {
    await world.withoutWebhooks()
    return { body: aWebhook }
  }),
  'POST /workflows/{id}/triggers': of(201, async (world) => ({
    ids: { id: await world.workflow() },
    body: await world.aTrigger(),
  })),
  'GET /workflows/{id}/triggers': aboutWorkflow(200),
  'GET /triggers': of(200),
  'GET /workflows/{id}/triggers/{trigger}': aTriggerOf(200),
  'PATCH /workflows/{id}/triggers/{trigger}': aTriggerOf(200, { name: 'another' }),
  'DELETE /workflows/{id}/triggers/{trigger}': aTriggerOf(204),
  'POST /workflows/{id}/triggers/{trigger}/test': aTriggerOf(200, {}),
  'GET /workflows/{id}/triggers/{trigger}/firings': aTriggerOf(200),
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
  'PATCH /organizations/{id}/quota': sends(200, () => ({ memory_mb: 300 + another() })),
  'GET /organizations/{id}/audit-events/verify': of(200),
  'GET /organizations/{id}/audit-events/checkpoint': of(200),
  'GET /organizations/{id}/audit-events/export': of(200),

  'POST /organizations/{id}/freeze': {
    ...sends(200, () => ({ reason: 'r' })),
    restore: (world) => world.thaw(),
  },
  'POST /organizations/{id}/unfreeze': sends(200, () => ({ reason: 'r' })),
  // Without objects: each kind has its own scope.
  'POST /organizations/{id}/apply': sends(200, () => ({ objects: [] })),
  'GET /organizations/{id}/objects': of(200),
  'POST /organizations/{id}/release': sends(200, () => ({ objects: [] })),
  'GET /organizations/{id}/tool-policies': of(200),
  'POST /organizations/{id}/tool-policies': sends(201, () => ({ tool_name: aToolName(), allowed: false })),
  'PATCH /organizations/{id}/tool-policies/{tool}': aboutTool(200, (world) => world.toolPolicy(), {
    allowed: true,
  }),
  'DELETE /organizations/{id}/tool-policies/{tool}': aboutTool(204, (world) => world.toolPolicy()),
  'GET /organizations/{id}/tool-policies/{tool}/versions': aboutTool(200, (world) => world.toolPolicy()),
  'GET /organizations/{id}/tool-policies/{tool}/versions/{version}': aPolicyVersion(),
  'POST /organizations/{id}/tool-policies/{tool}/versions/{version}/restore': aPolicyVersion({}),
  'GET /organizations/{id}/role-policy-overrides': of(200),
  'POST /organizations/{id}/role-policy-overrides': sends(201, () => ({
    tool_name: aToolName(),
    role: 'auditor',
    allowed: false,
  })),
  'DELETE /organizations/{id}/role-policy-overrides/{tool}': of(204, async (world) => ({
    ids: { tool: await world.roleOverride() },
    query: 'role=auditor',
  })),
  'GET /governance/tool-constraints': of(200),

  'POST /authorize': sends(200, () => ({
    agent: { name: 'a', kind: 'hook' },
    session_id: 's',
    tool_name: 'Read',
    tool_input: {},
  })),
  'POST /hooks/claude-code': of(200, async () => ({
    query: 'wait=0',
    body: { hook_event_name: 'PreToolUse', session_id: 's', tool_name: 'Read', tool_input: {} },
  })),
  'GET /authorize/approvals/{id}': about(200, (world) => world.heldCall()),
  'POST /authorize/approvals/{id}/cancel': about(200, (world) => world.heldCall(), {}),
  // The session belongs to the organization, because without one the person's own organization would count. The call is
  // new, because a report also counts for a call that was allowed in another session of the person.
  'POST /authorize/observe': ofNewSession(() => ({
    tool_name: 'Read',
    tool_input: { file_path: newId('file') },
  })),
  'POST /authorize/sessions/end': ofNewSession(),
  'GET /agent-sessions': of(200),
  'GET /agent-sessions/{id}': about(200, anAgentSession),
  'POST /agent-sessions/{id}/revoke': about(200, anAgentSession, { reason: 'r' }),

  'GET /tools': of(200),
  'POST /tools/{name}/try': of(200, async () => ({
    ids: { name: 'file_read' },
    body: { params: { path: 'a.md' } },
  })),
  'GET /tools/{name}': of(200, async () => ({ ids: { name: 'file_read' } })),

  'POST /tools/{name}/connect': of(201, async () => ({ ids: { name: 'web_search' }, body: aCredential })),
  'GET /connections/callback/{integration}': of(200, async (world) => ({
    ids: { integration: 'google' },
    query: `error=access_denied&state=${await world.authorization()}`,
  })),
  'GET /services': of(200),
  'GET /connections': of(200),
  'GET /connections/{id}': about(200, (world) => world.connection()),
  'PATCH /connections/{id}': about(200, (world) => world.connection(), named),
  'DELETE /connections/{id}': about(204, (world) => world.connection()),

  'POST /files': sends(201, () => formOf('notes.txt', 'hello')),
  'GET /files': of(200),
  'GET /files/{id}': about(200, (world) => world.file()),
  'GET /files/{id}/runs': about(200, (world) => world.file()),
  'DELETE /files/{id}': about(204, (world) => world.file()),

  'GET /memory': of(200),
  'GET /memory/{key}': aboutMemory(200, (world) => world.memoryKey()),
  'PUT /memory/{key}': aboutMemory(200, (world) => world.memoryKey(), { value: 2 }),
  'DELETE /memory/{key}': aboutMemory(204, (world) => world.memoryKey()),
}

/** Whether a change by the route can wait for a second person. */
export const mayWait = (key: GuardedKey): boolean =>
  routeOf(key).responses[202]?.meta()?.['id'] === 'HeldChange'

/** Events that a route declares, and that its valid request does not append. Tests of the feature look at them. */
const rarely: Partial<Record<GuardedKey, readonly AuditEventType[]>> = {
  'PUT /workflows/{id}': ['workflow.updated'],
  'POST /runs/{id}/steps/{step}/resolve': ['tool_call.completed'],
  'POST /approvals/{id}/approve': ['approval.voted'],
  'POST /authorize': ['agent_call.unreadable', 'approval.requested'],
  'POST /hooks/claude-code': ['agent_call.unreadable', 'approval.requested'],
  'POST /organizations/{id}/apply': ['organization.applied'],
  'POST /organizations/{id}/release': ['organization.released'],
  // Only with `run`, which needs further scopes.
  'POST /tools/{name}/try': [
    'workflow.deployed',
    'workflow.updated',
    'workflow.execute',
    'approval.requested',
  ],
  'PATCH /api-keys/{id}': ['api_key.revoked', 'api_key.reactivated'],
  'DELETE /api-keys/{id}': ['api_key.updated'],
  'POST /tools/{name}/connect': ['connection.authorization_begun'],
  'GET /connections/callback/{integration}': ['connection.created'],
  'PUT /organizations/{id}/members/{user}/accounts/slack': ['member.account_linked'],
  'POST /organizations/{id}/rules/{rule}/versions/{version}/restore': ['rule.created'],
  'POST /organizations/{id}/label-rules/{rule}/versions/{version}/restore': ['label_rule.created'],
  'POST /organizations/{id}/tool-policies/{tool}/versions/{version}/restore': ['tool_policy.created'],
}

/**
 * The valid request changes nothing: each kind of objects has its own scope (test/api/declared), and so has a call that is
 * made (test/api/previews).
 */
export const withoutObjects: ReadonlySet<string> = new Set([
  'POST /tools/{name}/try',
  'POST /organizations/{id}/apply',
  'POST /organizations/{id}/release',
])

export const isRare = (key: GuardedKey, event: AuditEventType): boolean =>
  rarely[key]?.includes(event) === true || (event === 'approval.requested' && mayWait(key))

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

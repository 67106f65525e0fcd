import type { Insertable } from 'kysely'
import type { ApprovalsTable } from '../../../src/db/schema/runs.ts'
import { integrationNames } from '../../../src/tools/index.ts'
import { newId } from '../../../src/contract/ids.ts'
import { hashOfState } from '../../../src/governance/connections/authorize.ts'
import { finishRun } from '../../../src/governance/runs/end/finish.ts'
import { decideSteps } from '../../../src/calls/runs/effect.ts'
import { enterRun } from '../../../src/governance/runs/start/enter.ts'
import { recordOutcomes } from '../../../src/calls/runs/outcome.ts'
import { verifierBinding } from '../../../src/governance/sealing/bindings.ts'
import type { Role } from '../../../src/policy/types.ts'
import { askStep, mark, oneStep, opOf, outcomeOf, toolOf } from '../../governance/runs/engine-fixture.ts'
import { addConnection, addOrganization, addPerson, formOf } from '../fixtures.ts'
import type { TestServer } from '../server.ts'
import type { Person, Place } from './place.ts'

/** No server listens at this address. */
export const aWebhook = { url: 'http://127.0.0.1:9/hook', events: ['run.completed'] }

/** No provider answers at this address. */
export const aProvider = (domains: readonly string[]) => ({
  issuer: 'http://127.0.0.1:9',
  client_id: 'c',
  client_secret: 's',
  domains,
})

/** Number of connections made so far. */
let connections = 0

/** Creates everything that a valid request needs, in one organization and for one sender. */
export class World {
  readonly server: TestServer
  readonly place: Place
  /** The sender; a member of the organization, unless the request must be refused. */
  readonly sender: Person
  /** The role that the sender had before leaving; null: the sender has not left. */
  #left: Role | null = null

  constructor(server: TestServer, place: Place, sender: Person) {
    this.server = server
    this.place = place
    this.sender = sender
  }

  get organizationId(): string {
    return this.place.organizationId
  }

  /** Returns the answer's body. Fails the test if the request is refused. */
  async send(by: Person, method: string, path: string, body: unknown = {}): Promise<Record<string, string>> {
    // Only these routes need the parameter. On other routes the path names the organization.
    const isOwn = /^\/(workflows|files|memory\/[^/]+)$/.test(path)
    const named = isOwn ? `${path}?organization_id=${this.organizationId}` : path
    const answer = await this.server.call(by.key, method, named, method === 'GET' ? undefined : body)
    if (answer.status >= 300) throw new Error(`${method} ${path}: ${answer.text}`)
    return answer.body
  }

  /** Creates something as the organization's owner and returns its id. */
  async make(path: string, body: unknown): Promise<string> {
    return (await this.send(this.place.owner, 'POST', path, body))['id'] as string
  }

  serviceAccount(): Promise<string> {
    return this.make(`/organizations/${this.organizationId}/service-accounts`, { name: newId('user') })
  }

  async workflow(by: Person = this.place.owner): Promise<string> {
    return (await this.send(by, 'POST', '/workflows', { name: 'W', definition: oneStep }))['id'] as string
  }

  /** The body of a schedule that is due in a month. One account is enough for all. */
  async aTrigger(): Promise<object> {
    const { rows } = await this.server.context.pool.query<{ id: string }>(
      `select id from service_accounts join memberships m on user_id = id
       where m.organization_id = $1 and role = 'member' limit 1`,
      [this.organizationId],
    )
    const account = rows[0]?.id ?? (await this.serviceAccount())
    return { name: 'T', service_account: account, version: 'latest', schedule: { every_seconds: 2_678_400 } }
  }

  /** A trigger, of a new workflow if none is given. */
  async trigger(workflow?: string, more: object = {}): Promise<{ id: string; trigger: string }> {
    const id = workflow ?? (await this.workflow())
    return {
      id,
      trigger: await this.make(`/workflows/${id}/triggers`, { ...(await this.aTrigger()), ...more }),
    }
  }

  /** A workflow that the sender made. It is written by the owner, because a viewer cannot create one. */
  async ownWorkflow(): Promise<string> {
    const id = await this.workflow()
    await this.server.context.pool.query('update workflows set created_by = $1 where id = $2', [
      this.sender.userId,
      id,
    ])
    return id
  }

  /**
   * A personal connection of the sender. Each one is to another service than the ones before, because a person can have
   * only one live connection to a service.
   */
  async connection(): Promise<string> {
    const { context } = this.server
    const owner = this.sender.userId
    connections += 1
    const integration = integrationNames[connections % integrationNames.length] ?? ''
    const statement = 'delete from connections where owner_id = $1 and integration = $2'
    await context.pool.query(statement, [owner, integration])
    return addConnection(context, this.organizationId, owner, integration)
  }

  /** Stores an authorization that the sender has begun. Returns its `state` parameter. */
  async authorization(): Promise<string> {
    const { context } = this.server
    const state = newId('connection')
    const stateHash = hashOfState(state)
    await context.db
      .insertInto('connection_attempts')
      .values({
        state_hash: stateHash,
        organization_id: this.organizationId,
        user_id: this.sender.userId,
        integration: 'google',
        tool: 'docs_read',
        scope: 'personal',
        redirect_uri: 'http://127.0.0.1/',
        verifier_sealed: await context.sealer.seal(verifierBinding(stateHash), 'verifier'),
        expires_at: new Date(Date.now() + 600_000),
      })
      .execute()
    return state
  }

  /** The organization’s provider, with a domain that is proven. Returns the domain. */
  async provider(): Promise<string> {
    const domain = `${newId('event').toLowerCase().replace('_', '-')}.example`
    const path = `/organizations/${this.organizationId}/sign-in`
    await this.send(this.place.owner, 'PUT', path, aProvider([domain]))
    return domain
  }

  /** A member to whom a person of the provider is linked. */
  async linkedMember(): Promise<string> {
    await this.provider()
    const userId = await this.anotherMember()
    await this.server.context.pool.query(
      `insert into sign_in_identities (organization_id, issuer, subject, user_id, linked_at)
       values ($1, 'http://127.0.0.1:9', $2, $2, now()) on conflict do nothing`,
      [this.organizationId, userId],
    )
    return userId
  }

  /** The only SCIM token of the organization, which has a proven domain. */
  async scimToken(): Promise<string> {
    const { organizationId } = this
    const domain = await this.provider()
    const path = `/organizations/${organizationId}`
    await this.send(this.place.owner, 'POST', `${path}/sign-in/domains/${domain}/prove`)
    await this.server.context.pool.query('delete from scim_tokens where organization_id = $1', [
      organizationId,
    ])
    return this.make(`${path}/scim-tokens`, { name: 'Entra' })
  }

  async template(state: 'active' | 'deprecated' = 'active'): Promise<string> {
    const id = await this.workflow()
    const move = (name: string, body: object) =>
      this.send(this.place.owner, 'POST', `/workflow-registry/${id}/${name}`, body)
    await move('approve-template', { template_name: 'T' })
    if (state === 'deprecated') await move('deprecate', { reason: 'r' })
    return id
  }

  /** Starts a run that waits for its approval. `by` has written its workflow and requests it. */
  async run(by: Person = this.place.requester): Promise<string> {
    const path = `/workflows/${await this.workflow(by)}/execute?wait=0`
    return (await this.send(by, 'POST', path))['execution_id'] as string
  }

  async approval(): Promise<string> {
    return this.approvalOf(await this.run())
  }

  /** An approval by a group that the sender is in, if the sender is a member. */
  async votable(): Promise<string> {
    const id = await this.approval()
    const { pool } = this.server.context
    const { rows } = await this.#ofSender(
      'select user_id from memberships where organization_id = $1 and user_id = $2',
    )
    const group = await this.group(rows.map(({ user_id }) => user_id))
    const seats = JSON.stringify([{ group: 'g', id: group, count: 1 }])
    await pool.query('update approvals set approver = null, seats = $2 where id = $1', [id, seats])
    return id
  }

  /** A question to the sender. */
  async question(): Promise<string> {
    const { context } = this.server
    const settings = `/organizations/${this.organizationId}/governance`
    await this.send(this.place.owner, 'PATCH', settings, { approvals_enabled: false })
    const ask = { to: { group: 'sales' }, title: 'Go on?', choices: ['yes', 'no'] }
    const definition = { steps: [{ id: 's', ask }] }
    const made = await this.send(this.place.requester, 'POST', '/workflows', { name: 'W', definition })
    const path = `/workflows/${made['id']}/execute?wait=0`
    const runId = (await this.send(this.place.requester, 'POST', path))['execution_id'] as string
    await this.send(this.place.owner, 'PATCH', settings, { approvals_enabled: true })
    await askStep(context, runId)
    const id = await this.approvalOf(runId)
    const seats = JSON.stringify([{ person: 'sender', id: this.sender.userId, count: 1 }])
    await context.pool.query('update approvals set seats = $2 where id = $1', [id, seats])
    return id
  }

  /** A call of a run that an approver has sent back, to be edited by the sender. */
  async revision(): Promise<string> {
    const { context } = this.server
    const settings = `/organizations/${this.organizationId}/governance`
    await this.send(this.place.owner, 'PATCH', settings, { approvals_enabled: false })
    const runId = await this.run()
    await this.send(this.place.owner, 'PATCH', settings, { approvals_enabled: true })
    await enterRun(context, runId)
    await context.combiner.join(this.organizationId, decideSteps, opOf(runId, { tool: toolOf('unsafe') }))
    const id = newId('approval')
    const seats = JSON.stringify([{ person: 'sender', id: this.sender.userId, count: 1 }])
    await context.pool.query(
      `insert into approvals (id, organization_id, kind, status, run_id, workflow_id, step_id, tool, params_sealed, params_hash, labels,
         risk, requested_by, approvals_needed, seats, created_at)
       select $2, e.organization_id, 'revision', 'pending', e.run_id, r.workflow_id, e.step_id, e.tool, e.params_sealed, e.params_hash, '{}',
         '{"level": "low", "reasons": []}', r.requested_by, 1, $3, now()
       from effects e join runs r on r.id = e.run_id where e.run_id = $1`,
      [runId, id, seats],
    )
    await context.pool.query(
      "update effects set state = 'held', attempt = 0, approval_id = $2 where run_id = $1",
      [runId, id],
    )
    return id
  }

  async approvalOf(runId: string): Promise<string> {
    const row = await this.server.context.db
      .selectFrom('approvals')
      .select('id')
      .where('run_id', '=', runId)
      .executeTakeFirstOrThrow()
    return row.id
  }

  async endedRun(by?: Person): Promise<string> {
    const runId = await this.run(by)
    await finishRun(this.server.context, { runId, status: 'cancelled' })
    return runId
  }

  /**
   * Starts a run whose only step, `s`, has reached this state. It needs no approval, because an approval would hide its
   * output from viewers.
   */
  async runWithStep(state: 'completed' | 'unknown_outcome'): Promise<string> {
    const { context } = this.server
    const settings = `/organizations/${this.organizationId}/governance`
    await this.send(this.place.owner, 'PATCH', settings, { approvals_enabled: false })
    const runId = await this.run()
    await this.send(this.place.owner, 'PATCH', settings, { approvals_enabled: true })
    await enterRun(context, runId)
    const op = opOf(runId)
    await context.combiner.join(this.organizationId, decideSteps, op)
    if (state === 'unknown_outcome') await mark(context, op, 1)
    await context.combiner.join(this.organizationId, recordOutcomes, outcomeOf(op, 1, state))
    return runId
  }

  file(): Promise<string> {
    return this.make('/files', formOf('a.txt', 'text'))
  }

  async memoryKey(): Promise<string> {
    const key = newId('file')
    await this.send(this.place.owner, 'PUT', `/memory/${key}`, { value: 1 })
    return key
  }

  /** Ends a freeze that the sender's request started. */
  async thaw(): Promise<void> {
    await this.send(this.place.owner, 'POST', `/organizations/${this.organizationId}/unfreeze`, {
      reason: 'r',
    })
  }

  /** Deletes the organization's webhooks. Only a few are allowed, and many requests create one. */
  /** A request of the sender to make runs again, which nobody works on. */
  async rerun(): Promise<string> {
    await this.withoutReruns()
    const id = newId('rerun')
    const now = new Date()
    await this.server.context.db
      .insertInto('reruns')
      .values({
        id,
        organization_id: this.organizationId,
        requested_by: this.sender.userId,
        with_factor: false,
        bound: false,
        filter: '{}',
        options: JSON.stringify({ from: 'failed', version: 'same', on_repeat: 'hold' }),
        created_at: now,
        expires_at: now,
      })
      .execute()
    return id
  }

  async withoutReruns(): Promise<void> {
    const { db } = this.server.context
    await db.deleteFrom('reruns').where('organization_id', '=', this.organizationId).execute()
  }

  async withoutWebhooks(): Promise<void> {
    const { db } = this.server.context
    await db.deleteFrom('webhooks').where('organization_id', '=', this.organizationId).execute()
  }

  async webhook(): Promise<string> {
    await this.withoutWebhooks()
    return this.make(`/organizations/${this.organizationId}/webhooks`, aWebhook)
  }

  /** Stores a delivery that has arrived, and its webhook. */
  async delivery(): Promise<{ webhook: string; delivery: string }> {
    const { context } = this.server
    const webhook = await this.webhook()
    const [id, event, now] = [newId('delivery'), newId('message'), new Date()]
    const organization_id = this.organizationId
    await context.db
      .insertInto('webhook_events')
      .values({
        id: event,
        organization_id,
        type: 'webhook.test',
        data: '{}',
        webhook_ids: [webhook],
        created_at: now,
        message: '{}',
      })
      .execute()
    await context.db
      .insertInto('webhook_deliveries')
      .values({
        id,
        organization_id,
        webhook_id: webhook,
        event_id: event,
        state: 'delivered',
        give_up_at: now,
        created_at: now,
        ended_at: now,
      })
      .execute()
    return { webhook, delivery: id }
  }

  /** Deletes the organization's groups. Only some are allowed, and many requests create one. */
  async withoutGroups(): Promise<void> {
    const { db } = this.server.context
    await db.deleteFrom('groups').where('organization_id', '=', this.organizationId).execute()
  }

  async group(members: readonly string[] = []): Promise<string> {
    await this.withoutGroups()
    const name = newId('group').toLowerCase()
    return this.make(`/organizations/${this.organizationId}/groups`, { name, members })
  }

  /** Makes a policy, and returns the name of its tool. */
  async toolPolicy(kind = 'tool-policies', more: object = {}): Promise<string> {
    const tool_name = `mcp__s__${newId('rule').toLowerCase()}`
    const path = `/organizations/${this.organizationId}/${kind}`
    await this.send(this.place.owner, 'POST', path, { tool_name, allowed: false, ...more })
    return tool_name
  }

  roleOverride(): Promise<string> {
    return this.toolPolicy('role-policy-overrides', { role: 'auditor' })
  }

  /**
   * Adds an agent session of this person. Returns its id and the client's id for it. The row is written directly,
   * because a viewer cannot open a session.
   */
  async agentSession(by: Person): Promise<{ id: string; sessionId: string }> {
    const [id, sessionId, now] = [newId('session'), newId('session'), new Date()]
    const session = {
      id,
      organization_id: this.organizationId,
      user_id: by.userId,
      session_id: sessionId,
      run_id: newId('run'),
      agent_name: 'a',
      agent_kind: 'hook',
      status: 'live' as const,
      started_at: now,
      last_seen_at: now,
    }
    await this.server.context.db.insertInto('agent_sessions').values(session).execute()
    return { id, sessionId }
  }

  /** Stores the approval of a held call of the sender's agent. */
  async heldCall(): Promise<string> {
    const session_id = (await this.agentSession(this.sender)).id
    return this.held({ kind: 'agent_call', session_id, tool: 'Bash' })
  }

  /** Stores a change of the sender that waits for a second person. */
  heldChange(): Promise<string> {
    return this.held({ kind: 'change', title: 'Delete the rule `r`' })
  }

  async held(
    given: Pick<Insertable<ApprovalsTable>, 'kind' | 'session_id' | 'tool' | 'title'>,
  ): Promise<string> {
    const id = newId('approval')
    const approval = {
      id,
      organization_id: this.organizationId,
      status: 'pending' as const,
      ...given,
      labels: [],
      risk: JSON.stringify({ level: 'low', reasons: [] }),
      requested_by: this.sender.userId,
      approver: 'admin' as const,
      approvals_needed: 1,
      created_at: new Date(),
    }
    await this.server.context.db.insertInto('approvals').values(approval).execute()
    return id
  }

  /** Adds a member who sends no requests. */
  async anotherMember(): Promise<string> {
    return (await addPerson(this.server.context, this.organizationId, 'member')).userId
  }

  /** Invites somebody to this organization. */
  invitation(): Promise<string> {
    const email = `${newId('user')}@elsewhere.test`
    return this.make(`/organizations/${this.organizationId}/invitations`, { email, send_mail: false })
  }

  /**
   * The id of a person whom the sender may remove. An owner may remove somebody else; all others may remove only
   * themselves.
   */
  async leaver(): Promise<string> {
    const statement = 'select role from memberships where organization_id = $1 and user_id = $2'
    const role: Role | undefined = (await this.#ofSender(statement)).rows[0]?.role
    if (role === undefined || role === 'owner') return this.anotherMember()
    this.#left = role
    return this.sender.userId
  }

  /** Makes the sender a member again if the sender has left. */
  async comeBack(): Promise<void> {
    const statement = 'insert into memberships (organization_id, user_id, role) values ($1, $2, $3)'
    if (this.#left !== null) await this.#ofSender(statement, this.#left)
  }

  /** Links a Slack account to the sender, if the sender is a member. */
  async linkSlack(account: string): Promise<void> {
    const set = 'slack_account = $3, slack_linked_at = now()'
    const statement = `update memberships set ${set} where organization_id = $1 and user_id = $2`
    await this.#ofSender(statement, account)
  }

  /** Makes it possible that the sender requests a code: the organization has Slack, and no code was sent lately. */
  async mayClaimSlack(): Promise<void> {
    const { context } = this.server
    await context.pool.query('delete from slack_claims where user_id = $1', [this.sender.userId])
    const { rowCount } = await context.pool.query(
      `select from connections where organization_id = $1 and integration = 'slack' and owner_id is null
       and status <> 'revoked'`,
      [this.organizationId],
    )
    if (rowCount === 0)
      await addConnection(context, this.organizationId, this.sender.userId, 'slack', 'organization')
  }

  /** Runs a statement about the sender's membership. */
  #ofSender(statement: string, ...values: readonly string[]) {
    return this.server.context.pool.query(statement, [this.organizationId, this.sender.userId, ...values])
  }

  /** Invites the sender to a third organization. Returns the invitation's token. */
  async invitationToSender(): Promise<string> {
    const { id, owner } = await addOrganization(this.server.context)
    const { pool } = this.server.context
    const { rows } = await pool.query('select email from users where id = $1', [this.sender.userId])
    const path = `/organizations/${id}/invitations`
    const { email } = rows[0]
    return (await this.server.call(owner.key, 'POST', path, { email, send_mail: false })).body.token
  }
}

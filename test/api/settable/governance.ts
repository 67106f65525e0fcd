import { catalog } from '../../../src/catalog/index.ts'
import { planNotifications } from '../../../src/governance/notifications/plan.ts'
import { planMail } from '../../../src/governance/notifications/plan-mail.ts'
import { planSlack } from '../../../src/governance/notifications/plan-slack.ts'
import { removeOldData } from '../../../src/governance/upkeep/retention.ts'
import { newId } from '../../../src/contract/ids.ts'
import type { Category } from '../../../src/policy/types.ts'
import { addConnection, enrolPeople, factorCookie } from '../fixtures.ts'
import { proof, type Proof, type Proofs, type World } from './world.ts'

const keep = { steps: [{ id: 's', tool: 'memory_set', params: { key: 'k', value: 1 } }] }
const mail = {
  steps: [{ id: 's', tool: 'mail_send', params: { to: 'ann@acme.com', subject: 's', text: 'hello' } }],
}
const started = ['completed', 'awaiting_approval'] as const

/** The status of a run once it has ended or waits for its approval. If the run is refused, the code of the error. */
async function statusOfRun(
  world: World,
  definition: object,
  who: 'admin' | 'member' = 'member',
): Promise<string> {
  const { body } = await world.execute(await world.workflow(definition), {}, 0, who)
  if (body.error !== undefined) return body.error.code
  for (;;) {
    const { status } = await world.ok('member', 'GET', `/runs/${body.execution_id}`)
    if (!['queued', 'running'].includes(status)) return status
  }
}

/** Gives a tool of the catalogue a category that no tool has yet. */
const withCategory =
  (category: Category): Proof['observe'] =>
  async (world, value) => {
    const tool = catalog.memory_set as { categories: readonly Category[] }
    const before = tool.categories
    tool.categories = [category]
    try {
      await world.settings({ approvals_enabled: true, [`require_approval_for_${category}`]: value })
      return await statusOfRun(world, keep)
    } finally {
      tool.categories = before
    }
  }

/** The approval of a held call by an agent of this person. */
async function held(world: World, who: 'admin' | 'member' = 'member'): Promise<string> {
  await world.settings({ approvals_enabled: true })
  await world.ok('admin', 'POST', `${world.path}/rules`, {
    name: 'h',
    verdict: 'require_approval',
    tools: ['Write'],
  })
  return (await world.ask('Write', { file_path: 'a' }, world.id, who)).approval_id
}
const approve = (world: World, id: string) => world.send('admin', 'POST', `/approvals/${id}/approve`, {})

export const settingProofs: Proofs = {
  require_approval_for_external_comm: proof([false, true], started, async (world, value) => {
    await world.settings({ approvals_enabled: true, require_approval_for_external_comm: value })
    return statusOfRun(world, mail)
  }),
  require_approval_for_public_writes: proof([false, true], started, withCategory('public_writes')),
  require_approval_for_permission_changes: proof([false, true], started, withCategory('permission_changes')),
  slack_approval_notifications: proof([true, false], [1, 0], async (world, slack_approval_notifications) => {
    const { context } = world.api.stack
    await world.settings({ slack_approval_notifications })
    const id = await addConnection(context, world.id, world.people.owner.userId, 'slack')
    await context.db.updateTable('connections').set({ owner_id: null }).where('id', '=', id).execute()
    const account = `${world.path}/members/${world.people.admin.userId}/accounts/slack`
    await world.ok('admin', 'PUT', account, { external_id: `U${newId('user').slice(-20)}` })
    await held(world)
    await planNotifications(context, [planSlack])
    return (await world.ok('admin', 'GET', `${world.path}/notifications`)).data.length
  }),
  mail_approval_notifications: proof(
    [true, false],
    [true, false],
    async (world, mail_approval_notifications) => {
      const { context } = world.api.stack
      await world.settings({ mail_approval_notifications })
      await context.db.updateTable('users').set({ email_verified: true }).execute()
      await held(world)
      await planNotifications(context, [
        planMail({ tools: { ...context.config.tools, smtpUrl: 'smtp://a.test' } }),
      ])
      return (await world.ok('admin', 'GET', `${world.path}/notifications`)).data.length > 0
    },
  ),
  allow_self_approval: proof([false, true], [403, 200], async (world, allow_self_approval) => {
    await world.settings({ allow_self_approval })
    return (await approve(world, await held(world, 'admin'))).status
  }),
  approval_threshold: proof([1, 2], ['approved', 'pending'], async (world, approval_threshold) => {
    await world.settings({ approval_threshold })
    return (await approve(world, await held(world))).body.status
  }),
  'category_flags.*': proof([false, true], started, async (world, financial) => {
    await world.settings({ approvals_enabled: true, category_flags: { financial } })
    return statusOfRun(world, { ...keep, categories: ['financial'] })
  }),
  approvals_enabled: proof([false, true], ['deny', 'require_approval'], async (world, approvals_enabled) => {
    await held(world)
    await world.settings({ approvals_enabled })
    return (await world.ask('Write', { file_path: 'b' })).decision
  }),
  approval_required_from: proof(['critical', 'low'], started, async (world, approval_required_from) => {
    await world.settings({ approvals_enabled: true, approval_required_from })
    return statusOfRun(world, keep)
  }),
  'external_tools.*.side_effect': proof(
    ['read', 'egress'],
    ['read', 'egress'],
    async (world, side_effect) => {
      await world.settings({ external_tools: { Own: { side_effect } } })
      return (await world.ask('Own')).side_effect
    },
  ),
  'external_tools.*.output_labels[]': proof(
    ['pii', 'internal'],
    [['pii'], ['internal']],
    async (world, label) => {
      await world.settings({ external_tools: { Own: { side_effect: 'read', output_labels: [label] } } })
      await world.ask('Own')
      return (await world.ask('Own')).labels
    },
  ),
  default_tool_access: proof(['allow', 'deny'], ['allow', 'deny'], async (world, default_tool_access) => {
    await world.settings({ default_tool_access })
    return (await world.ask('Read')).decision
  }),
  require_mfa: proof([false, true], [200, 403], async (world, require_mfa) => {
    const { context } = world.api.stack
    await enrolPeople(context, [world.people.owner.userId])
    const cookie = await factorCookie(context, world.people.owner.userId)
    await world.send({ cookie }, 'PATCH', `${world.path}/governance`, { require_mfa })
    return (await world.send('member', 'GET', '/workflows')).status
  }),
  keep_decision_params: proof(
    [true, false],
    [{ file_path: 'a' }, undefined],
    async (world, keep_decision_params) => {
      await world.settings({ keep_decision_params })
      const id = await held(world)
      await approve(world, id)
      await removeOldData(world.api.stack.context)
      return (await world.ok('admin', 'GET', `/approvals/${id}`)).params
    },
  ),
}

/** Under one of the two limits, the last of several objects is accepted. Under the other limit it is refused. */
const limited = (
  name: string,
  values: readonly [number, number],
  seen: readonly [unknown, unknown],
  last: (world: World) => Promise<unknown>,
) =>
  proof(values, seen, async (world, value) => {
    const set = (limits: object) => world.ok('owner', 'PATCH', `${world.path}/quota`, limits)
    await set({ [name]: value })
    return last(world)
  })

const waiting = (world: World) => ({
  steps: [{ id: 's', tool: 'file_read', params: { path: `wait ${world.id}` } }],
})

/** Starts this many runs that wait, and returns the answer to the last one. */
async function runs(world: World, count: number) {
  const id = await world.workflow(waiting(world))
  for (let n = 1; n < count; n += 1) await world.execute(id, {}, 0)
  const last = await world.execute(id, {}, 0)
  world.api.reads.release(`wait ${world.id}`)
  return last
}

async function spend(world: World) {
  const id = await world.workflow(keep)
  const { body } = await world.execute(id)
  await world.api.stack.context.pool.query('update runs set cost = 5 where id = $1', [body.execution_id])
  return (await world.execute(id)).status
}

/** Stores two values that together take more than one MiB, and returns the answer to the second. */
async function memory(world: World) {
  const put = (key: string) => world.send('member', 'PUT', `/memory/${key}`, { value: 'x'.repeat(900_000) })
  await put('a')
  return (await put('b')).status
}

/** Sends several requests, and returns the status of the last one. */
async function requests(world: World) {
  for (let n = 0; n < 30; n += 1) await world.send('member', 'GET', '/workflows')
  return (await world.send('member', 'GET', '/workflows')).status
}

export const quotaProofs: Proofs = {
  workflow_runs_per_hour: limited(
    'workflow_runs_per_hour',
    [1, 2],
    [429, 202],
    async (world) => (await runs(world, 2)).status,
  ),
  concurrent_executions: limited('concurrent_executions', [1, 2], [true, false], async (world) =>
    (await runs(world, 2)).body.status_reason.includes('concurrent runs to end'),
  ),
  queued_executions: limited('queued_executions', [1, 2], [429, 202], async (world) => {
    await world.ok('owner', 'PATCH', `${world.path}/quota`, { concurrent_executions: 1 })
    return (await runs(world, 3)).status
  }),
  monthly_spend: limited('monthly_spend', [1, 100], [429, 200], spend),
  requests_per_minute: limited('requests_per_minute', [20, 100_000], [429, 200], requests),
  requests_per_day: limited('requests_per_day', [20, 100_000], [429, 200], requests),
  authorize_per_minute: limited('authorize_per_minute', [1, 100], ['deny', 'allow'], async (world) => {
    for (let n = 0; n < 5; n += 1) await world.ask('Read')
    return (await world.ask('Read')).decision
  }),
  memory_mb: limited('memory_mb', [1, 100], [429, 200], memory),
  storage_mb: limited('storage_mb', [1, 100], [429, 200], memory),
  pending_approvals: limited('pending_approvals', [1, 2], ['deny', 'require_approval'], async (world) => {
    await held(world)
    return (await world.ask('Write', { file_path: 'b' })).decision
  }),
  rules: limited('rules', [1, 2], [429, 201], async (world) => {
    const save = (name: string) =>
      world.send('admin', 'POST', `${world.path}/rules`, { name, verdict: 'deny', tools: ['Bash'] })
    await save('a')
    return (await save('b')).status
  }),
}

/** Saves a policy with a method of its routes, and returns the result of a run or of an agent's call. */
const policy =
  (
    tool: string,
    bodyOf: (value: never) => object,
    seen: (world: World) => Promise<unknown>,
  ): Proof['observe'] =>
  async (world, value, way) => {
    const all = `${world.path}/tool-policies`
    const { role, ...body }: { role?: string } = bodyOf(value as never)
    const whose = role === undefined ? {} : { role }
    if (way === 'POST') await world.ok('owner', 'POST', all, { tool_name: tool, ...body, ...whose })
    else {
      await world.ok('owner', 'POST', all, { tool_name: tool, allowed: true, ...whose })
      await world.ok('owner', 'PATCH', `${all}/${tool}`, { ...body, ...whose })
    }
    return seen(world)
  }
const decision = async (world: World) => (await world.ask('Bash', { command: 'ls' })).decision
const ofRun = (definition: object) => (world: World) => statusOfRun(world, definition)
const large = async (world: World) => {
  await world.ok('member', 'PUT', '/memory/large', { value: 'x'.repeat(2_000) })
  return statusOfRun(world, { steps: [{ id: 's', tool: 'memory_get', params: { key: 'large' } }] })
}
const limit = (restrictions: object) => ({ restrictions })

/**
 * The decision of the saved rules and policies about a member's call. This also works for tools that cannot run yet.
 */
const tried = async (world: World, tool: string, params: object) => {
  const call = { tool, params, labels: [], role: 'member' }
  return (await world.ok('owner', 'POST', `${world.path}/rules/test`, { call })).decision
}

const override =
  (bodyOf: (value: never) => object): Proof['observe'] =>
  async (world, value) => {
    const body = { tool_name: 'Bash', role: 'member', allowed: false, ...bodyOf(value as never) }
    await world.ok('owner', 'POST', `${world.path}/role-policy-overrides`, body)
    return decision(world)
  }

export const overrideProofs: Proofs = {
  tool_name: proof(
    ['Bash', 'Read'],
    ['deny', 'allow'],
    override((tool_name) => ({ tool_name })),
  ),
  role: proof(
    ['member', 'auditor'],
    ['deny', 'allow'],
    override((role) => ({ role })),
  ),
  allowed: proof(
    [false, true],
    ['deny', 'allow'],
    override((allowed) => ({ allowed })),
  ),
}

export const policyProofs: Proofs = {
  tool_name: proof(['Bash', 'Read'], ['deny', 'allow'], (world, tool, way) =>
    policy(tool, () => ({ allowed: false }), decision)(world, tool, way),
  ),
  allowed: proof(
    [true, false],
    ['allow', 'deny'],
    policy('Bash', (allowed) => ({ allowed }), decision),
  ),
  role: proof(
    ['member', 'viewer'],
    ['deny', 'allow'],
    policy('Bash', (role) => ({ role, allowed: false }), decision),
  ),
  'restrictions.read_only': proof(
    [true, false],
    ['deny', 'allow'],
    policy('Bash', (read_only) => ({ allowed: true, ...limit({ read_only }) }), decision),
  ),
  'restrictions.allowed_domains[]': proof(
    ['acme.com', 'acme.org'],
    ['completed', 'run_denied'],
    policy('mail_send', (domain) => limit({ allowed_domains: [domain] }), ofRun(mail)),
  ),
  'restrictions.allowed_repos[]': proof(
    ['acme/*', 'acme/web'],
    ['allow', 'deny'],
    policy(
      'github_comment',
      (repo) => limit({ allowed_repos: [repo] }),
      (world) => tried(world, 'github_comment', { repo: 'acme/app', number: 1, body: 'b' }),
    ),
  ),
  'restrictions.allowed_channels[]': proof(
    ['#general', '@me'],
    ['allow', 'deny'],
    policy(
      'slack_send_message',
      (channel) => limit({ allowed_channels: [channel] }),
      (world) => tried(world, 'slack_send_message', { channel: '#general', text: 't' }),
    ),
  ),
  'restrictions.max_message_length': proof(
    [5, 4],
    ['completed', 'run_denied'],
    policy('mail_send', (most) => limit({ max_message_length: most }), ofRun(mail)),
  ),
  'restrictions.max_response_size_kb': proof(
    [3, 1],
    ['completed', 'failed'],
    policy('memory_get', (most) => limit({ max_response_size_kb: most }), large),
  ),
}

export const memoryProofs: Proofs = {
  value: proof(['a', 'b'], ['a', 'b'], async (world, value) => {
    await world.ok('member', 'PUT', '/memory/k', { value })
    const run = await world.run({ steps: [{ id: 's', tool: 'memory_get', params: { key: 'k' } }] })
    return run.outputs.s.value
  }),
  'labels[]': proof(['pii', 'internal'], [['pii'], ['internal']], async (world, label) => {
    const key = newId('event')
    await world.ok('member', 'PUT', `/memory/${key}`, { value: 1, labels: [label] })
    return (await world.run({ steps: [{ id: 's', tool: 'memory_get', params: { key } }] })).steps[0].labels
  }),
}

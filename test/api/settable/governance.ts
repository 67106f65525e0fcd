import { catalog } from '../../../src/tools/index.ts'
import { newId } from '../../../src/contract/ids.ts'
import { planMail } from '../../../src/governance/notifications/plan-mail.ts'
import { planSlack } from '../../../src/governance/notifications/plan-slack.ts'
import { planNotifications } from '../../../src/governance/notifications/plan.ts'
import { removeOldData } from '../../../src/governance/upkeep/retention.ts'
import type { Category } from '../../../src/policy/types.ts'
import { addConnection, addPerson, enrolPeople, factorCookie } from '../fixtures.ts'
import { proof, type Proofs, type World } from './world.ts'
import { withUsedProvider } from './sign-in.ts'

/* Settings and quotas of an organization, and its memory. */

export const keep = { steps: [{ id: 's', tool: 'memory_set', params: { key: 'k', value: 1 } }] }
export const mail = {
  steps: [{ id: 's', tool: 'mail_send', params: { to: 'ann@acme.com', subject: 's', text: 'hello' } }],
}
const started = ['completed', 'awaiting_approval'] as const

/** The status of a run once it has ended or waits for its approval. If the run is refused, the code of the error. */
export async function statusOfRun(world: World, definition: object): Promise<string> {
  const { body } = await world.execute(await world.workflow(definition), {}, 0)
  if (body.error !== undefined) return body.error.code
  for (;;) {
    const { status } = await world.ok('member', 'GET', `/runs/${body.execution_id}`)
    if (!['queued', 'running'].includes(status)) return status
  }
}

/** The approval of a held call by an agent of this person. */
async function held(world: World, who: 'admin' | 'member' = 'member'): Promise<string> {
  await world.hold()
  return (await world.ask('Write', { file_path: 'a' }, who)).approval_id
}
const approve = (world: World, id: string) => world.send('admin', 'POST', `/approvals/${id}/approve`, {})
const notifications = async (world: World) =>
  (await world.ok('admin', 'GET', `${world.path}/notifications`)).data.length

type Pair = readonly [unknown, unknown]
/** What shows the effect of a setting that has just been saved. */
type Seen = (world: World) => Promise<unknown>

/** A setting of its own name. `more` are settings that it needs. */
const setting = (name: string, values: Pair, seen: Pair, show: Seen): Proofs => ({
  [name]: proof(values, seen, async (world, value) => {
    await world.settings({ [name]: value })
    return show(world)
  }),
})
/** The status of a run in an organization with approvals. */
const withApprovals =
  (definition: object): Seen =>
  async (world) => {
    await world.settings({ approvals_enabled: true })
    return statusOfRun(world, definition)
  }

/** Gives a tool of the catalogue a category that no tool has yet. */
const ofCategory = (category: Category): Proofs =>
  setting(`require_approval_for_${category}`, [false, true], started, async (world) => {
    const tool = catalog.memory_set as { categories: readonly Category[] }
    const before = tool.categories
    tool.categories = [category]
    try {
      return await withApprovals(keep)(world)
    } finally {
      tool.categories = before
    }
  })

const own = (tool: object) => ({ external_tools: { Own: tool } })

export const settingProofs: Proofs = {
  ...setting('require_approval_for_external_comm', [false, true], started, withApprovals(mail)),
  ...ofCategory('public_writes'),
  ...ofCategory('permission_changes'),
  ...setting('slack_approval_notifications', [true, false], [1, 0], async (world) => {
    const { context } = world.api.stack
    const id = await addConnection(context, world.id, world.people.owner.userId, 'slack')
    await context.db.updateTable('connections').set({ owner_id: null }).where('id', '=', id).execute()
    await context.db
      .updateTable('memberships')
      .set({ slack_account: `U${newId('user').slice(-20)}`, slack_linked_at: new Date() })
      .where('user_id', '=', world.people.admin.userId)
      .execute()
    await held(world)
    await planNotifications(context, [planSlack])
    return notifications(world)
  }),
  ...setting('mail_approval_notifications', [true, false], [true, false], async (world) => {
    const { context } = world.api.stack
    await context.db.updateTable('users').set({ email_verified: true }).execute()
    await held(world)
    const tools = { ...context.config.tools, smtpUrl: 'smtp://a.test' }
    await planNotifications(context, [planMail({ tools })])
    return (await notifications(world)) > 0
  }),
  ...setting('allow_self_approval', [false, true], [403, 200], async (world) => {
    return (await approve(world, await held(world, 'admin'))).status
  }),
  ...setting('approval_threshold', [1, 2], ['approved', 'pending'], async (world) => {
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
  ...setting('approval_required_from', ['critical', 'low'], started, withApprovals(keep)),
  'external_tools.*.side_effect': proof(['read', 'egress'], ['read', 'egress'], async (world, effect) => {
    await world.settings(own({ side_effect: effect }))
    return (await world.ask('Own')).side_effect
  }),
  'external_tools.*.output_labels[]': proof(['pii', 'code'], [['pii'], ['code']], async (world, label) => {
    await world.settings(own({ side_effect: 'read', output_labels: [label] }))
    await world.ask('Own')
    return (await world.ask('Own')).labels
  }),
  ...setting('run_values', ['participants', 'members'], [false, true], async (world) => {
    const { execution_id } = await world.ok('admin', 'POST', `/workflows/${await world.workflow(keep)}/execute?wait=0`, {}) // prettier-ignore
    return 'inputs' in (await world.ok('member', 'GET', `/runs/${execution_id}`))
  }),
  ...setting('trust_answers', [false, true], [['untrusted'], []], async (world) => {
    const ask = { to: 'requester', title: 'Go on?', choices: ['yes', 'no'] }
    if ((await statusOfRun(world, { steps: [{ id: 's', ask }] })) !== 'paused') return null
    const [asked] = (await world.ok('member', 'GET', '/approvals?kind=ask&mine=true')).data
    await world.ok('member', 'POST', `/approvals/${asked.id}/answer`, { answer: 'yes' })
    return (await world.ok('member', 'GET', `/runs/${asked.run_id}`)).steps[0].labels
  }),
  loosening: proof(['free', 'second_person'], [204, 202], async (world, loosening) => {
    await addPerson(world.api.stack.context, world.id, 'owner')
    await world.settings({ loosening })
    const rule = await world.ok('admin', 'POST', `/organizations/${world.id}/rules`, { name: 'r', verdict: 'deny', match_all: true }) // prettier-ignore
    return (await world.send('admin', 'DELETE', `/organizations/${world.id}/rules/${rule.id}`)).status
  }),
  'restricted_labels[]': proof(['pii', 'internal'], [200, 403], async (world, label) => {
    await world.settings({ restricted_labels: [label] })
    const path = `/memory/k?organization_id=${world.id}`
    await world.ok('admin', 'PUT', path, { value: 1, labels: ['internal'] })
    return (await world.send('member', 'GET', path)).status
  }),
  ...setting('default_tool_access', ['allow', 'deny'], ['allow', 'deny'], async (world) => {
    return (await world.ask('Read')).decision
  }),
  ...setting('default_agent_access', ['allow', 'deny'], ['allow', 'deny'], async (world) => {
    return (await world.ask('Read')).decision
  }),
  require_mfa: proof([false, true], [200, 403], async (world, require_mfa) => {
    const { context } = world.api.stack
    await enrolPeople(context, [world.people.owner.userId])
    const cookie = await factorCookie(context, world.people.owner.userId)
    await world.send({ cookie }, 'PATCH', `${world.path}/governance`, { require_mfa })
    return (await world.send('member', 'GET', '/workflows')).status
  }),
  require_sso: proof([false, true], [200, 403], async (world, require_sso) => {
    await withUsedProvider(world)
    await enrolPeople(world.api.stack.context, [world.people.owner.userId])
    await world.settings({ require_sso })
    const cookie = await factorCookie(world.api.stack.context, world.people.member.userId)
    return (await world.send({ cookie }, 'GET', `/workflows?organization_id=${world.id}`)).status
  }),
  ...setting('keep_decision_params', ['all', 'none'], [{ file_path: 'a' }, undefined], async (world) => {
    const id = await held(world)
    await approve(world, id)
    await removeOldData(world.api.stack.context)
    return (await world.ok('admin', 'GET', `/approvals/${id}`)).params
  }),
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

/** Under one of the two limits, the last of several objects is accepted. Under the other limit it is refused. */
const limit = (name: string, values: readonly [number, number], seen: Pair, last: Seen): Proofs => ({
  [name]: proof(values, seen, async (world, value) => {
    await world.ok('owner', 'PATCH', `${world.path}/quota`, { [name]: value })
    return last(world)
  }),
})

/** Starts this many runs that wait, and returns the answer to the last one. */
async function runs(world: World, count: number) {
  const path = `wait ${world.id}`
  const id = await world.workflow({ steps: [{ id: 's', tool: 'file_read', params: { path } }] })
  for (let n = 1; n < count; n += 1) await world.execute(id, {}, 0)
  const last = await world.execute(id, {}, 0)
  world.api.reads.release(path)
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
  ...limit('workflow_runs_per_hour', [1, 2], [429, 202], async (world) => (await runs(world, 2)).status),
  ...limit('concurrent_executions', [1, 2], [true, false], async (world) =>
    (await runs(world, 2)).body.status_reason.includes('concurrent runs to end'),
  ),
  ...limit('queued_executions', [1, 2], [429, 202], async (world) => {
    await world.ok('owner', 'PATCH', `${world.path}/quota`, { concurrent_executions: 1 })
    return (await runs(world, 3)).status
  }),
  ...limit('monthly_spend', [1, 100], [429, 200], spend),
  ...limit('requests_per_minute', [20, 100_000], [429, 200], requests),
  ...limit('requests_per_day', [20, 100_000], [429, 200], requests),
  ...limit('authorize_per_minute', [1, 100], ['deny', 'allow'], async (world) => {
    for (let n = 0; n < 5; n += 1) await world.ask('Read')
    return (await world.ask('Read')).decision
  }),
  ...limit('memory_mb', [1, 100], [429, 200], memory),
  ...limit('storage_mb', [1, 100], [429, 200], memory),
  ...limit('pending_approvals', [1, 2], ['deny', 'require_approval'], async (world) => {
    await held(world)
    return (await world.ask('Write', { file_path: 'b' })).decision
  }),
  ...limit('rules', [1, 2], [429, 201], async (world) => {
    const save = (name: string) =>
      world.send('admin', 'POST', `${world.path}/rules`, { name, verdict: 'deny', tools: ['Bash'] })
    await save('a')
    return (await save('b')).status
  }),
}

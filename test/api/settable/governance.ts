import { catalog } from '../../../src/catalog/index.ts'
import { planNotifications } from '../../../src/governance/notifications/plan.ts'
import { planMail } from '../../../src/governance/notifications/plan-mail.ts'
import { planSlack } from '../../../src/governance/notifications/plan-slack.ts'
import { removeOldData } from '../../../src/governance/upkeep/retention.ts'
import { newId } from '../../../src/contract/ids.ts'
import type { Category } from '../../../src/policy/types.ts'
import { addConnection, enrolPeople, factorCookie } from '../fixtures.ts'
import { proof, type Proof, type Proofs, type World } from './world.ts'

export const keep = { steps: [{ id: 's', tool: 'memory_set', params: { key: 'k', value: 1 } }] }
export const mail = {
  steps: [{ id: 's', tool: 'mail_send', params: { to: 'ann@acme.com', subject: 's', text: 'hello' } }],
}
const started = ['completed', 'awaiting_approval'] as const

/** The status of a run once it has ended or waits for its approval. If the run is refused, the code of the error. */
export async function statusOfRun(
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
export async function held(world: World, who: 'admin' | 'member' = 'member'): Promise<string> {
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

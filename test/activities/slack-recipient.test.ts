import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { ApplicationFailure } from '@temporalio/common'
import { createToolActivities } from '../../src/activities/tool-activities.ts'
import { readApproval } from '../../src/governance/approvals/read.ts'
import { connect } from '../../src/governance/connections/connections.ts'
import { linkSlackAccount, unlinkSlackAccount } from '../../src/governance/people/slack-accounts.ts'
import { startScriptedServer, type ScriptedServer } from '../support/scripted-server.ts'
import { approvalsOf, holdRule, useEngine, type Engine } from '../governance/runs/engine-fixture.ts'
import { execute } from './execute.ts'

/* If a call reaches its requester in Slack, its approval covers the linked account that the approvers saw. */

let engine: Engine
let slack: ScriptedServer
useEngine((started) => (engine = started))
beforeAll(async () => {
  slack = await startScriptedServer()
  slack.answer = () => ({ status: 200, body: { ok: true, channel: { id: 'D0APPROVED' } } })
  const credential = { token: 'xoxb-test', base_url: slack.url }
  await connect(
    engine.context,
    engine.caller('admin'),
    { tool: 'slack_send_message', credential, scope: 'organization', name: undefined },
    new AbortController().signal,
  )
})
afterAll(() => slack?.close())
beforeEach(async () => {
  await engine.rules(holdRule({ tools: ['slack_send_message', 'slack_create_channel'] }))
  await unlink()
  slack.answer = ({ path }) => ({
    status: 200,
    body: { ok: true, channel: path === '/chat.postMessage' ? 'D1' : { id: 'D1', name: 'n' }, ts: '1.0' },
  })
  slack.arrived.splice(0)
})

const link = (account: string) =>
  linkSlackAccount(engine.context, engine.caller('owner'), engine.caller('member').userId, {
    external_id: account,
  })
const unlink = () =>
  unlinkSlackAccount(engine.context, engine.caller('member'), engine.caller('member').userId)

const bodies = createToolActivities()
const calls = {
  slack_send_message: { channel: '@me', text: 'figures' },
  slack_create_channel: { name: 'closed', is_private: true },
}
type Tool = keyof typeof calls

const started = (tool: Tool, params: object = calls[tool]) =>
  engine.run({ steps: [{ id: 's', tool, params }] })

async function attempt(runId: string, tool: Tool): Promise<unknown> {
  const { answer } = await execute(engine.context, {
    workflowId: runId,
    activityType: tool,
    args: [{ runId, stepId: 's', itemIndex: null }],
    body: (decided) => bodies[tool]!(decided),
  })
  return answer instanceof ApplicationFailure ? answer.type : (answer as { outcome: string }).outcome
}

const newest = async (runId: string) => (await approvalsOf(engine.context, runId)).at(-1)!
async function shown(runId: string) {
  const { userId, organizationId } = engine.caller('admin')
  const { preview } = await readApproval(
    engine.context,
    { userId, organizationId, role: 'admin' },
    (await newest(runId)).id,
  )
  return preview?.fields.find(({ name }) => name.includes('Slack') && name !== 'connection')?.value
}
const written = () => slack.arrived.filter(({ path }) => !path.endsWith('.info'))
const approve = async (runId: string) => engine.vote((await newest(runId)).id, 'admin')

const held = 'ApprovalRequired'
const because = 'the Slack account of the person who runs the workflow has changed since it was approved'

describe.each(['slack_send_message', 'slack_create_channel'] as const)('an approved call of `%s`', (tool) => {
  test('shows the linked account, and reaches it', async () => {
    await link('U0APPROVED')
    const runId = await started(tool)
    expect([await attempt(runId, tool), await shown(runId)]).toEqual([held, 'U0APPROVED'])
    await approve(runId)
    expect(await attempt(runId, tool)).toBe('completed')
    expect(slack.arrived.some(({ body }) => body.includes('U0APPROVED'))).toBe(true)
  })

  test.each(['none', 'U0APPROVED'])('after %s, another account must be approved anew', async (before) => {
    if (before !== 'none') await link(before)
    const runId = await started(tool)
    expect(await attempt(runId, tool)).toBe(held)
    expect(await shown(runId)).toBe(before === 'none' ? 'none is linked' : before)
    await approve(runId)
    await link('U0ANOTHER1')
    expect([await attempt(runId, tool), await shown(runId)]).toEqual([held, 'U0ANOTHER1'])
    expect(await newest(runId)).toMatchObject({ status: 'pending', held_again: because })
    expect(written()).toEqual([])
    await approve(runId)
    expect(await attempt(runId, tool)).toBe('completed')
  })
})

describe('approvers see the name', () => {
  const user = { id: 'U0APPROVED', name: 'ann', real_name: 'Ann Lee', profile: { display_name: 'Ann' } }
  const answers = (info: object) => {
    slack.answer = ({ path }) => ({
      status: 200,
      body: path.endsWith('.info') ? info : { ok: true, channel: 'C1', ts: '1.0' },
    })
  }
  const sees = async (channel: string) => {
    const runId = await started('slack_send_message', { channel, text: 't' })
    expect(await attempt(runId, 'slack_send_message')).toBe(held)
    return shown(runId)
  }

  test.each([
    ['C024BE91L', { ok: true, channel: { id: 'C024BE91L', name: 'releases' } }, '#releases (C024BE91L)'],
    ['https://acme.slack.com/archives/C024BE91L', { ok: true, channel: { name: 'x' } }, '#x (C024BE91L)'],
    ['U0BOBBY01', { ok: true, user: { ...user, id: 'U0BOBBY01' } }, 'Ann (U0BOBBY01)'],
    ['U0BOBBY01', { ok: true, user: { ...user, profile: { display_name: '' } } }, 'Ann Lee (U0BOBBY01)'],
    ['U0BOBBY01', { ok: true, user: { ...user, profile: { display_name: 'A\u202e\n\nB'.padEnd(99, 'x') } } }, `A B${'x'.repeat(77)} (U0BOBBY01)`], // prettier-ignore
    ['C024BE91L', { ok: false, error: 'missing_scope' }, 'C024BE91L'],
    ['C024BE91L', { ok: false, error: 'channel_not_found' }, 'C024BE91L'],
    ['C024BE91L', { ok: true, channel: { id: 'D1' } }, 'C024BE91L'],
    ['U0BOBBY01', { ok: true, user: 7 }, 'U0BOBBY01'],
    ['#releases', { ok: true }, undefined],
  ])('of %s, if Slack answers %j', async (channel, info, expected) => {
    answers(info)
    expect(await sees(channel)).toBe(expected)
  })

  test('of the linked account, which alone the approval covers', async () => {
    await link('U0APPROVED')
    answers({ ok: true, user })
    const runId = await started('slack_send_message')
    expect([await attempt(runId, 'slack_send_message'), await shown(runId)]).toEqual([
      held,
      'Ann (U0APPROVED)',
    ])
    await approve(runId)
    slack.answer = ({ path }) => ({
      status: 200,
      body: { ok: true, channel: path === '/chat.postMessage' ? 'D1' : { id: 'D1' }, ts: '1.0' },
    })
    expect(await attempt(runId, 'slack_send_message')).toBe('completed')
  })
})

test('an approved message to a channel does not depend on the linked account', async () => {
  const runId = await started('slack_send_message', { channel: 'C024BE91L', text: 't' })
  expect([await attempt(runId, 'slack_send_message'), await shown(runId)]).toEqual([held, '#n (C024BE91L)'])
  await approve(runId)
  await link('U0ANOTHER1')
  expect(await attempt(runId, 'slack_send_message')).toBe('completed')
})

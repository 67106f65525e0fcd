import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { ApplicationFailure } from '@temporalio/common'
import { createToolActivities } from '../../src/activities/tool-activities.ts'
import type { ToolName } from '../../src/catalog/index.ts'
import { readApproval } from '../../src/governance/approvals/read.ts'
import { connect as connectService, revokeConnection } from '../../src/governance/connections/connections.ts'
import { readCalls } from '../../src/governance/runs/read/calls.ts'
import { approvalsOf, holdRule, useEngine, type Engine } from '../governance/runs/engine-fixture.ts'
import { startScriptedServer, type ScriptedServer } from '../support/scripted-server.ts'
import { execute } from './execute.ts'

/* An approval covers the connection that its approvers saw. */

/** One call of each kind: it writes and can be looked for, it only reads, or it can go without a connection. */
const calls = {
  slack_send_message: { channel: 'C024BE91L', text: 'figures' },
  web_search: { query: 'figures' },
  mail_send: { to: 'ana@larkspur.example', subject: 'figures', text: 'figures' },
}
type Tool = keyof typeof calls & ToolName

let engine: Engine
let service: ScriptedServer
useEngine((started) => (engine = started))
beforeAll(async () => {
  service = await startScriptedServer()
})
afterAll(() => service?.close())
beforeEach(async () => {
  await engine.context.db.deleteFrom('connections').execute()
  await engine.rules(holdRule({ tools: Object.keys(calls) }))
  const body = { ok: true, user: 'ana', team: 'Acme', channel: 'C024BE91L', ts: '1.0', results: [], id: 'm1' }
  service.answer = () => ({ status: 200, body })
})

const credentials: Readonly<Record<Tool, (url: string) => object>> = {
  slack_send_message: (base_url) => ({ token: 'xoxb-test', base_url }),
  web_search: (base_url) => ({ provider: 'searxng', base_url }),
  mail_send: (base_url) => ({ provider: 'resend', api_key: 're_test', from: 'desk@acme.example', base_url }),
}

/** Connects the tool's service, for the person who runs the calls or for the organization. */
async function connect(tool: Tool, scope: 'personal' | 'organization', url = service.url): Promise<string> {
  const by = engine.caller(scope === 'personal' ? 'approver' : 'admin')
  const asked = { tool, credential: credentials[tool](url), scope, name: undefined }
  const { id } = await connectService(engine.context, by, asked, new AbortController().signal)
  service.arrived.splice(0)
  return id
}
const revoke = (id: string) => revokeConnection(engine.context, engine.caller('approver'), id)

const bodies = createToolActivities()
async function attempt(runId: string, tool: Tool, before = async () => {}): Promise<unknown> {
  const { answer } = await execute(engine.context, {
    workflowId: runId,
    activityType: tool,
    args: [{ runId, stepId: 's', itemIndex: null }],
    body: async (decided) => {
      await before()
      return bodies[tool]!(decided)
    },
  })
  return answer instanceof ApplicationFailure ? answer.type : (answer as { outcome: string }).outcome
}

const newest = async (runId: string) => (await approvalsOf(engine.context, runId)).at(-1)!
async function shown(runId: string): Promise<string | undefined> {
  const { userId, organizationId } = engine.caller('admin')
  const viewer = { userId, organizationId, role: 'admin' } as const
  const { preview } = await readApproval(engine.context, viewer, (await newest(runId)).id)
  return preview?.fields.find(({ name }) => name === 'connection')?.value
}
const approve = async (runId: string) => engine.vote((await newest(runId)).id, 'admin')

const held = 'ApprovalRequired'
const because = 'the connection that the call uses has changed since it was approved'

/** A call that was held and approved. */
async function approved(tool: Tool): Promise<string> {
  const runId = await engine.run({ steps: [{ id: 's', tool, params: calls[tool] }] }, {}, 'approver')
  expect(await attempt(runId, tool)).toBe(held)
  await approve(runId)
  return runId
}

/** Requests that read names for approvers, and change nothing. */
const isLookUp = ({ path }: (typeof service.arrived)[number]): boolean => path === '/conversations.info'

/** Expects that the call needs another approval, and that no request with an effect reaches the service. */
async function expectHeldAgain(runId: string, tool: Tool, connection: string | undefined): Promise<void> {
  expect(await attempt(runId, tool)).toBe(held)
  expect(service.arrived.filter((each) => !isLookUp(each))).toEqual([])
  expect(await newest(runId)).toMatchObject({ status: 'pending', held_again: because })
  expect(await shown(runId)).toBe(connection)
}

const services = { slack_send_message: 'Slack', web_search: 'web search', mail_send: 'Resend' } // prettier-ignore
const tools = Object.keys(calls) as Tool[]

describe.each(tools)('an approval of `%s`', (tool) => {
  const personal = () =>
    `of the person who runs the workflow, to ${services[tool]} at ${new URL(service.url).host}`
  const ofAll = () => `of the organization, to ${services[tool]} at ${new URL(service.url).host}`

  test('shows whose connection the call uses, and the call uses it', async () => {
    await connect(tool, 'organization')
    await connect(tool, 'personal')
    const runId = await approved(tool)
    expect(await shown(runId)).toBe(personal())
    expect(await attempt(runId, tool)).toBe('completed')
    expect(await approvalsOf(engine.context, runId)).toHaveLength(1)
  })

  test('does not cover the organization’s, after the personal one was revoked', async () => {
    await connect(tool, 'organization')
    const own = await connect(tool, 'personal')
    const runId = await approved(tool)
    await revoke(own)
    await expectHeldAgain(runId, tool, ofAll())
    await approve(runId)
    expect(await attempt(runId, tool)).toBe('completed')
    expect(service.arrived).not.toEqual([])
  })

  test('does not cover a personal one that was made since, or another credential', async () => {
    await connect(tool, 'organization')
    const runId = await approved(tool)
    expect(await shown(runId)).toBe(ofAll())
    for (const _ of ['made', 'replaced']) {
      await connect(tool, 'personal')
      await expectHeldAgain(runId, tool, personal())
      await approve(runId)
    }
    expect(await attempt(runId, tool)).toBe('completed')
  })
})

describe('an approved mail', () => {
  test('for the installation’s server does not go through a connection that was made since', async () => {
    const runId = await approved('mail_send')
    expect(await shown(runId)).toBeUndefined()
    await connect('mail_send', 'personal')
    await expectHeldAgain(
      runId,
      'mail_send',
      `of the person who runs the workflow, to ${services.mail_send} at ${new URL(service.url).host}`,
    )
  })

  test('for a connection does not go through the installation’s server', async () => {
    const own = await connect('mail_send', 'personal')
    const runId = await approved('mail_send')
    await revoke(own)
    await expectHeldAgain(runId, 'mail_send', undefined)
  })
})

describe('a call with free text to a host that is not the service’s own', () => {
  const decided = async (runId: string) =>
    engine.context.db
      .selectFrom('decisions')
      .select(['side_effect', 'destination', 'verdict'])
      .where('run_id', '=', runId)
      .orderBy('seq', 'desc')
      .executeTakeFirstOrThrow()
  const host = (): string => new URL(service.url).host

  test('counts as egress, in the decision and on the approval', async () => {
    await connect('web_search', 'organization')
    const runId = await approved('web_search')
    const approval = await engine.context.db
      .selectFrom('approvals')
      .select(['side_effect', 'destination'])
      .where('run_id', '=', runId)
      .executeTakeFirstOrThrow()
    expect(approval).toEqual({ side_effect: 'egress', destination: host() })
    expect(await decided(runId)).toEqual({ ...approval, verdict: 'require_approval' })
    const { data } = await readCalls(
      engine.context,
      engine.caller('admin'),
      { runId, stepId: 's' },
      { limit: 1, cursor: null },
    )
    expect(data.map(({ destination }) => destination)).toEqual([host()])
  })

  test('is denied by a rule on egress or on the host, and nothing is sent', async () => {
    await connect('web_search', 'organization')
    for (const conditions of [
      { side_effects: ['egress'] },
      { params: [{ param: 'destination', operator: 'domain_not_in', value: ['search.example'] }] },
    ]) {
      await engine.rules({ name: 'stays', verdict: 'deny', ...conditions })
      const step = { id: 's', tool: 'web_search', params: calls.web_search, when: { value: '{{input.go}}', operator: 'equals', compare: true } } // prettier-ignore
      const definition = { inputs: { go: { type: 'boolean' } }, steps: [step] }
      await expect(engine.run(definition, { go: true }, 'approver')).rejects.toThrow('stays')
    }
    expect(service.arrived).toEqual([])
  })

  test('is decided again if it would go to another host than the decided one', async () => {
    const other = service.url.replace('127.0.0.1', 'localhost')
    await engine.rules({ name: 'not there', verdict: 'deny', tools: ['web_search'], params: [{ param: 'destination', operator: 'equals', value: new URL(other).host }] }) // prettier-ignore
    await connect('web_search', 'organization')
    const runId = await engine.run({ steps: [{ id: 's', tool: 'web_search', params: calls.web_search }] }, {}, 'approver') // prettier-ignore
    const moved = () => connect('web_search', 'personal', other).then(() => {})
    expect(await attempt(runId, 'web_search', moved)).toBe('StepEnded')
    expect(service.arrived).toEqual([])
    expect(await decided(runId)).toMatchObject({ verdict: 'deny', destination: new URL(other).host })
  })
})

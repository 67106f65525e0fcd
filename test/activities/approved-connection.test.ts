import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { approvalsAt, attempted, endOf, held } from './attempt.ts'
import {
  approvalsOf,
  effectOf,
  type Engine,
  holdRule,
  opOf,
  useEngine,
} from '../governance/runs/engine-fixture.ts'
import { type IssuedCall, createToolActivities } from '../../src/activities/attempt.ts'
import { StateChanged, ToolError, type SomeBodies } from '../../src/tools/kit/executor.ts'
import { run as mailTools } from '../../src/tools/mail/run.ts'
import { getTool, type ToolName } from '../../src/tools/index.ts'
import type { Precondition } from '../../src/tools/kit/tool.ts'
import { connect as connectService, revokeConnection } from '../../src/governance/connections/connections.ts'
import { unlinkSlackAccount } from '../../src/governance/people/slack-accounts.ts'
import { link as linkAccounts } from '../governance/notifications/people.ts'
import { readCalls } from '../../src/governance/runs/read/calls.ts'
import { type ScriptedServer, startScriptedServer } from '../support/scripted-server.ts'

/* An approval covers the connection, the account and the state of a service outside that its approvers saw. */

let engine: Engine
let service: ScriptedServer
useEngine((started) => (engine = started))
beforeAll(async () => {
  service = await startScriptedServer()
})
afterAll(() => service?.close())
beforeEach(() => engine.context.db.deleteFrom('connections').execute())
const { newest, approve, view } = approvalsAt(() => engine)

const bodies = createToolActivities()

describe('approved connections', () => {
  /** One call of each kind: it writes and can be looked for, it only reads, or it can go without a connection. */
  const calls = {
    slack_send_message: { channel: 'C024BE91L', text: 'figures' },
    web_search: { query: 'figures' },
    mail_send: { to: 'ana@larkspur.example', subject: 'figures', text: 'figures' },
  }
  type Tool = keyof typeof calls & ToolName

  beforeEach(async () => {
    await engine.rules(holdRule({ tools: Object.keys(calls) }))
    const body = {
      ok: true,
      user: 'ana',
      team: 'Acme',
      channel: 'C024BE91L',
      ts: '1.0',
      results: [],
      id: 'm1',
    }
    service.answer = () => ({ status: 200, body })
  })

  const credentials: Readonly<Record<Tool, (url: string) => object>> = {
    slack_send_message: (base_url) => ({ token: 'xoxb-test', base_url }),
    web_search: (base_url) => ({ provider: 'searxng', base_url }),
    mail_send: (base_url) => ({
      provider: 'resend',
      api_key: 're_test',
      from: 'desk@acme.example',
      base_url,
    }),
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

  async function attempt(runId: string, tool: Tool, before = async () => {}): Promise<unknown> {
    const body = async (decided: unknown) => (await before(), bodies[tool]!(decided))
    return endOf(await attempted(engine, runId, tool, { body }))
  }

  const shown = async (runId: string) =>
    (await view(runId)).preview?.fields.find(({ name }) => name === 'connection')?.value

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
    const decided = (runId: string) => {
      const decisions = engine.context.db
        .selectFrom('decisions')
        .select(['side_effect', 'destination', 'verdict'])
      return decisions.where('run_id', '=', runId).orderBy('seq', 'desc').executeTakeFirstOrThrow()
    }
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
      expect(await attempt(runId, 'web_search', moved)).toBe('denied')
      expect(service.arrived).toEqual([])
      expect(await decided(runId)).toMatchObject({ verdict: 'deny', destination: new URL(other).host })
    })
  })
})

describe('approved accounts in Slack', () => {
  const usual: ScriptedServer['answer'] = ({ path }) => {
    const channel = path === '/chat.postMessage' ? 'D1' : { id: 'D1', name: 'n' }
    return { status: 200, body: { ok: true, channel, ts: '1.0' } }
  }
  beforeEach(async () => {
    const credential = { token: 'xoxb-test', base_url: service.url }
    service.answer = () => ({ status: 200, body: { ok: true, channel: { id: 'D0APPROVED' } } })
    const asked = { tool: 'slack_send_message', credential, scope: 'organization', name: undefined } as const
    await connectService(engine.context, engine.caller('admin'), asked, new AbortController().signal)
    await engine.rules(holdRule({ tools: ['slack_send_message', 'slack_create_channel'] }))
    await unlink()
    service.answer = usual
    service.arrived.splice(0)
  })

  const link = (account: string) => linkAccounts(engine, { member: account })
  const unlink = () =>
    unlinkSlackAccount(engine.context, engine.caller('member'), engine.caller('member').userId)

  const calls = {
    slack_send_message: { channel: '@me', text: 'figures' },
    slack_create_channel: { name: 'closed', is_private: true },
  }
  type Tool = keyof typeof calls

  const started = (tool: Tool, params: object = calls[tool]) =>
    engine.run({ steps: [{ id: 's', tool, params }] })

  const attempt = async (runId: string, tool: Tool) => endOf(await attempted(engine, runId, tool))

  const shown = async (runId: string) =>
    (await view(runId)).preview?.fields.find(({ name }) => name.includes('Slack') && name !== 'connection')
      ?.value
  const written = () => service.arrived.filter(({ path }) => !path.endsWith('.info'))

  const because = 'the Slack account of the person who runs the workflow has changed since it was approved'

  const slackTools = ['slack_send_message', 'slack_create_channel'] as const
  describe.each(slackTools)('an approved call of `%s`', (tool) => {
    test('shows the linked account, and reaches it', async () => {
      await link('U0APPROVED')
      const runId = await started(tool)
      expect([await attempt(runId, tool), await shown(runId)]).toEqual([held, 'U0APPROVED'])
      await approve(runId)
      expect(await attempt(runId, tool)).toBe('completed')
      expect(service.arrived.some(({ body }) => body.includes('U0APPROVED'))).toBe(true)
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
      service.answer = ({ path }) => ({
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
      service.answer = usual
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
})

describe('approved states of services', () => {
  let revision = 'r1'
  let isAway = false
  let sent = 0
  const tool = getTool('mail_send') as { precondition?: Precondition }
  const bodies: SomeBodies = mailTools.mail_send
  beforeAll(() => {
    bodies.state = async () => {
      if (isAway) throw new ToolError('away', 'the service is away', { retryable: true })
      return { revision, fields: { title: 'a title' } }
    }
  })
  afterAll(() => {
    delete tool.precondition
    delete bodies.state
  })
  beforeEach(async () => {
    revision = 'r1'
    sent = 0
    await engine.rules(holdRule())
  })

  const params = { to: 'a@b.test', subject: 's', text: 't' }
  const mail = () => engine.run({ steps: [{ id: 's', tool: 'mail_send', params }] })
  /** One attempt. After the point of no return, its body sends, or reports that the call has found another revision. */
  async function send(
    runId: string,
    accepts: (given: string | null) => boolean = () => true,
  ): Promise<unknown> {
    const body = async (decided: unknown) => {
      const { call, context } = decided as IssuedCall
      await context.pointOfNoReturn()
      if (!accepts(call.revision)) throw new StateChanged()
      sent += 1
      return { output: { message_id: 'm', accepted: [] } }
    }
    return endOf(await attempted(engine, runId, 'mail_send', { body }))
  }

  const checks = ['before', 'call'] as const
  test.each(checks)('checked by `%s`: a change asks again, and nothing is sent', async (check) => {
    tool.precondition = { of: 'the thing', check }
    const accepts = (given: string | null) => check === 'before' || given === revision
    const runId = await mail()
    expect(await send(runId, accepts)).toBe(held)
    await approve(runId)
    revision = 'r2'
    expect(await send(runId, accepts)).toBe(held)
    expect(sent).toBe(0)
    expect(await effectOf(engine.context, opOf(runId))).toMatchObject({ state: 'held', sent_at: null })
    const [, second] = await approvalsOf(engine.context, runId)
    expect(second?.held_again).toBe('the thing has changed since it was approved')
    await approve(runId)
    expect(await send(runId, accepts)).toBe('completed')
    expect(sent).toBe(1)
  })

  test('a service that cannot be read before sending fails the attempt', async () => {
    tool.precondition = { of: 'the thing', check: 'before' }
    const runId = await mail()
    await send(runId)
    await approve(runId)
    isAway = true
    expect(await send(runId)).toBe('Unavailable')
    isAway = false
    expect(sent).toBe(0)
    expect(await send(runId)).toBe('completed')
  })
})

import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { catalog, getTool } from '../../../src/catalog/index.ts'
import type { ToolDeclaration } from '../../../src/catalog/tool.ts'
import { installationTools, setConnection, toolStanding } from '../../../src/governance/tools/connections.ts'
import { freeze, unfreeze } from '../../../src/governance/rules/freeze.ts'
import { createWorkflow } from '../../../src/governance/workflows/workflows.ts'
import { workflowDefinition } from '../../../src/contract/definition.ts'
import {
  approvalsOf,
  effectOf,
  go,
  hold,
  holdRule,
  mark,
  opOf,
  startEngine,
  stepOf,
  type Engine,
  type StepOp,
} from '../runs/engine-fixture.ts'
import { connectedOf } from '../../../src/governance/audit/connected.ts'
import { auditOf } from '../support.ts'

/** A call prepared by a worker whose installation lists the organizations that may use its tools. */
const namedOp = (runId: string): StepOp =>
  opOf(runId, { installation: { installationTools: 'named', smtpUrl: 'smtp://127.0.0.1:1' } })

const names = Object.keys(catalog)
const server = 'smtp://127.0.0.1:1'

describe('whether a tool works, for every tool, mode, mail server and connection', () => {
  const rows = names.flatMap((name) =>
    (['all', 'named'] as const).flatMap((mode) =>
      [server, null].flatMap((smtpUrl) =>
        [[], ['file_read'], ['mail_send'], ['file_read', 'mail_send']].map(
          (connections) => [name, mode, smtpUrl, connections] as const,
        ),
      ),
    ),
  )
  test.each(rows)('%s, %s, %s, %j', (name, installationTools, smtpUrl, connections) => {
    const tool = getTool(name) as ToolDeclaration
    const isOurs = name === 'file_read' || name === 'mail_send'
    const isMemory = name.startsWith('memory_')
    const connected = isMemory || (isOurs && (installationTools === 'all' || connections.includes(name)))
    const works = connected && (name !== 'mail_send' || smtpUrl !== null)
    const standing = toolStanding({ installationTools, smtpUrl }, connectedOf(connections, []), tool, 'usr_1')
    expect(standing.connected).toBe(connected)
    expect(standing.unavailable === null).toBe(works)
    if (isOurs && !connected) expect(standing.unavailable).toContain('npm run connect-installation')
    if (!tool.hasExecutor) expect(standing.unavailable).toContain(`\`${name}\` cannot run in this version`)
  })
  test.each([
    ['usr_1', 'active', { connected: true, unavailable: null }],
    [null, 'active', { connected: true, unavailable: null }],
    ['usr_1', 'expired', { connected: false, code: 'connection_expired' }],
    // A connection of another person.
    [
      'usr_2',
      'active',
      { connected: false, unavailable: expect.stringContaining('/tools/mail_send/connect') },
    ],
  ] as const)('mail_send with a service of %s that is %s', (owner, status, expected) => {
    const connections = connectedOf([], [[owner, 'mail', status, [], 'api.resend.com', true]])
    const installation = { installationTools: 'named', smtpUrl: null } as const
    const tool = getTool('mail_send') as ToolDeclaration
    expect(toolStanding(installation, connections, tool, 'usr_1')).toMatchObject(expected)
    // A person's own expired connection is not replaced by the installation's mail server.
    const withServer = connectedOf(['mail_send'], [[owner, 'mail', status, [], 'api.resend.com', true]])
    const { connected } = toolStanding({ ...installation, smtpUrl: server }, withServer, tool, 'usr_1')
    expect(connected).toBe(status === 'active')
  })
  test('the tools of the installation', () => {
    expect([...installationTools].sort()).toEqual(['file_read', 'mail_send'])
  })
})

describe('a call of a run', () => {
  let engine: Engine
  beforeAll(async () => {
    engine = await startEngine({ INSTALLATION_TOOLS: 'named' })
  })
  afterAll(() => engine?.close())
  const connect = (wanted: boolean) =>
    setConnection(engine.context, engine.organizationId, 'mail_send', wanted)
  beforeEach(async () => {
    await engine.rules()
    await connect(true)
  })

  const gone = { go: false, state: 'failed', reason: expect.stringContaining('is not connected') }

  test('runs if its tool is connected, and fails if not, from the next decision on', async () => {
    const op = namedOp(await engine.run())
    await go(engine, op)
    await connect(false)
    const other = namedOp(await engine.run())
    expect(await engine.decide(other)).toMatchObject(gone)
    expect(await effectOf(engine.context, other)).toMatchObject({
      state: 'failed',
      attempt: 0,
      error: { code: 'tool_not_available' },
    })
    expect((await stepOf(engine.context, other.key.runId)).error).toMatchObject({
      code: 'tool_not_available',
    })
    // Another attempt of the call that was allowed before. The first attempt has sent nothing.
    expect(await engine.decide(op)).toMatchObject(gone)
    await connect(true)
    await go(engine, namedOp(await engine.run()))
  })

  test('fails in every process as soon as the connection is removed', async () => {
    const { decideSteps } = await import('../../../src/governance/runs/effects/effect.ts')
    const other = engine.another()
    const decide = (op: StepOp) => other.combiner.join(engine.organizationId, decideSteps, op)
    expect(await decide(namedOp(await engine.run()))).toMatchObject({ go: true })
    const op = namedOp(await engine.run())
    await connect(false)
    expect(await decide(op)).toMatchObject(gone)
  })

  test('that was held and approved fails, and its approval is not used', async () => {
    await engine.rules(holdRule())
    const op = namedOp(await engine.run())
    await engine.vote(await hold(engine, op), 'admin')
    await connect(false)
    expect(await engine.decide(op)).toMatchObject(gone)
    expect(await approvalsOf(engine.context, op.key.runId)).toMatchObject([{ used_at: null }])
  })

  test('that was allowed no longer sends', async () => {
    const op = namedOp(await engine.run())
    const attempt = await go(engine, op)
    await connect(false)
    expect(await mark(engine.context, op, attempt)).toBe('changed')
  })

  test('that may have happened becomes unknown, never failed', async () => {
    const op = namedOp(await engine.run())
    expect(await mark(engine.context, op, await go(engine, op))).toBe('yes')
    await connect(false)
    expect(await engine.decide(op)).toMatchObject({ go: false, state: 'unknown_outcome' })
  })

  test('is denied in a frozen organization, like every call', async () => {
    const op = namedOp(await engine.run())
    await connect(false)
    await freeze(engine.context, engine.caller('owner'), 'looking', performance.now(), null)
    expect(await engine.decide(op)).toMatchObject({ state: 'denied' })
    await unfreeze(engine.context, engine.caller('owner'), 'seen', performance.now(), null)
  })

  test('of a tool without an executor fails', async () => {
    const params = { issue: 'APP-7', text: 'done' }
    const tool: ToolDeclaration = { ...(getTool('jira_comment') as ToolDeclaration), hasExecutor: false }
    const op = opOf(await engine.run(), { tool, params })
    expect(await engine.decide(op)).toMatchObject({
      state: 'failed',
      reason: expect.stringContaining('cannot run in this version'),
    })
    expect((await effectOf(engine.context, op))?.error).toMatchObject({ code: 'tool_not_available' })
  })

  test('a workflow is saved with a warning for each step that would fail', async () => {
    const definition = workflowDefinition.parse({
      steps: [
        { id: 'keep', tool: 'memory_set', params: { key: 'k', value: 1 } },
        { id: 'send', tool: 'mail_send', params: { to: 'me', subject: 's', text: 't' } },
      ],
    })
    const save = () =>
      createWorkflow(engine.context, engine.caller('member'), { name: 'w', description: '', definition })
    await connect(false)
    const { warnings } = await save()
    expect(warnings).toEqual([
      { path: 'steps.1.tool', message: expect.stringContaining('`send` would fail') },
    ])
  })
})

describe('connecting an organization', () => {
  let engine: Engine
  beforeAll(async () => {
    engine = await startEngine({ INSTALLATION_TOOLS: 'named' })
  })
  afterAll(() => engine?.close())

  test('is audited once, as an operator’s act, and so is disconnecting', async () => {
    const { context, organizationId } = engine
    const headOf = async () =>
      (await context.db.selectFrom('chain_head').selectAll().executeTakeFirstOrThrow()).seq
    const before = await headOf()
    expect(await setConnection(context, organizationId, 'mail_send', true)).toEqual({
      organization_id: organizationId,
      tools: ['file_read', 'mail_send'],
    })
    expect(await headOf()).toBe(before)
    await setConnection(context, organizationId, 'mail_send', false)
    await setConnection(context, organizationId, 'mail_send', false)
    await setConnection(context, organizationId, 'mail_send', true)
    expect(await headOf()).toBe(before + 2)
    expect(await auditOf(context, organizationId, 2)).toMatchObject([
      { event_type: 'connection.removed', metadata: { tool: 'mail_send', scope: 'installation' } },
      { event_type: 'connection.created', actor: { type: 'system', id: 'connect-installation' } },
    ])
  })

  test.each(['memory_get', 'Bash', '', 'constructor'])(
    '`%s` is no tool of the installation',
    async (tool) => {
      await expect(setConnection(engine.context, engine.organizationId, tool, true)).rejects.toMatchObject({
        code: 'bad_request',
      })
    },
  )

  test('an unknown organization is not found', async () => {
    await expect(setConnection(engine.context, 'org_none', 'mail_send', true)).rejects.toMatchObject({
      code: 'not_found',
    })
  })
})

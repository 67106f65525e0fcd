import { beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { catalog, getTool } from '../../../src/tools/index.ts'
import type { ToolDeclaration } from '../../../src/tools/kit/tool.ts'
import { installationTools, setConnection, toolStanding } from '../../../src/governance/tools/connections.ts'
import { createWorkflow } from '../../../src/governance/workflows/workflows.ts'
import { workflowDefinition } from '../../../src/contract/definition.ts'
import {
  holdRule,
  opOf,
  useEngine,
  type Engine,
  type ResolvedCall,
  outcomeOf,
} from '../runs/engine-fixture.ts'
import { decideSteps } from '../../../src/calls/runs/effect.ts'
import { connectedOf } from '../../../src/governance/audit/connected.ts'
import { auditOf } from '../support.ts'
import type { Context } from '../../../src/governance/context.ts'
import type { Caller } from '../../../src/governance/access/identity.ts'
import { deleteMemory, readMemory, setMemory, storeOfCall } from '../../../src/governance/tools/memory.ts'
import { addOrganization } from '../../api/fixtures.ts'
import { run } from '../../../src/tools/memory/run.ts'
import { changeQuota } from '../../../src/governance/limits/quota.ts'
import { recordWithWrite } from '../../../src/calls/runs/outcome.ts'
import { toolCall, toolContext } from '../../tools/call.ts'

let engine: Engine
let context: Context
let organizationId: string
let member: Caller
let admin: Caller
useEngine(
  (started) => {
    engine = started
    ;({ context, organizationId } = started)
    ;[member, admin] = [started.caller('member'), started.caller('admin')]
  },
  { INSTALLATION_TOOLS: 'named' },
)

const lastEntry = async () => (await auditOf(context, organizationId, 1))[0]
const missing = { code: 'not_found' }
const connect = (wanted: boolean) => setConnection(context, organizationId, 'mail_send', wanted)

/** A call prepared by a worker whose installation lists the organizations that may use its tools. */
const namedOp = (runId: string): ResolvedCall =>
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
  beforeEach(() => connect(true))

  const gone = { go: false, state: 'failed', reason: expect.stringContaining('is not connected') }
  const unknown = { go: false, state: 'unknown_outcome' }
  const approved = async (op: ResolvedCall) => {
    await engine.rules(holdRule())
    await engine.vote(await engine.hold(op), 'admin')
  }

  test.each<[string, (op: ResolvedCall) => Promise<unknown>, object]>([
    ['that was not decided fails', async () => {}, gone],
    ['that was allowed fails, because its first attempt has sent nothing', (op) => engine.go(op), gone],
    ['that was held and approved fails', (op) => approved(op), gone],
    ['that may have happened becomes unknown', async (op) => engine.mark(op, await engine.go(op)), unknown],
  ])('%s once its tool is not connected', async (_, act, expected) => {
    const op = namedOp(await engine.run())
    await act(op)
    await connect(false)
    expect(await engine.decide(op)).toMatchObject(expected)
    for (const { used_at } of await engine.approvalsOf(op.key.runId)) expect(used_at).toBeNull()
    if (expected === unknown) return
    const error = { code: 'tool_not_available' }
    expect(await engine.effectOf(op)).toMatchObject({ state: 'failed', error })
    expect(await engine.stepOf(op.key.runId)).toMatchObject({ error })
    await connect(true)
    await engine.rules()
    await engine.go(namedOp(await engine.run()))
  })

  test('fails in every process as soon as the connection is removed', async () => {
    const other = engine.another()
    const decide = (op: ResolvedCall) => other.combiner.join(organizationId, decideSteps, op)
    expect(await decide(namedOp(await engine.run()))).toMatchObject({ go: true })
    const op = namedOp(await engine.run())
    await connect(false)
    expect(await decide(op)).toMatchObject(gone)
  })

  test('that was allowed no longer sends', async () => {
    const op = namedOp(await engine.run())
    const attempt = await engine.go(op)
    await connect(false)
    expect(await engine.mark(op, attempt)).toBe('changed')
  })

  test('is denied in a frozen organization, like every call', async () => {
    const op = namedOp(await engine.run())
    await connect(false)
    expect(await engine.frozen(() => engine.decide(op))).toMatchObject({ state: 'denied' })
  })

  test('a workflow is saved with a warning for each step that would fail', async () => {
    const definition = workflowDefinition.parse({
      steps: [
        { id: 'keep', tool: 'memory_set', params: { key: 'k', value: 1 } },
        { id: 'send', tool: 'mail_send', params: { to: 'me', subject: 's', text: 't' } },
      ],
    })
    await connect(false)
    const { warnings } = await createWorkflow(context, member, { name: 'w', description: '', definition })
    expect(warnings).toEqual([
      { path: 'steps.1.tool', message: expect.stringContaining('`send` would fail') },
    ])
  })
})

describe('connecting an organization', () => {
  test('is audited once, as an operator’s act, and so is disconnecting', async () => {
    await connect(true)
    const headOf = async () =>
      (await context.db.selectFrom('chain_head').selectAll().executeTakeFirstOrThrow()).seq
    const before = await headOf()
    expect(await connect(true)).toEqual({
      organization_id: organizationId,
      tools: ['file_read', 'mail_send'],
    })
    expect(await headOf()).toBe(before)
    await connect(false)
    await connect(false)
    await connect(true)
    expect(await headOf()).toBe(before + 2)
    expect(await auditOf(context, organizationId, 2)).toMatchObject([
      { event_type: 'connection.removed', metadata: { tool: 'mail_send', scope: 'installation' } },
      { event_type: 'connection.created', actor: { type: 'system', id: 'connect-installation' } },
    ])
  })

  test.each(['memory_get', 'Bash', '', 'constructor'])(
    '`%s` is no tool of the installation',
    async (tool) => {
      await expect(setConnection(context, organizationId, tool, true)).rejects.toMatchObject({
        code: 'bad_request',
      })
    },
  )

  test('an unknown organization is not found', async () => {
    await expect(setConnection(context, 'org_none', 'mail_send', true)).rejects.toMatchObject(missing)
  })
})

describe('memory', () => {
  test.each([[{ a: [1, null, 'ü'] }], [null], ['text'], [0], [false]])('keeps %j as it is', async (value) => {
    const set = await setMemory(context, member, { key: 'k', value, labels: ['pii', 'internal', 'pii'] })
    expect(set).toEqual({ key: 'k', value, labels: ['internal', 'pii'], updated_at: expect.any(String) })
    expect(await readMemory(context, member, 'k')).toEqual(set)
  })

  test('a key has 1,000 labels at most', async () => {
    const labels = Array.from({ length: 1_000 }, (_, index) => `label-${index}`)
    expect((await setMemory(context, member, { key: 'full', value: 1, labels })).labels).toHaveLength(1_000)
    const more = setMemory(context, member, { key: 'full', value: 1, labels: [...labels, 'more'] })
    await expect(more).rejects.toMatchObject({ code: 'validation_error', details: [{ path: 'labels' }] })
  })

  test('replaces the value, and keeps the labels', async () => {
    await setMemory(context, member, { key: 'k', value: 1, labels: ['internal', 'pii'] })
    const kept = await setMemory(context, member, { key: 'k', value: 2, labels: null })
    expect(kept.labels).toEqual(['internal', 'pii'])
    expect(await readMemory(context, member, 'k')).toEqual(kept)
  })

  test('is audited by hash: the log never contains a value', async () => {
    await setMemory(context, member, { key: 'secret', value: 'the-secret-value', labels: ['pii'] })
    const entry = await lastEntry()
    expect(entry).toMatchObject({ event_type: 'memory.set', metadata: { key: 'secret', labels: ['pii'] } })
    expect(entry?.canonical).not.toContain('the-secret-value')
  })

  test('belongs to one organization', async () => {
    const other = await addOrganization(context)
    await setMemory(context, member, { key: 'ours', value: 1, labels: [] })
    await expect(readMemory(context, { ...member, organizationId: other.id }, 'ours')).rejects.toMatchObject(
      missing,
    )
  })

  test('deletes a value once', async () => {
    await setMemory(context, member, { key: 'gone', value: 1, labels: [] })
    await deleteMemory(context, member, 'gone')
    const entry = await lastEntry()
    expect(entry).toMatchObject({ event_type: 'memory.deleted', metadata: { key: 'gone' } })
    await expect(readMemory(context, member, 'gone')).rejects.toMatchObject(missing)
    await expect(deleteMemory(context, member, 'gone')).rejects.toMatchObject(missing)
    expect(await lastEntry()).toEqual(entry)
  })
})

describe('labels of a key', () => {
  const put = (who: Caller, key: string, labels: string[] | null, value: number = 1) =>
    setMemory(context, who, { key, value, labels })
  const refused = (...labels: string[]) => ({
    code: 'insufficient_role',
    message: expect.stringMatching(`^${labels.map((label) => `\`${label}\``).join(', ')} would be removed`),
    details: [{ path: 'labels' }],
  })

  test('a member can add but not remove labels; an admin can, and the log has both states', async () => {
    await put(member, 'l', ['pii'])
    await expect(put(member, 'l', [])).rejects.toMatchObject(refused('pii'))
    expect((await put(member, 'l', ['confidential', 'pii'])).labels).toEqual(['confidential', 'pii'])
    await expect(put(member, 'l', ['internal'])).rejects.toMatchObject(refused('confidential', 'pii'))
    expect((await put(admin, 'l', ['internal'])).labels).toEqual(['internal'])
    const entry = await lastEntry()
    expect(entry?.metadata).toMatchObject({ labels: ['internal'], labels_before: ['confidential', 'pii'] })
  })

  test('apply to the next value after a deletion', async () => {
    await put(member, 'd', ['pii'])
    await deleteMemory(context, member, 'd')
    const metadata = { labels: ['pii'], labels_before: ['pii'] }
    expect(await lastEntry()).toMatchObject({ event_type: 'memory.deleted', metadata })
    await expect(deleteMemory(context, member, 'd')).rejects.toMatchObject(missing)
    await expect(put(member, 'd', [])).rejects.toMatchObject(refused('pii'))
    expect((await put(member, 'd', null)).labels).toEqual(['pii'])
    await deleteMemory(context, member, 'd')
    expect((await put(admin, 'd', [])).labels).toEqual([])
    expect((await put(member, 'd', null)).labels).toEqual([])
  })

  test('an admin who deletes a second time deletes them too', async () => {
    await put(member, 'f', ['pii'])
    await deleteMemory(context, admin, 'f')
    await deleteMemory(context, admin, 'f')
    const entry = await lastEntry()
    expect(entry?.metadata).toMatchObject({ labels: [], labels_before: ['pii'] })
    await expect(deleteMemory(context, admin, 'f')).rejects.toMatchObject(missing)
    expect((await put(member, 'f', [])).labels).toEqual([])
  })

  test('law: members cannot make a key lose a label', async () => {
    const label = fc.subarray(['pii', 'internal', 'confidential'])
    const step = fc.oneof(fc.constant('delete' as const), fc.option(label))
    let runs = 0
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 6 }), async (steps) => {
        const key = `p${(runs += 1)}`
        const ever = new Set<string>()
        for (const each of steps) {
          if (each === 'delete') await deleteMemory(context, member, key).catch(() => {})
          else {
            const kept = await put(member, key, each).catch(() => null)
            for (const given of kept === null ? [] : (each ?? [])) ever.add(given)
            if (kept !== null) expect(kept.labels).toEqual([...ever].sort())
          }
        }
      }),
      { numRuns: 30 },
    )
  })
})

describe('memory_mb', () => {
  beforeAll(() => changeQuota(context, engine.caller('owner'), { memory_mb: 1 }))
  beforeEach(() => context.pool.query('delete from memory'))

  const set = (key: string, length: number) =>
    setMemory(context, member, { key, value: 'x'.repeat(length), labels: [] })
  const keys = async () =>
    (await context.db.selectFrom('memory').select('key').orderBy('key').execute()).map(({ key }) => key)
  const used = async () =>
    (await context.db.selectFrom('memory_usage').select('bytes').executeTakeFirstOrThrow()).bytes

  test('limits the sum of all values and keys: a value above it is refused and audited', async () => {
    // Three bytes are subtracted: two quotes around each value, and a key of one byte.
    await set('a', 512 * 1024 - 3)
    await set('b', 512 * 1024 - 3)
    expect(await used()).toBe(1024 * 1024)
    await expect(set('c', 1)).rejects.toMatchObject({
      code: 'quota_exceeded',
      details: [{ path: 'memory_mb', message: 'the limit is 1' }],
    })
    expect(await keys()).toEqual(['a', 'b'])
    const metadata = { limit: 'memory_mb', value: 1 }
    expect(await lastEntry()).toMatchObject({ event_type: 'quota.exceeded', action: 'set', metadata })
  })

  test('labels count, and so do those of a deleted value', async () => {
    const labels = ['confidential', 'pii']
    await setMemory(context, member, { key: 'key', value: 1, labels })
    expect(await used()).toBe('key'.length + 1 + 'confidential pii'.length)
    await deleteMemory(context, member, 'key')
    expect(await used()).toBe('key'.length + 'confidential pii'.length)
    await deleteMemory(context, admin, 'key')
    expect(await used()).toBe(0)
  })

  test('has storage left again after a replacement by a smaller value, and after a deletion', async () => {
    await set('a', 1024 * 1024 - 3)
    await expect(set('a', 1024 * 1024 - 2)).rejects.toMatchObject({ code: 'quota_exceeded' })
    await set('a', 1024 * 1024 - 10)
    await set('b', 4)
    await deleteMemory(context, member, 'a')
    await set('c', 1024 * 1024 - 20)
    expect(await keys()).toEqual(['b', 'c'])
  })

  test('of two processes that write at the same time one is refused', async () => {
    const other = engine.another()
    const value = 'x'.repeat(600 * 1024)
    const write = (context: typeof other, key: string) =>
      setMemory(context, member, { key, value, labels: [] })
    const ends = await Promise.allSettled([write(context, 'a'), write(other, 'b')])
    expect(ends.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
    expect(await keys()).toHaveLength(1)
  })

  test('fails the step whose value exceeds it, and nothing is written', async () => {
    await set('a', 1024 * 1024 - 10)
    const op = opOf(await engine.run())
    const attempt = await engine.go(op)
    const call = toolCall({ key: 'b', value: 'too much' }, { organizationId: organizationId })
    const { stores } = await run.memory_set.body(call, toolContext())
    const outcome = outcomeOf(op, attempt, 'completed')
    const basis = await engine.basisOf(op)
    const recorded = recordWithWrite(context, organizationId, outcome, basis, (tx) =>
      storeOfCall(tx, stores!),
    )
    expect(await recorded).toBe('failed')
    expect((await engine.effectOf(op))?.error).toMatchObject({ code: 'quota_exceeded' })
    expect(await keys()).toEqual(['a'])
    const entries = await auditOf(context, organizationId, 2)
    expect(entries.map((entry) => entry.event_type)).toEqual(['quota.exceeded', 'tool_call.failed'])
  })
})

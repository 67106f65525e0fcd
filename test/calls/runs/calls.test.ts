import { listResolutions } from '../../../src/governance/approvals/resolutions.ts'
import type { Viewer } from '../../../src/governance/access/viewer.ts'
import { asAdmin } from '../../support/postgres.ts'
import { describe, expect, test, beforeEach, beforeAll } from '@jest/globals'
import type { Repeat, ToolDeclaration } from '../../../src/tools/kit/tool.ts'
import {
  denyRule,
  holdRule,
  opOf,
  outcomeOf,
  useEngine,
  toolOf,
  type Engine,
  type ResolvedCall,
  outputOf,
} from '../../governance/runs/engine-fixture.ts'
import { connect, revokeConnection } from '../../../src/governance/connections/connections.ts'
import { expireConnection } from '../../../src/governance/connections/connection-view.ts'
import { markSent } from '../../../src/calls/runs/outcome.ts'
import { getTool } from '../../../src/tools/index.ts'
import { mostStoredBytes } from '../../../src/calls/runs/storage-limit.ts'
import type { BootstrapName } from '../../../src/governance/people/bootstrap.ts'
import { createRule } from '../../governance/rules/free-changes.ts'
import { labelRuleInput } from '../../../src/governance/rules/rule-kinds.ts'
import { resolveStep, type ResolveRequest } from '../../../src/calls/runs/resolve.ts'
import { auditOf } from '../../governance/support.ts'
import type { Context } from '../../../src/governance/context.ts'
import { readReceipt } from '../../../src/governance/runs/read/receipt.ts'
import { cancelRun } from '../../../src/governance/runs/end/cancel.ts'

let engine: Engine
useEngine((started) => (engine = started))

const vote = (id: unknown, decision?: 'reject') => engine.vote(id as string, 'admin', decision)
const underHold = async (op: ResolvedCall) => (await engine.rules(holdRule()), engine.hold(op))
const record = (result: string) => (op: ResolvedCall) => engine.record(outcomeOf(op, 1, result))
const chooseRetry = (op: ResolvedCall) => engine.resolve(op.key.runId, 'retry')
const marks = (attempt: number, sentWith?: string) => async (op: ResolvedCall) =>
  expect(await engine.mark(op, attempt, sentWith)).toBe('yes')
const withdraw = (id: string) =>
  engine.context.db.updateTable('approvals').set({ status: 'cancelled' }).where('id', '=', id).execute()

/**
 * How a new call gets into each state by the normal operations: the state before, and what happens then. What happens
 * gets the result of what happened before, such as the id of an approval.
 */
const states: Readonly<
  Record<string, readonly [string | null, (op: ResolvedCall, before: string) => Promise<unknown>]>
> = {
  'no row': [null, async () => {}],
  'held, pending': [null, underHold],
  'held, approved': ['held, pending', (_, id) => vote(id)],
  'held, rejected': ['held, pending', (_, id) => vote(id, 'reject')],
  'held, late': ['held, pending', (_, id) => engine.makeLate(id)],
  'held, approved but late': ['held, pending', async (_, id) => (await vote(id), engine.makeLate(id))],
  'held, withdrawn': ['held, pending', (_, id) => withdraw(id)],
  intent: [null, async (op) => (await engine.rules(), engine.go(op))],
  sent: ['intent', marks(1)],
  'sent, decided again': ['sent', (op) => engine.decide(op)],
  'sent, held again': ['sent', underHold],
  'sent with a key': ['intent', marks(1, 'a connection')],
  'sent with a key, decided': ['sent with a key', (op) => engine.decide(op)],
  'sent with a key, twice': ['sent with a key, decided', marks(2, 'a connection')],
  'sent with a key, held again': ['sent with a key', underHold],
  'sent with a key, retry': ['sent with a key', record('retry')],
  'sent with a key, unknown': ['sent with a key', record('unknown_outcome')],
  'sent with a key, unknown, retry chosen': ['sent with a key, unknown', chooseRetry],
  retry: ['sent', record('retry')],
  unknown: ['sent', record('unknown_outcome')],
  'unknown, retry chosen': ['unknown', chooseRetry],
  'unknown, retry held': ['unknown, retry chosen', underHold],
  'unknown, retry rejected': ['unknown, retry held', (_, id) => vote(id, 'reject')],
  completed: ['intent', record('completed')],
  failed: ['intent', record('failed')],
  cancelled: ['intent', record('cancelled')],
  denied: [null, async (op) => (await engine.rules(denyRule()), engine.decide(op))],
  rejected: ['held, rejected', (op) => engine.decide(op)],
  expired: ['held, late', (op) => engine.decide(op)],
  skipped: [null, (op) => engine.decide({ ...op, wanted: false })],
}
async function reach(state: string, op: ResolvedCall): Promise<string> {
  const [before, act] = states[state] ?? [null, async () => {}]
  return (await act(op, before === null ? '' : await reach(before, op))) as string
}

/**
 * For each state: the new decision if the rules now allow, hold or deny the call. `go 2` means that the body runs as
 * attempt 2. `look 2` means that attempt 2 first looks for the result of an earlier attempt.
 */
const everyKind: readonly (readonly [string, string, string, string])[] = [
  ['no row', 'go 1', 'held', 'denied'],
  ['held, pending', 'go 1', 'held', 'denied'],
  ['held, approved', 'go 1', 'go 1', 'denied'],
  ['held, rejected', 'rejected', 'rejected', 'denied'],
  ['held, late', 'expired', 'expired', 'denied'],
  ['held, approved but late', 'go 1', 'expired', 'denied'],
  ['held, withdrawn', 'cancelled', 'cancelled', 'denied'],
  ['completed', 'completed', 'completed', 'completed'],
  ['failed', 'failed', 'failed', 'failed'],
  ['cancelled', 'cancelled', 'cancelled', 'cancelled'],
  ['denied', 'denied', 'denied', 'denied'],
  ['rejected', 'rejected', 'rejected', 'rejected'],
  ['expired', 'expired', 'expired', 'expired'],
  ['skipped', 'skipped', 'skipped', 'skipped'],
]
const harmless: typeof everyKind = [['intent', 'go 2', 'held', 'denied']]
const unresolved: typeof everyKind = [
  ['retry', 'go 2', 'held', 'denied'],
  ['unknown', 'unknown_outcome', 'unknown_outcome', 'unknown_outcome'],
  ['unknown, retry chosen', 'go 2', 'held', 'unknown_outcome'],
  ['unknown, retry held', 'go 2', 'held', 'unknown_outcome'],
  // A rejection only refuses the retry. It does not mean that the call never happened.
  ['unknown, retry rejected', 'unknown_outcome', 'unknown_outcome', 'unknown_outcome'],
]
const tables: Record<Repeat, typeof everyKind> = {
  free: [...everyKind, ...harmless],
  transactional: [...everyKind, ...harmless],
  keyed: [
    ...everyKind,
    ['intent', 'go 2', 'held', 'unknown_outcome'],
    ['sent', 'go 2', 'held', 'unknown_outcome'],
    ...unresolved,
  ],
  findable: [
    ...everyKind,
    ...harmless,
    ['sent', 'look 2', 'held', 'unknown_outcome'],
    ['sent, decided again', 'look 3', 'held', 'unknown_outcome'],
    ['sent, held again', 'look 2', 'held', 'unknown_outcome'],
    ...unresolved,
  ],
  unsafe: [
    ...everyKind,
    ...harmless,
    ['sent', 'unknown_outcome', 'unknown_outcome', 'unknown_outcome'],
    ['sent with a key', 'look 2', 'held', 'unknown_outcome'],
    ['sent with a key, twice', 'look 3', 'held', 'unknown_outcome'],
    ['sent with a key, held again', 'look 2', 'held', 'unknown_outcome'],
    ['sent with a key, retry', 'go 2', 'held', 'denied'],
    ['sent with a key, unknown, retry chosen', 'go 2', 'held', 'unknown_outcome'],
    ...unresolved,
  ],
}

describe('deciding a call again, by its state and the present rules', () => {
  const rules = { allow: [], hold: [holdRule()], deny: [denyRule()] }
  for (const [repeat, rows] of Object.entries(tables) as [Repeat, typeof everyKind][])
    test.each(rows)(`${repeat}: %s → %s / %s / %s`, async (state, ...expected) => {
      for (const [place, now] of Object.values(rules).entries()) {
        const op = opOf(await engine.run(), { tool: toolOf(repeat) })
        await reach(state, op)
        const before = await engine.effectOf(op)
        await engine.rules(...now)
        const verdict = await engine.decide(op)
        const runs = verdict.go && (verdict.sentSecondsAgo === null ? 'go' : 'look')
        expect(verdict.go ? `${runs} ${verdict.attempt}` : verdict.state).toBe(expected[place])
        const after = await engine.effectOf(op)
        expect(after?.state).toBe(verdict.go ? 'intent' : verdict.state)
        if (before?.finished_at) expect(after).toEqual(before)
        const run = await engine.runOf(op.key.runId)
        const waits = !verdict.go && ['held', 'unknown_outcome'].includes(verdict.state)
        expect(run.status).toBe(waits ? 'paused' : 'running')
        const approvals = await engine.approvalsOf(op.key.runId)
        expect(approvals.filter(({ status }) => status === 'pending')).toHaveLength(
          !verdict.go && verdict.state === 'held' ? 1 : 0,
        )
      }
    })
})

const fresh = async (repeat: Repeat): Promise<ResolvedCall> => {
  const op = opOf(await engine.run(), { tool: toolOf(repeat) })
  await engine.go(op)
  return op
}
const send = async (op: ResolvedCall, account: string | null, attempt = 1) =>
  markSent(engine.context, op.key, attempt, await engine.basisOf(op), account)

describe.each(['findable', 'unsafe'] as const)(
  'the account of a %s call that may have been made',
  (repeat) => {
    test('is told to the next attempts', async () => {
      const op = await fresh(repeat)
      expect(await send(op, 'an account')).toBe('yes')
      for (const attempt of [2, 3])
        expect(await engine.decide(op)).toMatchObject({ go: true, attempt, sentWith: 'an account' })
    })

    test.each<[string, string, string | null]>([
      ['after a clear failure', 'retry', null],
      ['once a person has chosen to make the call again', 'unknown_outcome', 'an account'],
    ])('counts no more %s', async (_, result, kept) => {
      const op = await fresh(repeat)
      await send(op, 'an account')
      await engine.record(outcomeOf(op, 1, result))
      expect((await engine.effectOf(op))?.sent_with).toBe(kept)
      if (kept !== null) await engine.resolve(op.key.runId, 'retry')
      expect(await engine.decide(op)).toMatchObject({ go: true, sentSecondsAgo: null, sentWith: null })
    })
  },
)

describe('a connection that is gone at the point of no return sends nothing', () => {
  const credential = { provider: 'brave', api_key: 'k' } as const
  const search = { tool: 'web_search', credential, scope: 'personal', name: undefined } as const
  const connectSearch = () =>
    connect(engine.context, engine.caller('member'), search, new AbortController().signal)

  test.each<[string, (connection: { id: string; organization_id: string }) => Promise<unknown>]>([
    ['revoked', ({ id }) => revokeConnection(engine.context, engine.caller('member'), id)],
    ['replaced', connectSearch],
    ['expired', (connection) => expireConnection(engine.context, connection)],
  ])('%s', async (_, end) => {
    const connection = await connectSearch()
    const [first, second] = [await fresh('findable'), await fresh('findable')]
    const account = `${connection.id} https://api.search.brave.com`
    expect(await send(first, account)).toBe('yes')
    await end(connection)
    // The changed connection leads to a new decision, which may allow the call with another connection.
    expect(await send(second, account)).toBe('changed')
    await engine.go(second)
    expect(await send(second, account, 2)).toBe('disconnected')
    expect(await engine.effectOf(second)).toMatchObject({ state: 'intent', sent_with: null })
  })

  test('a connection that was never there', async () => {
    expect(await send(await fresh('findable'), 'con_0 https://api.github.com')).toBe('disconnected')
  })
})

describe('the stored bytes of one run', () => {
  let runId: string
  beforeEach(async () => void (runId = await engine.run()))

  /** Leaves this many bytes of the run's storage limit. */
  const leave = (bytes: number) =>
    engine.context.db
      .updateTable('runs')
      .set({ stored_bytes: mostStoredBytes - bytes })
      .where('id', '=', runId)
      .execute()
  const read = getTool('file_read') as ToolDeclaration
  const failure = {
    state: 'failed',
    error: { code: 'run_too_large', message: expect.stringMatching('split it') },
  }

  test('include parameters, the approval’s copy and outputs', async () => {
    await engine.rules(holdRule())
    const op = opOf(runId)
    await engine.vote(await engine.hold(op), 'admin')
    const done = outcomeOf(op, await engine.go(op), 'completed')
    await engine.record({
      ...done,
      result: { ...done.result, output: outputOf(op.key, 'ü') } as typeof done.result,
    })
    expect((await engine.runOf(runId)).stored_bytes).toBe(2 * op.sealed.length + 4)
    const { rows } = await engine.context.pool.query(
      `select (select sum(length(params_sealed) + value_bytes(output_sealed)) from effects where run_id = $1) +
              (select sum(length(params_sealed)) from approvals where run_id = $1) as bytes`,
      [runId],
    )
    expect(Number(rows[0].bytes)).toBe(2 * op.sealed.length + 4)
  })

  test('a call above the limit fails before its decision, and its parameters are not stored', async () => {
    await engine.rules(holdRule())
    const op = opOf(runId)
    await leave(op.sealed.length - 1)
    expect(await engine.decide(op)).toMatchObject({ go: false, state: 'failed' })
    expect(await engine.effectOf(op)).toMatchObject({ ...failure, params_sealed: null, decision_id: null })
    expect(await engine.stepOf(runId)).toMatchObject({ status: 'failed', error: failure.error })
    expect(await engine.approvalsOf(runId)).toEqual([])
    expect(await engine.decide(op)).toMatchObject({ go: false, state: 'failed' })
  })

  test('concurrent items all count: those that fit run, the others fail', async () => {
    const ops = [0, 1, 2, 3].map((item) => opOf(runId, { item }))
    await leave(2 * (ops[0]?.sealed.length ?? 0))
    const verdicts = await Promise.all(ops.map((op) => engine.decide(op)))
    expect(verdicts.filter((verdict) => verdict.go)).toHaveLength(2)
    expect((await engine.runOf(runId)).stored_bytes).toBe(mostStoredBytes)
  })

  test('a call that was allowed below the limit goes on', async () => {
    const op = opOf(runId)
    await engine.go(op)
    await engine.record(outcomeOf(op, 1, 'retry'))
    await leave(0)
    expect(await engine.go(op)).toBe(2)
  })

  test('label sources count for a call and for each of its decisions', async () => {
    const labelSources = [{ label: 'internal', from: ['ü'.repeat(1_000)] }]
    const bytes = Buffer.byteLength(JSON.stringify(labelSources))
    const op = opOf(runId, { labels: ['internal'], labelSources })
    await engine.go(op)
    expect((await engine.runOf(runId)).stored_bytes).toBe(op.sealed.length + 2 * bytes)
    await engine.record(outcomeOf(op, 1, 'retry'))
    await leave(bytes)
    await engine.go(op)
    await engine.record(outcomeOf(op, 2, 'retry'))
    expect(await engine.decide(op)).toMatchObject({ go: false, state: 'failed' })
    expect(await engine.effectOf(op)).toMatchObject({ ...failure, label_sources: [], labels: ['internal'] })
    const next = opOf(runId, { item: 0, labelSources })
    expect(await engine.decide(next)).toMatchObject({ go: false, state: 'failed' })
    expect(await engine.effectOf(next)).toMatchObject({ ...failure, label_sources: [] })
  })

  test('a skipped call needs no storage', async () => {
    await leave(0)
    const op = opOf(runId, { wanted: false, labelSources: [{ label: 'internal', from: ['a'] }] })
    expect(await engine.decide(op)).toMatchObject({ state: 'skipped' })
    expect(await engine.effectOf(op)).toMatchObject({ params_sealed: null, label_sources: [] })
  })

  test('a read whose output does not fit fails, and the output is not stored', async () => {
    const op = opOf(runId, { tool: read })
    const attempt = await engine.go(op)
    await leave(3)
    expect(await engine.record(outcomeOf(op, attempt, 'completed'))).toBe('failed')
    expect(await engine.effectOf(op)).toMatchObject({ ...failure, output_sealed: null })
  })

  test('the output of an act is stored in any case', async () => {
    const op = opOf(runId)
    const attempt = await engine.go(op)
    await leave(3)
    expect(await engine.record(outcomeOf(op, attempt, 'completed'))).toBe('completed')
    expect(await engine.effectOf(op)).toMatchObject({ state: 'completed' })
    expect(await engine.keptOutput(op)).toEqual({ ok: true })
  })
})

const unknown = async (over: Parameters<typeof opOf>[1] = {}): Promise<ResolvedCall> =>
  engine.lose(opOf(await engine.run(), { labels: ['pii'], ...over }))
const loseAgain = async (op: ResolvedCall): Promise<void> => {
  await engine.mark(op, await engine.go(op))
  await engine.record(outcomeOf(op, 2, 'unknown_outcome'))
}
const resolve = (
  op: ResolvedCall,
  outcome: ResolveRequest['outcome'],
  by: BootstrapName = 'admin',
  over: Partial<ResolveRequest> = {},
) => engine.resolve(op.key.runId, outcome, { caller: engine.caller(by), ...over })

const stepSeen = async (runId: string) => (await engine.readRun(runId))?.steps[0]

describe('a person resolves an unknown outcome', () => {
  test('events: the call comes before the pause, and the run goes on before the next decision', async () => {
    const op = await unknown()
    await resolve(op, 'retry')
    await engine.go(op)
    expect((await engine.eventsOf(op.key.runId)).slice(3)).toEqual([
      'step.started',
      'step.unknown_outcome',
      'run.paused',
      'run.resumed',
      'step.decided',
    ])
  })

  test('retry: the call is decided and made again; the choice counts once', async () => {
    const op = await unknown()
    await resolve(op, 'retry')
    expect(await engine.effectOf(op)).toMatchObject({ state: 'unknown_outcome', resolved_outcome: 'retry' })
    expect(await engine.go(op)).toBe(2)
    expect(await engine.effectOf(op)).toMatchObject({
      state: 'intent',
      resolved_outcome: null,
      sent_at: null,
    })
  })

  test('done: completed with the given output, and the labels of its inputs', async () => {
    const op = await unknown()
    const output = { message_id: 'x', accepted: ['a@b.test'] }
    await expect(resolve(op, 'done', 'admin', { output: { id: 'x' } })).rejects.toMatchObject({
      code: 'validation_error',
      details: expect.arrayContaining([expect.objectContaining({ path: 'output.message_id' })]),
    })
    await resolve(op, 'done', 'admin', { output })
    expect(await engine.effectOf(op)).toMatchObject({ state: 'completed', output_labels: ['pii'] })
    expect(await engine.keptOutput(op)).toEqual(output)
    expect(await engine.runOf(op.key.runId)).toMatchObject({ status: 'running', nodes_executed: 1 })
    expect(await engine.decide(op)).toMatchObject({ go: false, state: 'completed' })
  })

  test('who said what, and when, stays with the step and in the receipt', async () => {
    const op = await unknown()
    expect(await stepSeen(op.key.runId)).toMatchObject({ looking: null, resolutions: [] })
    await resolve(op, 'retry', 'approver')
    await loseAgain(op)
    await resolve(op, 'done')
    const { email, userId: by } = engine.caller('admin')
    const said = [
      { attempt: 2, outcome: 'done', by, by_email: email, item_index: null, at: expect.any(String) },
      expect.objectContaining({ attempt: 1, outcome: 'retry', by: engine.caller('approver').userId }),
    ]
    expect((await stepSeen(op.key.runId))?.resolutions).toEqual(said)
    const receipt = await readReceipt(engine.context.db, engine.organizationId, op.key.runId)
    expect(JSON.parse(await receipt.text())).toMatchObject({
      resolutions: [
        { step_id: 's', outcome: 'retry' },
        { step_id: 's', outcome: 'done' },
      ],
    })
  })

  test('a call that is refused after `retry` is unknown in the same attempt, and is resolved once more', async () => {
    const op = await unknown()
    await resolve(op, 'retry')
    await engine.frozen(() => engine.decide(op))
    expect(await engine.effectOf(op)).toMatchObject({ state: 'unknown_outcome', attempt: 1 })
    await resolve(op, 'done')
    expect(await engine.effectOf(op)).toMatchObject({ state: 'completed' })
    expect((await stepSeen(op.key.runId))?.resolutions).toMatchObject([
      { attempt: 1, outcome: 'done' },
      { attempt: 1, outcome: 'retry' },
    ])
  })

  test('while the service is asked, the step says where and by what; then what waits says it', async () => {
    const op = await unknown()
    const { waiting_for: waiting } = { waiting_for: [], ...(await engine.readRun(op.key.runId)) }
    const sought = { service: 'the mail server', where: null, mark: null, sent_at: expect.any(String) }
    expect(waiting).toMatchObject([{ kind: 'resolution', sought }])
    await engine.context.db
      .updateTable('effects')
      .set({ state: 'intent', tool: 'github_comment' })
      .where('run_id', '=', op.key.runId)
      .execute()
    expect((await stepSeen(op.key.runId))?.looking).toMatchObject({
      service: 'GitHub',
      where: expect.stringContaining('a comment at the end of its text'),
      mark: expect.stringMatching(/^countersign:call:[\da-f]{32}$/),
    })
  })

  test('the page where a person looks is named to those who see the parameters', async () => {
    const op = await unknown({ params: { repo: 'Acme/app', title: 't' } })
    await engine.context.db
      .updateTable('effects')
      .set({ tool: 'github_create_issue' })
      .where('run_id', '=', op.key.runId)
      .execute()
    await asAdmin(engine.adminUrl, (client) =>
      client.query(`update decisions set destination = 'api.github.com' where run_id = $1`, [op.key.runId]),
    )
    const urlFor = async (viewer: Viewer) => {
      const page = { limit: 1, cursor: null }
      const listed = await listResolutions(engine.context, viewer, { run_id: op.key.runId }, page)
      return listed.data[0]?.sought?.url
    }
    expect(await urlFor(engine.caller('admin'))).toBe('https://github.com/acme/app/issues')
    expect(await urlFor({ ...engine.caller('member'), userId: engine.caller('approver').userId })).toBeNull()
  })

  test('done: adds the labels of label rules', async () => {
    const op = await unknown()
    const rule = { name: 'mail is noted', tools: ['mail_*'], add_labels: ['noted'] }
    await createRule(engine.context, 'label_rule', engine.caller('admin'), labelRuleInput.parse(rule))
    await resolve(op, 'done')
    expect((await engine.effectOf(op))?.output_labels).toEqual(['noted', 'pii'])
  })

  test('fail: failed, and counted', async () => {
    const op = await unknown()
    await resolve(op, 'fail')
    expect(await engine.stepOf(op.key.runId)).toMatchObject({ status: 'failed', error: { code: 'resolved_as_failed', fault: 'policy', retryable: false } }) // prettier-ignore
    expect(await engine.runOf(op.key.runId)).toMatchObject({ status: 'running', nodes_failed: 1 })
  })

  test('a choice for one attempt never settles the next one', async () => {
    const op = await unknown()
    await resolve(op, 'retry', 'admin', { attempt: 1 })
    await loseAgain(op)
    for (const outcome of ['done', 'retry', 'fail'] as const)
      await expect(resolve(op, outcome, 'approver', { attempt: 1 })).rejects.toMatchObject({
        code: 'conflict',
        message: expect.stringContaining('is that of attempt 2, not of attempt 1'),
      })
    expect(await engine.effectOf(op)).toMatchObject({ state: 'unknown_outcome', resolved_outcome: null }) // prettier-ignore
    await resolve(op, 'done', 'approver', { attempt: 2 })
    expect(await engine.effectOf(op)).toMatchObject({ state: 'completed', attempt: 2 })
  })

  test('items: a named item of another attempt refuses all, and `all` leaves it out', async () => {
    const [runId, ops] = await engine.items(3)
    for (const op of ops) await engine.lose(op)
    const [op, again] = ops as [ResolvedCall, ResolvedCall]
    await resolve(op, 'retry', 'admin', { items: 1 })
    await loseAgain(again)
    const left = async () => (await stepSeen(runId))?.unresolved_items
    await expect(resolve(op, 'done', 'admin', { items: [0, 1], attempt: 1 })).rejects.toMatchObject({
      code: 'conflict',
      message: expect.stringContaining('item 1 of step `s` is that of attempt 2'),
    })
    expect(await left()).toEqual([0, 1, 2])
    await resolve(op, 'done', 'admin', { items: 'all', attempt: 1 })
    expect(await left()).toEqual([1])
    await expect(resolve(op, 'done', 'admin', { items: 'all', attempt: 1 })).rejects.toMatchObject({
      code: 'bad_transition',
    })
    await resolve(op, 'fail', 'admin', { items: 'all', attempt: 2 })
    expect(await left()).toEqual([])
  })

  test('items of a step: the answer lists waiting items, and an error names them', async () => {
    const [runId, ops] = await engine.items(3)
    for (const op of ops) await engine.mark(op, await engine.go(op))
    for (const [item, how] of [
      [2, 'unknown_outcome'],
      [0, 'unknown_outcome'],
      [1, 'completed'],
    ] as const)
      await engine.record(outcomeOf(ops[item] as ResolvedCall, 1, how))
    const shown = () => stepSeen(runId)
    expect(await shown()).toMatchObject({ status: 'unknown_outcome', unresolved_items: [0, 2] })
    const op = ops[0] as ResolvedCall
    for (const items of [null, 1, 9999, [0, 1], []]) {
      await expect(resolve(op, 'done', 'admin', { items })).rejects.toMatchObject({
        code: 'bad_transition',
        message: expect.stringContaining('give `item_index`, one of 0, 2'),
      })
    }
    await resolve(op, 'done', 'admin', { items: 0 })
    expect(await shown()).toMatchObject({ status: 'unknown_outcome', unresolved_items: [2] })
    await resolve(op, 'done', 'admin', { items: 2 })
    expect(await shown()).toMatchObject({ status: 'running', unresolved_items: [] })
  })

  test.each(['retry', 'done', 'fail'] as const)(
    '%s names the person in the audit log and wakes the run',
    async (outcome) => {
      const op = await unknown()
      await resolve(op, outcome, 'approver')
      const [entry] = await auditOf(engine.context, engine.organizationId, 1)
      expect(entry).toMatchObject({ user_id: engine.caller('approver').userId, run_id: op.key.runId })
      expect(await engine.wakesOf(op.key.runId)).toEqual([{ key: 's#-1', by: entry?.user_id }])
    },
  )
})

describe('refused, and nothing changes:', () => {
  const waiting = async () => opOf(await engine.run())
  const after = async (make: () => Promise<ResolvedCall>, act: (op: ResolvedCall) => Promise<unknown>) => {
    const op = await make()
    await act(op)
    return op
  }
  const underWay = () => after(waiting, (op) => engine.go(op))
  const resolved = () => after(unknown, (op) => resolve(op, 'retry'))
  const ended = () => after(unknown, ({ key }) => engine.finish(key.runId, 'cancelled'))
  test.each<[string, string, () => Promise<ResolvedCall>, BootstrapName, object]>([
    ['a member', 'insufficient_role', unknown, 'member', {}],
    ['a viewer', 'insufficient_role', unknown, 'viewer', {}],
    ['an unknown run', 'not_found', unknown, 'admin', { runId: 'run_none' }],
    ['an unknown step', 'not_found', unknown, 'admin', { stepId: 'zz' }],
    ['an item that is not there', 'bad_transition', unknown, 'admin', { items: 3 }],
    ['a call that has not begun', 'bad_transition', waiting, 'admin', {}],
    ['a call under way', 'bad_transition', underWay, 'admin', {}],
    ['one that is resolved already', 'bad_transition', resolved, 'admin', {}],
    ['one of a run that has ended', 'bad_transition', ended, 'admin', {}],
  ])('%s → %s', async (_name, code, prepare, by, over) => {
    const op = await prepare()
    const before = await engine.effectOf(op)
    for (const outcome of ['retry', 'done', 'fail'] as const)
      await expect(resolve(op, outcome, by, over)).rejects.toMatchObject({ code })
    expect(await engine.effectOf(op)).toEqual(before)
  })
})

describe('several callers in two processes choose at the same time', () => {
  let processes: readonly Context[]
  beforeAll(() => void (processes = [engine.context, engine.another()]))

  type Choice = ResolveRequest['outcome']
  const choices: readonly Choice[] = ['retry', 'done', 'fail']
  const deciders: readonly BootstrapName[] = ['admin', 'approver', 'owner']

  const unknown = async () => engine.lose(opOf(await engine.run()))
  const resolve = (op: ResolvedCall, n: number, over: Partial<ResolveRequest> = {}) =>
    resolveStep(processes[n % 2] as Context, {
      caller: engine.caller(deciders[n % 3] as BootstrapName),
      runId: op.key.runId,
      stepId: 's',
      items: null,
      outcome: choices[(n >> 1) % 3] as Choice,
      output: { message_id: String(n), accepted: [] },
      ...over,
    })

  /** The error codes of the refused calls, and the indexes of the successful calls. */
  async function race(calls: readonly Promise<unknown>[]): Promise<{ won: number[]; codes: Set<string> }> {
    const settled = await Promise.allSettled(calls)
    return {
      won: settled.flatMap(({ status }, n) => (status === 'fulfilled' ? [n] : [])),
      codes: new Set(
        settled.flatMap((each) => (each.status === 'rejected' ? [String(each.reason.code)] : [])),
      ),
    }
  }

  /** The choices of people: one audit entry for each call. */
  const settlements = (runId: string) =>
    engine.context.db
      .selectFrom('audit_events')
      .select('user_id')
      .where('organization_id', '=', engine.organizationId)
      .where('run_id', '=', runId)
      .where('event_type', '=', 'tool_call.resolved')
      .execute()

  test('one call: exactly one of twelve choices counts, and it is the one that is recorded', async () => {
    for (let round = 0; round < 6; round += 1) {
      const op = await unknown()
      const { won, codes } = await race(Array.from({ length: 12 }, (_, n) => resolve(op, n)))
      expect({ won: won.length, codes }).toEqual({ won: 1, codes: new Set(['bad_transition']) })
      const winner = won[0] as number
      const outcome = choices[(winner >> 1) % 3]
      const effect = await engine.effectOf(op)
      const run = await engine.runOf(op.key.runId)
      expect([
        effect?.state,
        effect?.resolved_outcome,
        run.nodes_executed,
        run.nodes_failed,
        run.status,
      ]).toEqual(
        { retry: ['unknown_outcome', 'retry', 0, 0, 'paused'], done: ['completed', null, 1, 0, 'running'], fail: ['failed', null, 0, 1, 'running'] }[outcome as Choice], // prettier-ignore
      )
      if (outcome === 'done')
        expect(await engine.keptOutput(op)).toEqual({ message_id: String(winner), accepted: [] })
      const by = engine.caller(deciders[winner % 3] as BootstrapName).userId
      expect(await settlements(op.key.runId)).toEqual([{ user_id: by }])
      expect(await engine.wakesOf(op.key.runId)).toEqual([{ key: 's#-1', by }])
    }
  })

  test('choices for the first attempt, while it is made again and lost again: none settles the second attempt', async () => {
    for (let round = 0; round < 6; round += 1) {
      const op = await unknown()
      await resolve(op, 0, { outcome: 'retry', attempt: 1 })
      const late = Array.from({ length: 8 }, (_, n) => resolve(op, n, { attempt: 1 }))
      const { codes } = await race(round % 2 === 0 ? [loseAgain(op), ...late] : [...late, loseAgain(op)])
      expect([...codes].filter((code) => code !== 'bad_transition' && code !== 'conflict')).toEqual([])
      expect(await engine.effectOf(op)).toMatchObject({ state: 'unknown_outcome', attempt: 2, resolved_outcome: null }) // prettier-ignore
      expect(await settlements(op.key.runId)).toHaveLength(1)
    }
  })

  test('items: overlapping choices settle each item once, or none of theirs', async () => {
    const [runId, ops] = await engine.items(8)
    for (const op of ops) await engine.lose(op)
    const sets: readonly ResolveRequest['items'][] = [
      'all',
      [0, 1, 2],
      [2, 3],
      [4, 5, 6, 7],
      6,
      [7, 0],
      [1],
      'all',
    ]
    const { codes } = await race(
      sets.map((items, n) =>
        resolve(ops[0] as ResolvedCall, n, { items, outcome: n % 2 === 0 ? 'done' : 'fail' }),
      ),
    )
    expect([...codes].filter((code) => code !== 'bad_transition')).toEqual([])
    const before = await settlements(runId)
    const run = await engine.runOf(runId)
    expect(before).toHaveLength(run.nodes_executed + run.nodes_failed)
    // If any items are still unknown, resolve all remaining items of the step.
    if (run.status === 'paused') await resolve(ops[0] as ResolvedCall, 0, { items: 'all', outcome: 'fail' })
    expect(await settlements(runId)).toHaveLength(8)
    expect(await engine.runOf(runId)).toMatchObject({ status: 'running' })
  })

  test('a late answer, a cancellation and choices: one of them settles the call, and the counters agree', async () => {
    for (let round = 0; round < 6; round += 1) {
      const op = await unknown()
      const calls = [
        ...Array.from({ length: 4 }, (_, n) => resolve(op, n)),
        engine.record(outcomeOf(op, 1, 'completed')),
        cancelRun(processes[round % 2] as Context, { caller: engine.caller('member'), runId: op.key.runId }),
      ]
      const { codes } = await race(round % 2 === 0 ? calls : calls.toReversed())
      expect([...codes].filter((code) => code !== 'bad_transition')).toEqual([])
      const run = await engine.runOf(op.key.runId)
      const effect = await engine.effectOf(op)
      const ended = { completed: [1, 0], failed: [0, 1] }[effect?.state as string] ?? [0, 0]
      expect([run.nodes_executed, run.nodes_failed]).toEqual(ended)
      if (run.finished_at === null)
        expect(run.status).toBe(effect?.state === 'unknown_outcome' ? 'paused' : 'running')
      expect((await settlements(op.key.runId)).length).toBeLessThanOrEqual(1)
    }
  })

  test('a choice and the end of its run: an ended run is never changed by it', async () => {
    for (let round = 0; round < 6; round += 1) {
      const op = await unknown()
      const end = engine.finish(op.key.runId, 'cancelled')
      const [ended, resolved] = await Promise.allSettled([end, resolve(op, 1 + 2 * round)])
      expect(ended.status).toBe('fulfilled')
      if (resolved.status === 'rejected') expect(resolved.reason).toMatchObject({ code: 'bad_transition' })
      const run = await engine.runOf(op.key.runId)
      expect(run.finished_at).not.toBeNull()
      expect(run.nodes_executed + run.nodes_failed).toBeLessThanOrEqual(1)
    }
  })
})

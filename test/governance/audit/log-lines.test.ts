import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals'
import { pino } from 'pino'
import { auditEvents } from '../../../src/contract/audit-events.ts'
import { logEntries } from '../../../src/governance/audit/log-lines.ts'
import type { EntryDraft } from '../../../src/governance/audit/entry.ts'
import { expireDue } from '../../../src/governance/approvals/expire.ts'
import { changeQuota } from '../../../src/governance/limits/quota.ts'
import { expandStep } from '../../../src/calls/runs/items.ts'
import { resolveStep, type ResolveRequest } from '../../../src/calls/runs/resolve.ts'
import { finishRun } from '../../../src/governance/runs/end/finish.ts'
import { enterRun } from '../../../src/governance/runs/start/enter.ts'
import {
  approvalsOf,
  denyRule,
  effectOf,
  go,
  hold,
  holdRule,
  makeLate,
  mark,
  opOf,
  outcomeOf,
  useEngine,
  type Engine,
  type ResolvedCall,
} from '../runs/engine-fixture.ts'

/** The lines that the log file would contain for these entries. */
function linesOf(level: string, drafts: readonly EntryDraft[]) {
  const lines: Record<string, unknown>[] = []
  const log = pino(
    { level, base: null, timestamp: false },
    { write: (line) => void lines.push(JSON.parse(line)) },
  )
  logEntries(log, 'org_1', drafts, (runId) => (runId === 'run_1' ? 'req-of-run' : null))
  return lines
}

const person = { type: 'user', id: 'usr_1', apiKeyId: 'key_1', ip: '10.1.2.3', requestId: 'req-1' } as const
const run = { type: 'system', id: 'run_1' } as const
const call = (state: string, more: EntryDraft['metadata'] = {}): EntryDraft => ({
  eventType: `tool_call.${state}`,
  action: 'mail_send',
  status: state,
  actor: run,
  workflowId: 'wf_1',
  runId: 'run_1',
  durationMs: 12,
  metadata: {
    step_id: 'send',
    item_index: null,
    attempt: 1,
    decision_id: 'dec_1',
    params_hash: 'abc',
    ...more,
  },
})

test('a vote names the person, the request, the run, the step and the approval', () => {
  const about = { approval_id: 'apr_1', step_id: 'send', item_index: 7, counting: 1, needed: 1 }
  const vote = {
    eventType: 'approval.granted',
    action: 'approve',
    status: 'approved',
    actor: person,
    workflowId: 'wf_1',
    runId: 'run_1',
    metadata: { ...about, params_hash: 'abc' },
    logged: { tool: 'mail_send' },
  }
  // An agent chooses the names of its tools, so these names are not logged.
  const ofAgent = { ...vote, logged: { tool: 'Secret name' } }
  expect(linesOf('info', [ofAgent])[0]).not.toHaveProperty('tool')
  expect(linesOf('info', [vote])).toEqual([
    {
      level: 30,
      msg: 'approval granted',
      event: 'approval.granted',
      status: 'approved',
      organization_id: 'org_1',
      request_id: 'req-1',
      workflow_id: 'wf_1',
      run_id: 'run_1',
      user_id: 'usr_1',
      tool: 'mail_send',
      ...about,
    },
  ])
})

test('a failed call has the code of its error and the request that started its run', () => {
  expect(linesOf('info', [call('failed', { error_code: 'timeout' })])).toEqual([
    expect.objectContaining({ msg: 'tool call failed', error_code: 'timeout', step_id: 'send', request_id: 'req-of-run', duration_ms: 12, tool: 'mail_send' }),
  ]) // prettier-ignore
})

test('the end of a run has the step and the code that ended it', () => {
  const end: EntryDraft = {
    eventType: 'workflow.execute',
    action: 'finish',
    status: 'failed',
    actor: { type: 'user', id: 'usr_1' },
    runId: 'run_2',
    metadata: { nodes_executed: 1, nodes_failed: 1, input_hash: 'abc' },
    logged: { request_id: 'req-2', step_id: 'send', error_code: 'timeout' },
  }
  expect(linesOf('info', [end])).toEqual([
    expect.objectContaining({ msg: 'run ended', status: 'failed', request_id: 'req-2', step_id: 'send', error_code: 'timeout', nodes_failed: 1 }),
  ]) // prettier-ignore
})

describe('levels', () => {
  const wordsAt = (level: string, ...drafts: EntryDraft[]) => linesOf(level, drafts).map(({ msg }) => msg)

  test('single calls are shown with `debug` only, retries and unknown outcomes always', () => {
    const calls = ['decided', 'completed', 'retry', 'unknown_outcome'].map((state) => call(state))
    expect(wordsAt('debug', ...calls)).toEqual(['tool call decided', 'tool call completed', 'tool call retry', 'tool call unknown outcome']) // prettier-ignore
    expect(wordsAt('info', ...calls)).toEqual(['tool call retry', 'tool call unknown outcome'])
    expect(wordsAt('warn', ...calls)).toEqual(['tool call unknown outcome'])
  })

  test('one of the items of a step fails at `debug`: its step has a line', () => {
    expect(wordsAt('info', call('failed', { item_index: 3 }))).toEqual([])
    expect(wordsAt('debug', call('failed', { item_index: 3 }))).toEqual(['tool call failed'])
  })
})

test('no field of any event shows a name, a reason, a label, a hash or a value that people choose', () => {
  const secret = 'planted7f3a'
  // Fields that hold an id, a count, or a value that the service itself chooses.
  const ours =
    /(_id|_index|_by|count|items|counting|needed|value|limit|version|attempt|risk|outcome|code|nodes_\w+)$/
  const drafts = Object.entries(auditEvents).map(([eventType, { metadata }]): EntryDraft => ({
    eventType,
    action: secret,
    status: 'success',
    actor: { type: 'user', id: 'usr_1', ip: secret },
    metadata: Object.fromEntries(Object.keys(metadata).map((name) => [name, ours.test(name) ? 'x' : secret])),
  }))
  const lines = linesOf('debug', drafts)
  expect(lines.length).toBe(drafts.length)
  expect(lines.filter((line) => JSON.stringify(line).includes(secret))).toEqual([])
})

/* Lines at `info` that operators look for after a change of a run, a call or an approval. */

let engine: Engine
useEngine((started) => (engine = started))

type LogLine = Readonly<Record<string, unknown>> & { readonly msg: string }

/** The lines at `info` that the context logs while `act` runs. Nothing is written. */
async function infoOf(act: () => Promise<unknown>): Promise<readonly LogLine[]> {
  const { log } = engine.context
  const before = log.level
  log.level = 'info'
  const lines: LogLine[] = []
  const note = (fields: object, msg = ''): void => void lines.push({ ...fields, msg })
  const info = jest.spyOn(log, 'info').mockImplementation(note as never)
  const others = (['warn', 'error'] as const).map((each) =>
    jest.spyOn(log, each).mockImplementation(() => {}),
  )
  try {
    await act()
  } finally {
    for (const spy of [info, ...others]) spy.mockRestore()
    log.level = before
  }
  return lines
}
const words = (lines: readonly LogLine[]): string[] => lines.map(({ msg }) => msg)
const byRule = { error_code: 'run_denied', step_id: 's', rule_id: expect.stringMatching(/^rule_/) }
const mail = { id: 's', tool: 'mail_send', params: { to: 'a@b.test', subject: 'x', text: 'y' } }

describe('a person resolves an unknown outcome', () => {
  const lose = async (op: ResolvedCall): Promise<void> => {
    await go(engine, op)
    await mark(engine.context, op, 1)
    await engine.record(outcomeOf(op, 1, 'unknown_outcome'))
  }
  const resolve = (
    runId: string,
    outcome: ResolveRequest['outcome'],
    items: ResolveRequest['items'] = null,
  ) => resolveStep(engine.context, { caller: engine.caller('approver'), runId, stepId: 's', items, outcome })

  test.each(['done', 'retry', 'fail'] as const)(
    '%s: one line names the person and the choice',
    async (outcome) => {
      const op = opOf(await engine.run())
      await lose(op)
      const decisionId = (await effectOf(engine.context, op))?.decision_id
      const lines = await infoOf(() => resolve(op.key.runId, outcome))
      expect(lines.filter(({ msg }) => msg === 'tool call resolved')).toEqual([
        expect.objectContaining({
          ...{ status: outcome, outcome, user_id: engine.caller('approver').userId, run_id: op.key.runId },
          ...{ step_id: 's', attempt: 1, decision_id: decisionId, tool: 'mail_send' },
        }),
      ])
    },
  )

  test('all items: one line for each item', async () => {
    const items = { steps: [{ id: 's', tool: 'memory_get', params: { key: 'k' }, for_each: [1, 2, 3] }] }
    const runId = await engine.run(items)
    await expandStep(engine.context, runId, 's')
    for (const item of [0, 1, 2]) await lose(opOf(runId, { item }))
    const lines = await infoOf(() => resolve(runId, 'fail', 'all'))
    const { userId: user_id } = engine.caller('approver')
    const resolved = { msg: 'tool call resolved', outcome: 'fail', step_id: 's', user_id }
    expect(lines).toEqual([0, 1, 2].map((item_index) => expect.objectContaining({ ...resolved, item_index })))
  })
})

describe('lines about an approval', () => {
  beforeEach(() => engine.rules(holdRule()))
  afterEach(() => engine.settings({ approval_threshold: 1 }))

  test.each<[string, (approvalId: string) => Promise<unknown>]>([
    ['approval granted', (id) => engine.vote(id, 'admin')],
    ['approval rejected', (id) => engine.vote(id, 'admin', 'reject')],
    [
      'approval voted',
      (id) => engine.settings({ approval_threshold: 2 }).then(() => engine.vote(id, 'admin')),
    ],
    ['approval expired', (id) => makeLate(engine.context, id).then(() => expireDue(engine.context))],
  ])('`approval requested` and `%s` name the decision, the step and the item', async (msg, act) => {
    const op = opOf(await engine.run(), { item: 3 })
    let approvalId = ''
    const lines = await infoOf(async () => {
      approvalId = await hold(engine, op)
      await act(approvalId)
    })
    const decision_id = (await effectOf(engine.context, op))?.decision_id
    expect(decision_id).toMatch(/^dec_/)
    const about = { approval_id: approvalId, decision_id, step_id: 's', item_index: 3, run_id: op.key.runId }
    expect(lines.filter((line) => line.msg.startsWith('approval '))).toEqual([
      expect.objectContaining({ msg: 'approval requested', ...about }),
      expect.objectContaining({ msg, ...about }),
    ])
  })
})

describe('a whole run that is', () => {
  beforeEach(() => engine.settings({ approval_required_from: 'low' }))
  afterEach(() => engine.settings({ approval_required_from: null }))

  test.each<[string, (approvalId: string) => Promise<unknown>]>([
    ['rejected', (id) => engine.vote(id, 'admin', 'reject')],
    ['expired', (id) => makeLate(engine.context, id)],
  ])('%s ends with a code, and with no step', async (status, act) => {
    const runId = await engine.run()
    await act((await approvalsOf(engine.context, runId))[0]?.id ?? '')
    const lines = await infoOf(() => enterRun(engine.context, runId))
    const [end] = lines.filter(({ msg }) => msg === 'run ended')
    expect(end).toMatchObject({ run_id: runId, status, error_code: status })
    expect(end).not.toHaveProperty('step_id')
  })

  test('denied by a rule that was saved meanwhile ends with the code, the step and the rule', async () => {
    const runId = await engine.run({ steps: [mail] })
    await engine.vote((await approvalsOf(engine.context, runId))[0]?.id ?? '', 'admin')
    await engine.rules(denyRule())
    const lines = await infoOf(() => enterRun(engine.context, runId))
    await engine.rules()
    expect(lines.filter(({ msg }) => msg === 'run ended')).toEqual([
      expect.objectContaining({ ...byRule, run_id: runId, status: 'denied' }),
    ])
  })
})

test('a run that a rule refuses names the rule and the step', async () => {
  await engine.rules(denyRule())
  const lines = await infoOf(() =>
    expect(engine.run({ steps: [mail] })).rejects.toMatchObject({ code: 'run_denied' }),
  )
  expect(lines.filter(({ msg }) => msg === 'workflow refused')).toEqual([expect.objectContaining(byRule)])
})

test('a queued run has one line when it gets its slot, and none while it waits', async () => {
  await changeQuota(engine.context, engine.caller('owner'), { concurrent_executions: 1 })
  const open = engine.context.db.selectFrom('runs').select('id').where('finished_at', 'is', null)
  for (const { id } of await open.execute()) await finishRun(engine.context, { runId: id, status: 'failed' })
  const first = await engine.run()
  let queued = ''
  expect(words(await infoOf(async () => (queued = await engine.run())))).toEqual([
    'workflow deployed',
    'run accepted',
  ])
  const lines = await infoOf(() => finishRun(engine.context, { runId: first, status: 'failed' }))
  expect(lines.filter(({ run_id }) => run_id === queued)).toEqual([
    expect.objectContaining({
      msg: 'queued run starts',
      organization_id: engine.organizationId,
      workflow_id: expect.stringMatching(/^wf_/),
    }),
  ])
})

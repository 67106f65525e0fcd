import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import { expireDue } from '../../../src/governance/approvals/expire.ts'
import { changeQuota } from '../../../src/governance/limits/quota.ts'
import { expandStep } from '../../../src/governance/runs/effects/items.ts'
import { resolveStep, type ResolveRequest } from '../../../src/governance/runs/effects/resolve.ts'
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
  type StepOp,
} from '../runs/engine-fixture.ts'
import { loggedBy, type LogLine } from '../support.ts'

/* Lines at `info` that operators look for after a change of a run, a call or an approval. */

let engine: Engine
useEngine((started) => (engine = started))

const linesOf = async (act: () => Promise<unknown>): Promise<readonly LogLine[]> =>
  (await loggedBy(engine.context, act)).filter(({ level }) => level === 'info')
const words = (lines: readonly LogLine[]): string[] => lines.map(({ msg }) => msg)
const mail = { id: 's', tool: 'mail_send', params: { to: 'a@b.test', subject: 'x', text: 'y' } }

describe('a person resolves an unknown outcome', () => {
  const lose = async (op: StepOp): Promise<void> => {
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
      const lines = await linesOf(() => resolve(op.key.runId, outcome))
      expect(lines.filter(({ msg }) => msg === 'tool call resolved')).toEqual([
        expect.objectContaining({
          status: outcome,
          outcome,
          user_id: engine.caller('approver').userId,
          run_id: op.key.runId,
          step_id: 's',
          attempt: 1,
          decision_id: decisionId,
          tool: 'mail_send',
        }),
      ])
    },
  )

  test('all items: one line for each item', async () => {
    const items = { steps: [{ id: 's', tool: 'memory_get', params: { key: 'k' }, for_each: [1, 2, 3] }] }
    const runId = await engine.run(items)
    await expandStep(engine.context, runId, 's')
    for (const item of [0, 1, 2]) await lose(opOf(runId, { item }))
    const lines = await linesOf(() => resolve(runId, 'fail', 'all'))
    const user_id = engine.caller('approver').userId
    expect(lines).toEqual(
      [0, 1, 2].map((item_index) =>
        expect.objectContaining({
          msg: 'tool call resolved',
          outcome: 'fail',
          step_id: 's',
          item_index,
          user_id,
        }),
      ),
    )
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
      async (id) => {
        await engine.settings({ approval_threshold: 2 })
        await engine.vote(id, 'admin')
      },
    ],
    [
      'approval expired',
      async (id) => {
        await makeLate(engine.context, id)
        await expireDue(engine.context)
      },
    ],
  ])('`approval requested` and `%s` name the decision, the step and the item', async (msg, act) => {
    const op = opOf(await engine.run(), { item: 3 })
    let approvalId = ''
    const lines = await linesOf(async () => {
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
    const lines = await linesOf(() => enterRun(engine.context, runId))
    const [end] = lines.filter(({ msg }) => msg === 'run ended')
    expect(end).toMatchObject({ run_id: runId, status, error_code: status })
    expect(end).not.toHaveProperty('step_id')
  })

  test('denied by a rule that was saved meanwhile ends with the code, the step and the rule', async () => {
    const runId = await engine.run({ steps: [mail] })
    await engine.vote((await approvalsOf(engine.context, runId))[0]?.id ?? '', 'admin')
    await engine.rules(denyRule())
    const lines = await linesOf(() => enterRun(engine.context, runId))
    await engine.rules()
    expect(lines.filter(({ msg }) => msg === 'run ended')).toEqual([
      expect.objectContaining({
        run_id: runId,
        status: 'denied',
        error_code: 'run_denied',
        step_id: 's',
        rule_id: expect.stringMatching(/^rule_/),
      }),
    ])
  })
})

test('a run that a rule refuses names the rule and the step', async () => {
  await engine.rules(denyRule())
  const lines = await linesOf(() =>
    expect(engine.run({ steps: [mail] })).rejects.toMatchObject({ code: 'run_denied' }),
  )
  expect(lines.filter(({ msg }) => msg === 'workflow refused')).toEqual([
    expect.objectContaining({
      error_code: 'run_denied',
      step_id: 's',
      rule_id: expect.stringMatching(/^rule_/),
    }),
  ])
})

test('a queued run has one line when it gets its slot, and none while it waits', async () => {
  await changeQuota(engine.context, engine.caller('owner'), { concurrent_executions: 1 })
  const open = engine.context.db.selectFrom('runs').select('id').where('finished_at', 'is', null)
  for (const { id } of await open.execute()) await finishRun(engine.context, { runId: id, status: 'failed' })
  const first = await engine.run()
  let queued = ''
  expect(words(await linesOf(async () => (queued = await engine.run())))).toEqual([
    'workflow deployed',
    'run accepted',
  ])
  const lines = await linesOf(() => finishRun(engine.context, { runId: first, status: 'failed' }))
  expect(lines.filter(({ run_id }) => run_id === queued)).toEqual([
    expect.objectContaining({
      msg: 'queued run starts',
      organization_id: engine.organizationId,
      workflow_id: expect.stringMatching(/^wf_/),
    }),
  ])
})

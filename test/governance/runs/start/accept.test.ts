import { beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { workflowDefinition } from '../../../../src/contract/definition.ts'
import { acceptRun } from '../../../../src/governance/runs/start/accept.ts'
import { cancelRun } from '../../../../src/governance/runs/end/cancel.ts'
import { enterRun } from '../../../../src/governance/runs/start/enter.ts'
import { finishRun } from '../../../../src/governance/runs/end/finish.ts'
import { openInputs } from '../../../../src/governance/runs/values/run-snapshot.ts'
import { readRun } from '../whole-run.ts'
import { createWorkflow } from '../../../../src/governance/workflows/workflows.ts'
import type { JsonObject } from '../../../../src/policy/types.ts'
import { auditOf } from '../../support.ts'
import {
  approvalsOf,
  denyRule,
  effectOf,
  eventsOf,
  go,
  hold,
  holdRule,
  makeLate,
  opOf,
  outcomeOf,
  runOf,
  useEngine,
  stepOf,
  type Engine,
} from '../engine-fixture.ts'

let engine: Engine
let workflowId: string
useEngine((started) => (engine = started))
beforeAll(async () => {
  const definition = workflowDefinition.parse({
    inputs: { to: { type: 'string', required: true }, copies: { type: 'number', default: 1 } },
    steps: [{ id: 's', tool: 'mail_send', params: { to: '{{input.to}}', subject: 'x', text: 'y' } }],
  })
  workflowId = (
    await createWorkflow(engine.context, engine.caller('member'), { name: 'w', description: '', definition })
  ).id
})
beforeEach(() => engine.settings({ approval_required_from: null, approval_threshold: 1 }))

const accept = (inputs: JsonObject, over: object = {}) =>
  acceptRun(engine.context, { caller: engine.caller('member'), workflowId, inputs, ...over })
const countRuns = async () =>
  Number((await engine.context.pool.query('select count(*) from runs')).rows[0].count)
const outboxOf = (runId: string) =>
  engine.context.db.selectFrom('outbox').select('kind').where('run_id', '=', runId).orderBy('id').execute()

describe('accepting a run', () => {
  test('stores the run, its steps, an audit entry and the outbox row, with defaults filled in', async () => {
    const { runId } = await accept({ to: 'a@b.test' })
    const run = await runOf(engine.context, runId)
    expect(run).toMatchObject({
      status: 'queued',
      time_zone: 'UTC',
      requested_by: engine.caller('member').userId,
    })
    expect(await openInputs(engine.context, run)).toEqual({ to: 'a@b.test', copies: 1 })
    expect(await stepOf(engine.context, runId)).toMatchObject({ status: 'pending', tool: 'mail_send' })
    expect(await outboxOf(runId)).toEqual([{ kind: 'run.start' }])
    expect(await auditOf(engine.context, engine.organizationId, 1)).toMatchObject([
      { event_type: 'workflow.execute', run_id: runId, status: 'accepted' },
    ])
    expect(await eventsOf(engine.context, runId)).toEqual(['run.queued'])
  })

  test.each([
    ['an input that is missing', {}, {}, 'validation_error', 'input `to` is required'],
    [
      'one of another type',
      { to: 7 },
      {},
      'validation_error',
      'input `to` must be of type string, not number',
    ],
    ['an unknown input', { to: 'a@b.test', bcc: 'x' }, {}, 'validation_error', 'no input `bcc`'],
    [
      'an unknown time zone',
      { to: 'a@b.test' },
      { timeZone: 'Mars/Olympus' },
      'validation_error',
      '`Mars/Olympus`',
    ],
    ['an unknown version', { to: 'a@b.test' }, { version: 9 }, 'not_found', '9'],
    ['an unknown workflow', { to: 'a@b.test' }, { workflowId: 'wf_none' }, 'not_found', '`wf_none`'],
  ])('refuses %s with a message', async (_name, inputs, over, code, message) => {
    const before = await countRuns()
    await expect(accept(inputs as JsonObject, over)).rejects.toMatchObject({
      code,
      message: expect.stringContaining(message),
    })
    expect(await countRuns()).toBe(before)
  })

  test('refuses a run that a rule would certainly deny: an audit entry and no run', async () => {
    await engine.rules(
      denyRule({ params: [{ param: 'to', operator: 'domain_not_in', value: ['acme.com'] }] }),
    )
    const before = await countRuns()
    await expect(accept({ to: 'a@evil.test' })).rejects.toMatchObject({
      code: 'run_denied',
      details: [{ path: 'steps.s', message: 'denied by `deny`' }],
    })
    expect(await countRuns()).toBe(before)
    const [entry] = await auditOf(engine.context, engine.organizationId, 1)
    expect(entry).toMatchObject({ event_type: 'workflow.refused', status: 'denied', run_id: null })
    expect(JSON.stringify(entry)).not.toContain('evil.test')
    await accept({ to: 'a@acme.com' })
  })

  test('refuses a run that a rule holds while approvals are off, and says how to turn them on', async () => {
    await engine.settings({ approvals_enabled: false })
    await engine.rules(holdRule())
    try {
      await expect(accept({ to: 'a@b.test' })).rejects.toMatchObject({
        code: 'run_denied',
        message:
          'step `s` would be denied by `hold`: nothing was started; approvals are off: set `approvals_enabled`',
        details: [
          { path: 'steps.s', message: 'denied by `hold`; approvals are off: set `approvals_enabled`' },
        ],
      })
    } finally {
      await engine.settings({ approvals_enabled: true })
    }
  })

  test('the same key of the same person gets the same run, also concurrently', async () => {
    const other = engine.another()
    const request = {
      caller: engine.caller('member'),
      workflowId,
      inputs: { to: 'a@b.test' },
      idempotencyKey: 'k1',
    }
    const answers = await Promise.all([
      acceptRun(engine.context, request),
      acceptRun(other, request),
      acceptRun(engine.context, request),
    ])
    expect(new Set(answers.map(({ runId }) => runId)).size).toBe(1)
    const someoneElse = await accept(
      { to: 'a@b.test' },
      { caller: engine.caller('admin'), idempotencyKey: 'k1' },
    )
    expect(someoneElse.runId).not.toBe(answers[0]?.runId)
    expect(await outboxOf(answers[0]?.runId ?? '')).toHaveLength(1)
  })
})

describe('a run at or above the risk that needs approval', () => {
  beforeEach(() => engine.settings({ approval_required_from: 'high' }))
  const gated = async () => {
    const { runId } = await accept({ to: 'a@b.test' })
    return { runId, approvalId: (await approvalsOf(engine.context, runId))[0]?.id ?? '' }
  }

  test('waits with a reason, and starts once after its approval', async () => {
    const { runId, approvalId } = await gated()
    expect(await runOf(engine.context, runId)).toMatchObject({
      status: 'awaiting_approval',
      started_at: null,
    })
    expect((await runOf(engine.context, runId)).status_reason).toContain('its risk is high')
    expect(await enterRun(engine.context, runId)).toMatchObject({ state: 'wait' })
    await engine.vote(approvalId, 'admin')
    expect(await enterRun(engine.context, runId)).toEqual({ state: 'go' })
    expect(await enterRun(engine.context, runId)).toEqual({ state: 'go' })
    expect((await approvalsOf(engine.context, runId))[0]).toMatchObject({ used_by: runId })
    const events = await eventsOf(engine.context, runId)
    expect(events.filter((type) => type === 'run.started')).toHaveLength(1)
  })

  test('below it starts at once, and with approvals off nothing waits', async () => {
    await engine.settings({ approval_required_from: 'critical' })
    expect((await runOf(engine.context, (await accept({ to: 'a@b.test' })).runId)).status).toBe('queued')
    await engine.settings({ approval_required_from: 'low', approvals_enabled: false })
    expect((await runOf(engine.context, (await accept({ to: 'a@b.test' })).runId)).status).toBe('queued')
    await engine.settings({ approvals_enabled: true })
  })

  test('decides none of its calls before its approval', async () => {
    const { runId } = await gated()
    await expect(engine.decide(opOf(runId))).rejects.toMatchObject({ code: 'conflict' })
    expect(await effectOf(engine.context, opOf(runId))).toBeUndefined()
  })

  test.each(['rejected', 'expired'] as const)('%s ends it', async (how) => {
    const { runId, approvalId } = await gated()
    if (how === 'rejected') await engine.vote(approvalId, 'admin', 'reject')
    else await makeLate(engine.context, approvalId)
    expect(await enterRun(engine.context, runId)).toEqual({ state: 'ended' })
    const why =
      how === 'rejected' ? '`admin@countersign.test` rejected the run' : 'nobody approved the run in time'
    expect(await runOf(engine.context, runId)).toMatchObject({ status: how, status_reason: why })
    expect(await stepOf(engine.context, runId)).toMatchObject({ status: 'cancelled' })
    expect((await approvalsOf(engine.context, runId))[0]).toMatchObject({ status: how })
  })

  test('waits for more votes if the organization now needs more', async () => {
    const { runId, approvalId } = await gated()
    await engine.vote(approvalId, 'admin')
    await engine.settings({ approval_threshold: 2 })
    expect(await enterRun(engine.context, runId)).toMatchObject({ state: 'wait' })
    await engine.vote(approvalId, 'approver')
    expect(await enterRun(engine.context, runId)).toEqual({ state: 'go' })
  })
})

describe('cancelling', () => {
  const cancel = (runId: string, name: Parameters<Engine['caller']>[0] = 'member') =>
    cancelRun(engine.context, { caller: engine.caller(name), runId })

  test.each(['queued', 'running', 'paused', 'awaiting_approval'] as const)(
    'a run that is %s starts no more calls, and its approvals are withdrawn',
    async (status) => {
      if (status === 'paused') await engine.rules(holdRule())
      if (status === 'awaiting_approval') await engine.settings({ approval_required_from: 'low' })
      const { runId } = await accept({ to: 'a@b.test' })
      const op = opOf(runId)
      if (status === 'running') await go(engine, op)
      if (status === 'paused') await hold(engine, op)
      expect((await runOf(engine.context, runId)).status).toBe(status)
      await cancel(runId)
      await cancel(runId)
      expect(await outboxOf(runId)).toEqual([{ kind: 'run.start' }, { kind: 'run.cancel' }])
      for (const approval of await approvalsOf(engine.context, runId))
        expect(approval.status).toBe('cancelled')
      if (status === 'awaiting_approval')
        expect(await enterRun(engine.context, runId)).toEqual({ state: 'ended' })
      else expect(await engine.decide(op)).toMatchObject({ go: false, state: 'cancelled' })
      await finishRun(engine.context, { runId, status: 'cancelled' })
      expect(await runOf(engine.context, runId)).toMatchObject({ status: 'cancelled', status_reason: expect.stringMatching(/^the run was cancelled by `/) }) // prettier-ignore
    },
  )

  test('is allowed for the requester and for admins', async () => {
    const { runId } = await accept({ to: 'a@b.test' }, { caller: engine.caller('admin') })
    await expect(cancel(runId, 'member')).rejects.toMatchObject({ code: 'insufficient_role' })
    await cancel(runId, 'approver')
    await expect(cancel('run_none', 'admin')).rejects.toMatchObject({ code: 'not_found' })
  })

  test('a run that has ended is refused', async () => {
    const { runId } = await accept({ to: 'a@b.test' })
    await finishRun(engine.context, { runId, status: 'failed' })
    await expect(cancel(runId)).rejects.toMatchObject({ code: 'bad_transition' })
  })
})

describe('finishing', () => {
  test('happens once; a second report changes nothing', async () => {
    const { runId } = await accept({ to: 'a@b.test' })
    await finishRun(engine.context, { runId, status: 'failed' })
    const before = await runOf(engine.context, runId)
    await finishRun(engine.context, { runId, status: 'cancelled' })
    expect(await runOf(engine.context, runId)).toEqual(before)
  })

  test('as completed needs every step to have ended well', async () => {
    const { runId } = await accept({ to: 'a@b.test' })
    await finishRun(engine.context, { runId, status: 'completed' })
    expect(await runOf(engine.context, runId)).toMatchObject({ status: 'failed' })
    const { runId: cancelled } = await accept({ to: 'a@b.test' })
    await cancelRun(engine.context, { caller: engine.caller('member'), runId: cancelled })
    await finishRun(engine.context, { runId: cancelled, status: 'completed' })
    expect(await runOf(engine.context, cancelled)).toMatchObject({ status: 'cancelled' })
  })

  test.each([
    ['{{s.output}}', 'completed', { it: { ok: true } }],
    // The output of the simulated call has no field `value`.
    ['{{s.output.value}}', 'failed', null],
  ])('resolves the result %s', async (template, status, result) => {
    const runId = await engine.run({
      steps: [{ id: 's', tool: 'memory_get', params: { key: 'k' } }],
      result: { it: template },
    })
    const op = opOf(runId)
    await go(engine, op)
    await engine.record(outcomeOf(op, 1, 'completed'))
    await finishRun(engine.context, { runId, status: 'completed' })
    expect(await readRun(engine.context, engine.organizationId, runId)).toMatchObject({ status, result })
  })
})

import { beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { sql } from 'kysely'
import { workflowDefinition } from '../../../src/contract/definition.ts'
import { acceptRun } from '../../../src/governance/runs/start/accept.ts'
import { cancelRun } from '../../../src/governance/runs/end/cancel.ts'
import { enterRun } from '../../../src/governance/runs/start/enter.ts'
import { openInputs } from '../../../src/governance/runs/values/run-snapshot.ts'
import { createWorkflow } from '../../../src/governance/workflows/workflows.ts'
import type { JsonObject } from '../../../src/policy/types.ts'
import { auditOf, waitsForLock, messagesOf } from '../support.ts'
import {
  denyRule,
  holdRule,
  opOf,
  outcomeOf,
  runOf,
  useEngine,
  type Engine,
  oneStep,
  toolOf,
  type ResolvedCall,
} from './engine-fixture.ts'
import { endCancelled, FailedRuns } from '../../../src/governance/runs/end/end-cancelled.ts'
import { decideSteps } from '../../../src/calls/runs/effect.ts'
import { addOrganization } from '../../api/fixtures.ts'
import { asAdmin } from '../../support/postgres.ts'
import { listRuns } from '../../../src/governance/runs/read/read.ts'
import { readOutputParts } from '../../../src/governance/runs/read/output-parts.ts'

let engine: Engine
useEngine((started) => (engine = started))

let workflowId: string
beforeAll(async () => {
  const definition = workflowDefinition.parse({
    inputs: { to: { type: 'string', required: true }, copies: { type: 'number', default: 1 } },
    steps: [{ id: 's', tool: 'mail_send', params: { to: '{{input.to}}', subject: 'x', text: 'y' } }],
  })
  const body = { name: 'w', description: '', definition }
  workflowId = (await createWorkflow(engine.context, engine.caller('member'), body)).id
})
beforeEach(async () => {
  engine.context.isTemporalAway = false
  await engine.settings({ approvals_enabled: true, approval_required_from: null, approval_threshold: 1 })
})

const accept = (inputs: JsonObject, over: object = {}) =>
  acceptRun(engine.context, { caller: engine.caller('member'), workflowId, inputs, ...over })
const to = { to: 'a@b.test' }
const accepted = async (over: object = {}) => (await accept(to, over)).runId
const countRuns = async () =>
  Number((await engine.context.pool.query('select count(*) from runs')).rows[0].count)
const outboxOf = (runId: string) =>
  messagesOf(engine.context, runId).then((messages) => messages.map(({ kind }) => ({ kind })))

describe('accepting a run', () => {
  test('stores the run, its steps, an audit entry and the outbox row, with defaults filled in', async () => {
    const runId = await accepted()
    const run = await engine.runOf(runId)
    const { userId } = engine.caller('member')
    expect(run).toMatchObject({ status: 'queued', time_zone: 'UTC', requested_by: userId })
    expect(await openInputs(engine.context, run)).toEqual({ to: 'a@b.test', copies: 1 })
    expect(await engine.stepOf(runId)).toMatchObject({ status: 'pending', tool: 'mail_send' })
    expect(await outboxOf(runId)).toEqual([{ kind: 'run.start' }])
    expect(await auditOf(engine.context, engine.organizationId, 1)).toMatchObject([
      { event_type: 'workflow.execute', run_id: runId, status: 'accepted' },
    ])
    expect(await engine.eventsOf(runId)).toEqual(['run.queued'])
  })

  test.each<[string, JsonObject, object, string, string]>([
    ['a missing input', {}, {}, 'validation_error', 'input `to` is required'],
    ['another type', { to: 7 }, {}, 'validation_error', 'input `to` must be of type string, not number'],
    ['an unknown input', { ...to, bcc: 'x' }, {}, 'validation_error', 'no input `bcc`'],
    ['an unknown time zone', to, { timeZone: 'Mars/Olympus' }, 'validation_error', '`Mars/Olympus`'],
    ['an unknown version', to, { version: 9 }, 'not_found', '9'],
    ['an unknown workflow', to, { workflowId: 'wf_none' }, 'not_found', '`wf_none`'],
  ])('refuses %s with a message', async (_name, inputs, over, code, message) => {
    const before = await countRuns()
    const refusal = { code, message: expect.stringContaining(message) }
    await expect(accept(inputs, over)).rejects.toMatchObject(refusal)
    expect(await countRuns()).toBe(before)
  })

  test('refuses a run that a rule would certainly deny: an audit entry and no run', async () => {
    const params = [{ param: 'to', operator: 'domain_not_in', value: ['acme.com'] }]
    await engine.rules(denyRule({ params }))
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
    await expect(accept({ to: 'a@b.test' })).rejects.toMatchObject({
      code: 'run_denied',
      message:
        'step `s` would be denied by `hold`: nothing was started; approvals are off: set `approvals_enabled`',
      details: [{ path: 'steps.s', message: 'denied by `hold`; approvals are off: set `approvals_enabled`' }],
    })
  })

  test('the same key of the same person gets the same run, also concurrently', async () => {
    const elsewhere = engine.another()
    const request = { caller: engine.caller('member'), workflowId, inputs: to, idempotencyKey: 'k1' }
    const answers = await Promise.all([
      acceptRun(engine.context, request),
      acceptRun(elsewhere, request),
      acceptRun(engine.context, request),
    ])
    expect(new Set(answers.map(({ runId }) => runId)).size).toBe(1)
    const other = await accepted({ caller: engine.caller('admin'), idempotencyKey: 'k1' })
    expect(other).not.toBe(answers[0]?.runId)
    expect(await outboxOf(answers[0]?.runId ?? '')).toHaveLength(1)
  })
})

describe('a run at or above the risk that needs approval', () => {
  beforeEach(() => engine.settings({ approval_required_from: 'high' }))
  const gated = async () => {
    const runId = await accepted()
    return { runId, approvalId: (await engine.approvalsOf(runId))[0]?.id ?? '' }
  }

  test('decides none of its calls before its approval', async () => {
    const { runId } = await gated()
    await expect(engine.decide(opOf(runId))).rejects.toMatchObject({ code: 'conflict' })
    expect(await engine.effectOf(opOf(runId))).toBeUndefined()
  })

  test.each(['rejected', 'expired'] as const)('%s ends it', async (how) => {
    const { runId, approvalId } = await gated()
    if (how === 'rejected') await engine.vote(approvalId, 'admin', 'reject')
    else await engine.makeLate(approvalId)
    expect(await enterRun(engine.context, runId)).toEqual({ state: 'ended' })
    const why =
      how === 'rejected' ? '`admin@countersign.test` rejected the run' : 'nobody approved the run in time'
    expect(await engine.runOf(runId)).toMatchObject({ status: how, status_reason: why })
    expect(await engine.stepOf(runId)).toMatchObject({ status: 'cancelled' })
    expect((await engine.approvalsOf(runId))[0]).toMatchObject({ status: how })
  })
})

describe('cancelling', () => {
  test.each(['queued', 'running', 'paused', 'awaiting_approval'] as const)(
    'a run that is %s starts no more calls, and its approvals are withdrawn',
    async (status) => {
      if (status === 'paused') await engine.rules(holdRule())
      if (status === 'awaiting_approval') await engine.settings({ approval_required_from: 'low' })
      const runId = await accepted()
      const op = opOf(runId)
      if (status === 'running') await engine.go(op)
      if (status === 'paused') await engine.hold(op)
      expect((await engine.runOf(runId)).status).toBe(status)
      await engine.cancel(runId)
      await engine.cancel(runId)
      expect(await outboxOf(runId)).toEqual([{ kind: 'run.start' }, { kind: 'run.cancel' }])
      for (const approval of await engine.approvalsOf(runId)) expect(approval.status).toBe('cancelled')
      if (status === 'awaiting_approval')
        expect(await enterRun(engine.context, runId)).toEqual({ state: 'ended' })
      else expect(await engine.decide(op)).toMatchObject({ go: false, state: 'cancelled' })
      await engine.finish(runId, 'cancelled')
      expect(await engine.runOf(runId)).toMatchObject({ status: 'cancelled', status_reason: expect.stringMatching(/^the run was cancelled by `/) }) // prettier-ignore
    },
  )

  test('is allowed for the requester and for admins', async () => {
    const runId = await accepted({ caller: engine.caller('admin') })
    await expect(engine.cancel(runId)).rejects.toMatchObject({ code: 'insufficient_role' })
    await engine.cancel(runId, 'approver')
    await expect(engine.cancel('run_none', 'admin')).rejects.toMatchObject({ code: 'not_found' })
  })

  test('a run that has ended is refused', async () => {
    const runId = await accepted()
    await engine.finish(runId, 'failed')
    await expect(engine.cancel(runId)).rejects.toMatchObject({ code: 'bad_transition' })
  })
})

describe('finishing', () => {
  test('happens once; a second report changes nothing', async () => {
    const runId = await accepted()
    await engine.finish(runId, 'failed')
    const before = await engine.runOf(runId)
    await engine.finish(runId, 'cancelled')
    expect(await engine.runOf(runId)).toEqual(before)
  })

  test('as completed needs every step to have ended well', async () => {
    const runId = await accepted()
    await engine.finish(runId, 'completed')
    expect(await engine.runOf(runId)).toMatchObject({ status: 'failed' })
    const cancelled = await accepted()
    await engine.cancel(cancelled)
    await engine.finish(cancelled, 'completed')
    expect(await engine.runOf(cancelled)).toMatchObject({ status: 'cancelled' })
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
    await engine.go(op)
    await engine.record(outcomeOf(op, 1, 'completed'))
    await engine.finish(runId, 'completed')
    expect(await engine.readRun(runId)).toMatchObject({ status, result })
  })
})

/* Cancelled runs whose workers no longer answer. */

const cancel = (op: ResolvedCall) => engine.cancel(op.key.runId)
const statusOf = async (op: ResolvedCall) => (await engine.runOf(op.key.runId)).status
/** Makes every open cancellation one minute older. */
const later = () =>
  engine.context.pool.query(`update runs set cancel_requested_at = cancel_requested_at - interval '1 minute'
                             where finished_at is null and cancel_requested_at is not null`)

test('a run with no call in progress ends with its cancellation', async () => {
  const op = opOf(await engine.run())
  await cancel(op)
  expect(await statusOf(op)).toBe('cancelled')
  await cancel(op)
  expect(await engine.decide(op)).toMatchObject({ go: false, state: 'cancelled' })
})

test('a call in progress gets a moment to end, then the run ends without it', async () => {
  const op = opOf(await engine.run(), { tool: toolOf('free') })
  await engine.go(op)
  await cancel(op)
  expect(await endCancelled(engine.context)).toBe(0)
  expect(await statusOf(op)).toBe('running')
  await later()
  expect(await endCancelled(engine.context)).toBe(1)
  expect(await statusOf(op)).toBe('cancelled')
  expect(await engine.record(outcomeOf(op, 1, 'completed'))).toBe('cancelled')
  expect(await endCancelled(engine.context)).toBe(0)
})

async function cancelledWhileSent(item = -1): Promise<ResolvedCall> {
  const op = opOf(await engine.run(), { item })
  await engine.go(op)
  await engine.mark(op, 1)
  await cancel(op)
  return op
}
const stepStatusOf = async (op: ResolvedCall) => (await engine.stepOf(op.key.runId)).status

test('a call that may have acted also gets a moment to end; then the run ends, and nothing is sent again', async () => {
  const op = await cancelledWhileSent()
  expect(await endCancelled(engine.context)).toBe(0)
  await later()
  expect(await endCancelled(engine.context)).toBe(1)
  expect(await statusOf(op)).toBe('cancelled')
  expect(await stepStatusOf(op)).toBe('unknown_outcome')
  expect(await engine.decide(op)).toMatchObject({ go: false, state: 'cancelled' })
  expect(await engine.mark(op, 1)).toBe('superseded')
  // Its worker records the outcome in the ended run.
  expect(await engine.record(outcomeOf(op, 1, 'completed'))).toBe('completed')
  expect(await stepStatusOf(op)).toBe('completed')
  expect(await statusOf(op)).toBe('cancelled')
})

test('a late outcome of an item changes the item, but not the ended step', async () => {
  const op = await cancelledWhileSent(0)
  await later()
  await endCancelled(engine.context)
  expect(await engine.record(outcomeOf(op, 1, 'completed'))).toBe('completed')
  expect(await stepStatusOf(op)).toBe('unknown_outcome')
})

/** Moves the cancellation of these runs to this time. */
const cancelledAt = (time: Date, runIds: readonly string[]) =>
  engine.context.pool.query('update runs set cancel_requested_at = $1 where id = any($2)', [time, runIds])

test.each<[string, number, (op: ResolvedCall) => Promise<unknown>]>([
  ['has certainly not acted', 2, () => Promise.resolve()],
  ['may have acted', 3, (op) => engine.mark(op, 1)],
])('a run with a call that %s ends %d s after its cancellation', async (_, seconds, act) => {
  // With a pass each second, this leaves a second until the 5 s that the documentation names.
  expect(seconds + 1).toBeLessThan(5)
  const op = opOf(await engine.run())
  await engine.go(op)
  await act(op)
  await cancel(op)
  const time = new Date()
  await cancelledAt(time, [op.key.runId])
  const passAfter = (milliseconds: number) =>
    endCancelled(engine.context, { now: sql`${new Date(time.getTime() + milliseconds)}::timestamptz` })
  expect(await passAfter(seconds * 1_000 - 100)).toBe(0)
  expect(await statusOf(op)).toBe('running')
  expect(await passAfter(seconds * 1_000 + 100)).toBe(1)
  expect(await statusOf(op)).toBe('cancelled')
})

describe('an organization that cancels many runs, one of which cannot be ended', () => {
  const workflow = { name: 'w', description: '', definition: workflowDefinition.parse(oneStep) }
  /** A cancelled run of another organization, whose call is in progress. */
  async function neighbours(): Promise<string> {
    const { context } = engine
    const { id, owner } = await addOrganization(context)
    const caller = { ...engine.caller('owner'), ...owner, organizationId: id }
    const { id: workflowId } = await createWorkflow(context, caller, workflow)
    const { runId } = await acceptRun(context, { caller, workflowId, inputs: {} })
    const op = opOf(runId)
    await context.combiner.join(id, decideSteps, op)
    await cancelRun(context, { caller, runId })
    return runId
  }
  const poison = (runId: string) =>
    asAdmin(engine.adminUrl, (client) =>
      client.query(`create function refuse() returns trigger language plpgsql as $$
          begin raise exception 'this row is broken'; end $$;
        create trigger poisoned before update on runs for each row
          when (new.id = '${runId}' and new.finished_at is not null) execute function refuse()`),
    )
  const heal = () => asAdmin(engine.adminUrl, (client) => client.query('drop function refuse() cascade'))

  test('delays nobody: organizations take turns, and the broken run is tried again later', async () => {
    const { context } = engine
    const ours = await Promise.all(Array.from({ length: 60 }, () => engine.run()))
    for (const runId of ours) await engine.go(opOf(runId))
    for (const runId of ours) await engine.cancel(runId)
    const theirs = await neighbours()
    const [broken = ''] = ours
    await cancelledAt(new Date(Date.now() - 60_000), [theirs])
    await cancelledAt(new Date(Date.now() - 120_000), ours)
    await cancelledAt(new Date(Date.now() - 180_000), [broken])
    await poison(broken)
    let clock = 0
    const pass = { failed: new FailedRuns(() => clock) }
    try {
      expect(await endCancelled(context, pass)).toBeGreaterThan(0)
      expect((await runOf(context, theirs)).status).toBe('cancelled')
      while ((await endCancelled(context, pass)) > 0);
      const open = await context.db.selectFrom('runs').select('id').where('finished_at', 'is', null).execute()
      expect(open.filter(({ id }) => ours.includes(id))).toEqual([{ id: broken }])
    } finally {
      await heal()
    }
    clock = 29_000
    expect(await endCancelled(context, pass)).toBe(0)
    clock = 31_000
    expect(await endCancelled(context, pass)).toBe(1)
    expect((await runOf(context, broken)).status).toBe('cancelled')
  })
})

/** The `status_reason` of the run, which must be the same in the list of runs. */
async function reasonOf(runId: string): Promise<string> {
  const run = await engine.readRun(runId)
  const list = await listRuns(engine.context, engine.organizationId, {}, { limit: 200, cursor: null })
  expect(list.data.find(({ id }) => id === runId)?.status_reason).toBe(run?.status_reason)
  return run?.status_reason ?? ''
}
const approvers = 'approval by an admin or owner (rule `h`)'

describe('a run that waits says', () => {
  test('how many votes are given and missing, with the threshold and the roles of now', async () => {
    await engine.rules(holdRule({ name: 'h', approvals_needed: 2 }))
    const runId = await engine.run()
    const id = await engine.hold(opOf(runId))
    const waits = `step \`s\` waits for ${approvers}`
    expect(await reasonOf(runId)).toBe(`${waits}: 0 of 2 votes given, 2 missing`)
    await engine.vote(id, 'admin')
    expect(await reasonOf(runId)).toBe(`${waits}: 1 of 2 votes given, 1 missing`)
    await engine.settings({ approval_threshold: 3 })
    expect(await reasonOf(runId)).toBe(`${waits}: 1 of 3 votes given, 2 missing`)
    await engine.settings({ approval_threshold: 1 })
    await engine.vote(id, 'owner')
    expect(await reasonOf(runId)).toBe('step `s` is decided: the run goes on as soon as a worker takes it up')
    expect(await engine.go(opOf(runId))).toBe(1)
    expect(await reasonOf(runId)).toBe('the run is in progress')
  })

  test('how many items wait, and counts their votes', async () => {
    await engine.rules(holdRule({ name: 'h', approvals_needed: 2 }))
    const [runId, ops] = await engine.items(3)
    const ids = []
    for (const op of ops) ids.push(await engine.hold(op))
    expect(await reasonOf(runId)).toBe(
      `3 items of step \`s\` wait for ${approvers}: 0 of 6 votes given, 6 missing (2 for each item)`,
    )
    await engine.vote(ids[0] as string, 'admin')
    expect(await reasonOf(runId)).toBe(
      `3 items of step \`s\` wait for ${approvers}: 1 of 6 votes given, 5 missing (2 for each item)`,
    )
    for (const id of ids.slice(0, 2)) await engine.vote(id, 'owner')
    await engine.vote(ids[1] as string, 'admin')
    expect(await reasonOf(runId)).toBe(
      `item 2 of step \`s\` waits for ${approvers}: 0 of 2 votes given, 2 missing`,
    )
  })

  test('which outcomes are unknown, and until when', async () => {
    const [runId, ops] = await engine.items(3)
    for (const op of ops.slice(0, 2)) await engine.lose(op)
    expect(await reasonOf(runId)).toBe(
      '2 items of step `s` may or may not have taken effect: an approver must resolve them',
    )
    await engine.resolve(runId, 'done', { items: 1 })
    expect(await reasonOf(runId)).toBe(
      'item 0 of step `s` may or may not have taken effect: an approver must resolve it',
    )
    await engine.resolve(runId, 'retry', { items: 0 })
    expect(await reasonOf(runId)).toBe(
      'item 0 of step `s` is decided: the run goes on as soon as a worker takes it up',
    )
  })

  test('all that it waits for at once', async () => {
    const [runId, ops] = await engine.items(2)
    await engine.lose(ops[0] as ResolvedCall)
    await engine.rules(holdRule({ name: 'h' }))
    await engine.hold(ops[1] as ResolvedCall)
    expect(await reasonOf(runId)).toBe(
      `item 1 of step \`s\` waits for ${approvers}: 0 of 1 vote given, 1 missing; ` +
        'item 0 of step `s` may or may not have taken effect: an approver must resolve it',
    )
  })

  test('why the whole run waits, and how many votes are missing', async () => {
    await engine.settings({ approval_required_from: 'low', approval_threshold: 2 })
    const runId = await engine.run()
    const [approval] = await engine.approvalsOf(runId)
    expect(await reasonOf(runId)).toMatch(
      /^the run waits for approval: its risk is .*: 0 of 2 votes given, 2 missing$/,
    )
    await engine.vote(approval?.id ?? '', 'admin')
    expect(await reasonOf(runId)).toMatch(/: 1 of 2 votes given, 1 missing$/)
    await engine.vote(approval?.id ?? '', 'owner')
    expect(await reasonOf(runId)).toBe('the run is approved: the run goes on as soon as a worker takes it up')
    engine.context.isTemporalAway = true
    expect(await reasonOf(runId)).toBe(
      'the run is approved; Temporal cannot be reached, so the run goes on only once it is back',
    )
    engine.context.isTemporalAway = false
    expect(await enterRun(engine.context, runId)).toEqual({ state: 'go' })
    expect(await reasonOf(runId)).toBe('the run is in progress')
  })

  test('that Temporal is away, in every state in which it must go on', async () => {
    const queued = await engine.run()
    const running = await engine.run()
    await engine.go(opOf(running))
    await engine.rules(holdRule({ name: 'h' }))
    const held = await engine.run()
    const approvalId = await engine.hold(opOf(held))
    expect(await reasonOf(queued)).toBe('the run waits for a worker')
    engine.context.isTemporalAway = true
    expect(await reasonOf(queued)).toBe('Temporal cannot be reached: the run starts once it is back')
    expect(await reasonOf(running)).toBe('Temporal cannot be reached: the run goes on once it is back')
    expect(await reasonOf(held)).toBe(
      `step \`s\` waits for ${approvers}: 0 of 1 vote given, 1 missing; ` +
        'Temporal cannot be reached, so the run goes on only once it is back',
    )
    await engine.vote(approvalId, 'admin')
    expect(await reasonOf(held)).toBe(
      'step `s` is decided; Temporal cannot be reached, so the run goes on only once it is back',
    )
    await engine.cancel(held, 'admin')
    expect(await reasonOf(held)).toBe(`the run was cancelled by \`${engine.caller('admin').email}\``)
  })
})

describe('a cancelled run says by whom and why', () => {
  test.each([
    ['wrong customer', ' with the reason `wrong customer`'],
    [' \n', ''],
    [undefined, ''],
  ])('%j', async (reason, why) => {
    const caller = engine.caller('admin')
    const idle = await engine.run()
    await engine.cancel(idle, 'admin', reason)
    expect(await reasonOf(idle)).toBe(`the run was cancelled by \`${caller.email}\`${why}`)
    const busy = await engine.run()
    await engine.go(opOf(busy))
    await engine.cancel(busy, 'admin', reason)
    expect(await reasonOf(busy)).toBe(`the run is being cancelled by \`${caller.email}\`${why}`)
  })
})

test('a run, its steps and what waits are of one moment, also if a step begins to wait between their reads', async () => {
  const runId = await engine.run()
  await engine.go(opOf(runId))
  const states = async () => {
    const run = await engine.readRun(runId)
    return [run?.status, run?.steps[0]?.status, run?.waiting_for.map(({ kind }) => kind)]
  }
  const before = await states()
  await asAdmin(engine.adminUrl, async (client) => {
    await client.query('begin; lock table run_steps in access exclusive mode')
    const read = states()
    await waitsForLock(engine.adminUrl)
    await client.query(`update runs set status = 'paused' where id = '${runId}'`)
    await client.query(`update run_steps set status = 'unknown_outcome' where run_id = '${runId}'`)
    await client.query(`update effects set state = 'unknown_outcome' where run_id = '${runId}'`)
    await client.query('commit')
    expect(await read).toEqual(before)
  })
  expect(before).toEqual(['running', 'running', []])
  expect(await states()).toEqual(['paused', 'unknown_outcome', ['resolution']])
})

const outputsOf = async (runId: string) => (await engine.readRun(runId))?.outputs
const wholeOutput = async (runId: string): Promise<unknown> =>
  JSON.parse(await (await readOutputParts(engine.context, engine.organizationId, runId, 's')).text())

const held = async (op: ResolvedCall): Promise<string> => {
  await engine.rules(holdRule())
  return engine.hold(op)
}

test.each<[string, (op: ResolvedCall) => Promise<unknown>]>([
  ['denied', () => engine.rules(denyRule())],
  ['rejected', async (op) => engine.vote(await held(op), 'admin', 'reject')],
  ['expired', async (op) => engine.makeLate(await held(op))],
  ['cancelled', async (op) => (await held(op), engine.cancel(op.key.runId))],
])('a step that was %s has null', async (status, act) => {
  const op = opOf(await engine.run())
  expect(await outputsOf(op.key.runId)).toEqual({})
  await act(op)
  await engine.decide(op)
  expect(await engine.stepOf(op.key.runId)).toMatchObject({ status })
  expect(await outputsOf(op.key.runId)).toEqual({ s: null })
  expect(await wholeOutput(op.key.runId)).toBeNull()
})

test('a `for_each` has outputs when it has ended, and each output is at the place of its item', async () => {
  const [runId] = await engine.items(4)
  const late = opOf(runId, { item: 2 })
  await engine.go(late)
  await engine.record(outcomeOf(late, 1, 'completed'))
  expect(await outputsOf(runId)).toEqual({})
  expect(await wholeOutput(runId)).toEqual([null, null, { ok: true }, null])
  // An item that is in progress has a row, but no output.
  await engine.go(opOf(runId, { item: 1 }))
  expect(await outputsOf(runId)).toEqual({})
  await engine.finish(runId, 'failed')
  const places = [null, null, { ok: true }, null]
  expect(await outputsOf(runId)).toEqual({ s: places })
  expect(await wholeOutput(runId)).toEqual(places)
})

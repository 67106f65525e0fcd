import { spawn, type ChildProcess } from 'node:child_process'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { changeQuota } from '../../../src/governance/limits/quota.ts'
import { reconcile } from '../../../src/governance/delivery/reconciler.ts'
import { cancelRun } from '../../../src/governance/runs/end/cancel.ts'
import { enterRun } from '../../../src/governance/runs/start/enter.ts'
import { finishRun } from '../../../src/governance/runs/end/finish.ts'
import { auditOf, testKey, messagesOf } from '../support.ts'
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
  startEngine,
  type Engine,
} from '../runs/engine-fixture.ts'
import { acceptRun } from '../../../src/governance/runs/start/accept.ts'
import { planLimits } from '../../../src/contract/plan-limits.ts'
import { asAdmin } from '../../support/postgres.ts'
import { until } from '../../stack/until.ts'

let engine: Engine
beforeAll(async () => {
  engine = await startEngine()
})
afterAll(() => engine?.close())
beforeEach(async () => {
  await engine.settings({ approval_required_from: null })
  await engine.rules()
  for (const { id } of await openRuns()) await end(id)
  await age('2 hours')
  await engine.context.pool.query(`delete from lanes where kind = 'temporal'`)
  await limit({ concurrent_executions: 1, queued_executions: 10 })
})

const openRuns = () =>
  engine.context.db.selectFrom('runs').select(['id', 'slot']).where('finished_at', 'is', null).execute()
const end = (runId: string) => finishRun(engine.context, { runId, status: 'failed' })
const limit = (limits: Record<string, number | null>) =>
  changeQuota(engine.context, engine.caller('owner'), limits)
const age = (interval: string) =>
  engine.context.pool.query(`update runs set created_at = created_at - $1::interval`, [interval])
const slotOf = async (runId: string) => (await runOf(engine.context, runId)).slot
const slotsOf = (...runIds: readonly string[]) => Promise.all(runIds.map(slotOf))
/** Starts so many runs, one after another. */
async function runs(count: number): Promise<[string, string, string, string]> {
  const started: string[] = []
  while (started.length < count) started.push(await engine.run())
  return started as [string, string, string, string]
}
const told = async (runId: string) => {
  return (await messagesOf(engine.context, runId)).map(({ kind }) => kind)
}

describe('a run beyond the slots', () => {
  test('waits without a workflow and says why; an ending run starts it, in order of acceptance', async () => {
    const [first, second, third] = await runs(3)
    expect(await told(first)).toEqual(['run.start'])
    expect(await told(second)).toEqual([])
    expect(await runOf(engine.context, second)).toMatchObject({
      status: 'queued',
      slot: 'queued',
      status_reason: 'the run waits for one of 1 concurrent runs to end or to be held',
    })
    await end(first)
    expect(await told(second)).toEqual(['run.start'])
    expect(await runOf(engine.context, second)).toMatchObject({
      slot: 'taken',
      status_reason: 'the run waits for a worker',
    })
    expect(await slotOf(third)).toBe('queued')
    await end(second)
    expect(await slotOf(third)).toBe('taken')
    expect(await eventsOf(engine.context, third)).toEqual(['run.queued'])
  })

  test('is refused once the queue is full', async () => {
    await limit({ queued_executions: 1 })
    await runs(2)
    await expect(engine.run()).rejects.toMatchObject({
      code: 'quota_exceeded',
      details: [{ path: 'queued_executions', message: 'the limit is 1' }],
    })
    expect(await openRuns()).toHaveLength(2)
    // The plan was analysed, so the refusal says how risky the run would have been.
    const risk = { risk: 'medium', risk_reasons: ['`memory_get` reads company data'] }
    expect(await auditOf(engine.context, engine.organizationId, 1)).toMatchObject([
      { event_type: 'quota.exceeded', metadata: { limit: 'queued_executions', value: 1, ...risk } },
    ])
  })

  test('is cancelled at once, and frees no slot', async () => {
    const [first, second, third] = await runs(3)
    await cancelRun(engine.context, { caller: engine.caller('member'), runId: second })
    expect(await runOf(engine.context, second)).toMatchObject({ status: 'cancelled', slot: null })
    expect(await eventsOf(engine.context, second)).toEqual(['run.queued', 'run.cancelled'])
    expect(await told(second)).toEqual([])
    expect(await slotOf(third)).toBe('queued')
    await end(first)
    expect(await slotOf(third)).toBe('taken')
  })

  test('is not started by the reconciler', async () => {
    const [first, second] = await runs(2)
    const started: string[] = []
    const motor = {
      start: async ({ input }: { input: { runId: string } }) => void started.push(input.runId),
      wake: async () => true,
      cancel: async () => true,
      describe: async () => 'missing' as const,
    }
    await reconcile(engine.context, motor, async () => false, -60)
    expect(started.filter((id) => id === first || id === second)).toEqual([first])
  })

  test('whose workflow was started by somebody else runs no body before it has a slot', async () => {
    const [first, second] = await runs(2)
    const op = opOf(second)
    expect(await engine.decide(op)).toMatchObject({ go: false, state: 'held', approvalId: null })
    expect(await slotOf(second)).toBe('waits')
    await end(first)
    expect(await told(second)).toEqual(['run.wake'])
    expect(await go(engine, op)).toBe(1)
  })
})

describe('the limit', () => {
  test('a raised limit holds at once, in order of acceptance', async () => {
    const four = await runs(4)
    await limit({ concurrent_executions: 3 })
    expect(await slotsOf(...four)).toEqual(['taken', 'taken', 'taken', 'queued'])
  })

  test('a lowered limit holds at once: running runs go on, no other starts', async () => {
    await limit({ concurrent_executions: 3 })
    const [first, second, third] = await runs(3)
    await limit({ concurrent_executions: 1 })
    const late = await engine.run()
    await end(first)
    await end(second)
    expect(await slotOf(late)).toBe('queued')
    await end(third)
    expect(await slotOf(late)).toBe('taken')
  })
})

describe('a run that is held', () => {
  /** Holds the only call of a new run, and returns the call's approval. */
  const held = async () => {
    await engine.rules(holdRule())
    const op = opOf(await engine.run())
    return { op, runId: op.key.runId, approvalId: await hold(engine, op) }
  }
  /** The same, after two younger runs were accepted and the approval was given. */
  const approved = async () => {
    const run = await held()
    const [other, younger] = await runs(2)
    await engine.vote(run.approvalId, 'admin')
    return { ...run, other, younger }
  }

  test('releases its slot, and takes one again before it goes on', async () => {
    const { op, runId, approvalId } = await held()
    expect(await slotOf(runId)).toBeNull()
    await engine.vote(approvalId, 'admin')
    expect(await go(engine, op)).toBe(1)
    expect(await slotOf(runId)).toBe('taken')
  })

  test('lets the next run start, and waits for a slot after its approval; the approval is not used meanwhile', async () => {
    const { op, runId, approvalId, other, younger } = await approved()
    expect(await slotsOf(other, younger)).toEqual(['taken', 'queued'])
    await engine.context.pool.query(`delete from lanes where kind = 'temporal'`)
    expect(await engine.decide(op)).toMatchObject({ go: false, state: 'held', approvalId })
    expect(await runOf(engine.context, runId)).toMatchObject({
      slot: 'waits',
      status: 'paused',
      status_reason: 'the run waits for one of 1 concurrent runs to end or to be held',
    })
    expect((await approvalsOf(engine.context, runId))[0]).toMatchObject({ used_at: null, status: 'approved' })
    await end(other)
    expect(await told(runId)).toEqual(['run.wake'])
    expect(await go(engine, op)).toBe(1)
    expect((await approvalsOf(engine.context, runId))[0]?.used_at).not.toBeNull()
  })

  test.each([
    ['a deny saved meanwhile', 'denied', () => engine.rules(denyRule())],
    ['its approval’s expiry', 'expired', (approvalId: string) => makeLate(engine.context, approvalId)],
  ] as const)('while it waits, %s is what it meets', async (_name, state, change) => {
    const { op, approvalId, other } = await approved()
    expect(await engine.decide(op)).toMatchObject({ state: 'held' })
    await change(approvalId)
    await end(other)
    expect(await engine.decide(op)).toMatchObject({ go: false, state })
  })

  test('goes on before runs that were accepted later, and releases its slot again if its call is held again', async () => {
    const { op, runId, other, younger } = await approved()
    expect(await engine.decide(op)).toMatchObject({ go: false })
    await engine.settings({ approval_threshold: 2 })
    await end(other)
    expect(await slotsOf(runId, younger)).toEqual(['taken', 'queued'])
    expect(await engine.decide(op)).toMatchObject({ go: false, state: 'held' })
    await engine.settings({ approval_threshold: 1 })
    expect(await slotsOf(runId, younger)).toEqual([null, 'taken'])
  })

  test('with two held calls, the pending one does not release the approved one’s slot', async () => {
    await engine.rules(holdRule())
    const runId = await engine.run()
    const [a, b] = [opOf(runId, { item: 0 }), opOf(runId, { item: 1 })]
    const approval = await hold(engine, a)
    await hold(engine, b)
    const [other, younger] = await runs(2)
    await engine.vote(approval, 'admin')
    expect(await engine.decide(a)).toMatchObject({ state: 'held' })
    await end(other)
    expect(await engine.decide(b)).toMatchObject({ state: 'held' })
    expect(await slotsOf(runId, younger)).toEqual(['taken', 'queued'])
    await go(engine, a)
    await engine.record(outcomeOf(a, 1, 'completed'))
    // The other call is still held, and no call of the run is in progress.
    expect(await slotsOf(runId, younger)).toEqual([null, 'taken'])
  })

  test('keeps its slot while another call is in progress or retried', async () => {
    const runId = await engine.run()
    const [a, b] = [opOf(runId, { item: 0 }), opOf(runId, { item: 1 })]
    await go(engine, a)
    await engine.rules(holdRule())
    await hold(engine, b)
    expect(await slotOf(runId)).toBe('taken')
    await engine.record(outcomeOf(a, 1, 'retry'))
    expect(await slotOf(runId)).toBe('taken')
    await engine.rules(denyRule())
    expect(await engine.decide(a)).toMatchObject({ state: 'denied' })
    expect(await slotOf(runId)).toBeNull()
  })

  test('with an unknown outcome releases its slot, and takes one for the retry', async () => {
    const runId = await engine.run()
    const op = opOf(runId)
    const attempt = await go(engine, op)
    await engine.record(outcomeOf(op, attempt, 'unknown_outcome'))
    expect(await slotOf(runId)).toBeNull()
    expect((await effectOf(engine.context, op))?.state).toBe('unknown_outcome')
  })
})

describe('a run that waits for its own approval', () => {
  test('needs no slot before; approved without a free slot it waits, and its approval is checked again then', async () => {
    await engine.settings({ approval_required_from: 'low' })
    const gated = await engine.run()
    await engine.settings({ approval_required_from: null })
    const other = await engine.run()
    expect(await slotsOf(gated, other)).toEqual([null, 'taken'])
    const [approval] = await approvalsOf(engine.context, gated)
    await engine.vote(approval?.id as string, 'admin')
    expect(await enterRun(engine.context, gated)).toMatchObject({ state: 'wait' })
    expect(await enterRun(engine.context, gated)).toMatchObject({ state: 'wait' })
    expect(await runOf(engine.context, gated)).toMatchObject({
      slot: 'waits',
      started_at: null,
      status_reason: expect.stringContaining('approved: the run waits for one of 1'),
    })
    await engine.context.pool.query(`delete from lanes where kind = 'temporal'`)
    await end(other)
    expect(await told(gated)).toEqual(['run.wake'])
    await engine.settings({ approval_threshold: 2 })
    const younger = await engine.run()
    expect(await slotOf(younger)).toBe('queued')
    expect(await enterRun(engine.context, gated)).toMatchObject({ state: 'wait' })
    expect(await slotsOf(gated, younger)).toEqual([null, 'taken'])
    await engine.settings({ approval_threshold: 1 })
    await end(younger)
    await engine.vote(approval?.id as string, 'approver')
    expect(await enterRun(engine.context, gated)).toEqual({ state: 'go' })
    expect(await slotOf(gated)).toBe('taken')
  })
})

describe('runs in an hour', () => {
  beforeEach(() => limit({ concurrent_executions: 10, workflow_runs_per_hour: 2 }))
  afterAll(() => limit({ workflow_runs_per_hour: null }))

  test('are refused above the limit: with its name, audited, without a run', async () => {
    await runs(2)
    await age('10 minutes')
    const before = await engine.context.pool.query('select count(*) from runs')
    const refused = await engine.run().catch((error: unknown) => error)
    expect(refused).toMatchObject({
      code: 'quota_exceeded',
      details: [{ path: 'workflow_runs_per_hour', message: 'the limit is 2' }],
    })
    const { retryAfter } = refused as { retryAfter: number }
    expect(retryAfter).toBeGreaterThan(40 * 60)
    expect(retryAfter).toBeLessThanOrEqual(50 * 60)
    expect((await engine.context.pool.query('select count(*) from runs')).rows).toEqual(before.rows)
    expect(await auditOf(engine.context, engine.organizationId, 1)).toMatchObject([
      {
        event_type: 'quota.exceeded',
        user_id: engine.caller('member').userId,
        run_id: null,
        metadata: { limit: 'workflow_runs_per_hour', value: 2 },
      },
    ])
    await age('51 minutes')
    await engine.run()
  })

  test('a raised limit holds at once in another process, and so does a lowered one', async () => {
    const other = engine.another()
    const first = await runOf(engine.context, await engine.run())
    const request = { caller: engine.caller('member'), workflowId: first.workflow_id, inputs: {} }
    await acceptRun(other, request)
    await expect(acceptRun(other, request)).rejects.toMatchObject({ code: 'quota_exceeded' })
    await limit({ workflow_runs_per_hour: 3 })
    await acceptRun(other, request)
    await limit({ workflow_runs_per_hour: 1 })
    await expect(acceptRun(other, request)).rejects.toMatchObject({
      details: [{ path: 'workflow_runs_per_hour', message: 'the limit is 1' }],
    })
  })

  test('a repeated key gets its run, also at the limit', async () => {
    const { workflow_id: workflowId } = await runOf(engine.context, await engine.run())
    const request = { caller: engine.caller('member'), workflowId, inputs: {}, idempotencyKey: 'once' }
    const made = await acceptRun(engine.context, request)
    expect(await acceptRun(engine.context, request)).toEqual(made)
  })
})

describe('spend of a month', () => {
  beforeEach(() => limit({ concurrent_executions: 10, monthly_spend: 1_000 }))
  afterAll(() => limit({ monthly_spend: null }))

  test('refuses runs above the limit until the next month', async () => {
    const id = await engine.run()
    const spend = (runId: string, cost: number) =>
      engine.context.db.updateTable('runs').set({ cost }).where('id', '=', runId).execute()
    await spend(id, 7.5)
    await limit({ monthly_spend: 8 })
    await spend(await engine.run(), 0.5)
    await age('2 hours')
    // Runs of an earlier month do not count, but runs of this month do. A run of two hours ago may be in the earlier
    // month.
    const { rows } = await engine.context.pool.query<{ same: boolean }>(
      `select date_trunc('month', now(), 'UTC') = date_trunc('month', now() - interval '3 hours', 'UTC') as same`,
    )
    if (rows[0]?.same === true)
      await expect(engine.run()).rejects.toMatchObject({ details: [{ path: 'monthly_spend' }] })
    await age('32 days')
    await engine.run()
  })

  test('is the cost that calls report', async () => {
    const id = await engine.run()
    for (const item of [0, 1]) {
      const op = opOf(id, { item })
      const attempt = await go(engine, op)
      const { result } = outcomeOf(op, attempt, 'completed')
      await engine.record(outcomeOf(op, attempt, { ...(result as object), cost: 0.25 } as typeof result))
    }
    expect(Number((await runOf(engine.context, id)).cost)).toBe(0.5)
  })
})

interface Hammer {
  readonly child: ChildProcess
  /** The success lines printed so far. */
  readonly lines: string[]
  /** The exit code of the process; null after a kill. Rejects with the text of stderr. */
  readonly ended: Promise<number | null>
}

/** Starts hammer-process.ts. */
function startHammer(...args: readonly string[]): Hammer {
  const program = fileURLToPath(new URL('./hammer-process.ts', import.meta.url))
  const child = spawn(process.execPath, [program, engine.context.config.database.url, ...args], {
    env: { ...process.env, NODE_OPTIONS: '', DATA_ENCRYPTION_KEY: testKey.toString('base64') },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const lines: string[] = []
  let stderr = ''
  createInterface({ input: child.stdout }).on('line', (line) => lines.push(line))
  child.stderr.on('data', (data: Buffer) => (stderr += data.toString()))
  const ended = new Promise<number | null>((resolve, reject) => {
    child.once('error', reject)
    child.once('close', (code) => (code === 0 || code === null ? resolve(code) : reject(new Error(stderr))))
  })
  return { child, lines, ended }
}

/** Ends the runs that have a slot, until no run is left. Slots of a killed process become free in the same way. */
async function endAll(): Promise<void> {
  for (let runs = await openRuns(); runs.length > 0; runs = await openRuns()) {
    const holders = runs.filter(({ slot }) => slot === 'taken')
    // No run waits while a slot is free.
    expect(holders.length).toBeGreaterThan(0)
    for (const { id } of holders) await end(id)
  }
}

test('racing processes, one of them killed, never exceed the slots or the runs per hour', async () => {
  const { workflow_id: workflowId } = await runOf(engine.context, await engine.run())
  await endAll()
  await age('2 hours')
  await limit({ concurrent_executions: 3, workflow_runs_per_hour: 40 })
  // The trigger refuses every commit above the limit, so no violation can be missed between two checks.
  await asAdmin(engine.adminUrl, async (client) => {
    await client.query(`
      create function slots_hold() returns trigger language plpgsql as $$ begin
        if (select count(*) from runs where slot = 'taken') > 3 then raise exception 'too many slots'; end if;
        return null;
      end $$;
      create constraint trigger slots_hold after insert or update on runs deferrable initially deferred
        for each row execute function slots_hold()`)
  })
  const hammer = () => startHammer('runs', JSON.stringify(engine.caller('member')), workflowId)
  const [killed, other] = [hammer(), hammer()] as [Hammer, Hammer]
  await until('the first was answered', () => Promise.resolve(killed.lines.length > 5))
  killed.child.kill('SIGKILL')
  await killed.ended
  const holding = (await openRuns()).map(({ id }) => id)
  expect(holding.length).toBeGreaterThan(0)
  // The runs of the living process wait behind the runs of the dead one. A worker would end the dead process's runs, so
  // the test ends them.
  const ending = until('the other has ended', async () => {
    const dead = (await openRuns()).filter(({ id, slot }) => slot === 'taken' && !other.lines.includes(id))
    for (const { id } of dead) await end(id)
    return other.child.exitCode !== null
  })
  expect(await other.ended).toBe(0)
  await ending
  await endAll()
  const { rows } = await engine.context.pool.query<{ count: number }>(
    `select count(*)::int as count from runs where created_at > now() - interval '1 hour'`,
  )
  expect(rows[0]?.count).toBeLessThanOrEqual(40)
  const given = other.lines.filter((line) => line !== 'refused').length
  expect(given + killed.lines.filter((line) => line !== 'refused').length).toBeLessThanOrEqual(40)
  expect(other.lines).toHaveLength(30)
})

test('request blocks of processes, one of them killed, never exceed the limit together', async () => {
  const limits = { ...planLimits.free, requests_per_minute: 300 }
  const hammer = () => startHammer('requests', engine.organizationId, JSON.stringify(limits))
  const hammers = [hammer(), hammer(), hammer()] as [Hammer, Hammer, Hammer]
  // The process that starts first may leave no requests for the others, so kill whichever process is ahead.
  const ahead = () => hammers.find(({ lines }) => lines.length > 10)
  await until('one has some', () => Promise.resolve(ahead() !== undefined))
  ahead()?.child.kill('SIGKILL')
  await Promise.all(hammers.map(({ ended }) => ended))
  const perWindow = new Map<string, number>()
  for (const line of hammers.flatMap(({ lines }) => lines))
    perWindow.set(line, (perWindow.get(line) ?? 0) + 1)
  for (const count of perWindow.values()) expect(count).toBeLessThanOrEqual(300)
  // The only missing requests are unused ones of the dead process: at most one block.
  expect(Math.max(...perWindow.values())).toBeGreaterThan(200)
  // The next window has all requests again.
  await engine.context.pool.query(
    `update request_windows set started_at = started_at - interval '1 minute' where bucket = 'requests_per_minute'`,
  )
  const next = await engine.context.rates.take(engine.organizationId, limits, 'requests')
  expect(next).toMatchObject({ allowed: true, remaining: 299 })
})

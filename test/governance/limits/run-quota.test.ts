import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { changeQuota } from '../../../src/governance/limits/quota.ts'
import { acceptRun } from '../../../src/governance/runs/start/accept.ts'
import { auditOf } from '../support.ts'
import { go, opOf, outcomeOf, runOf, startEngine, type Engine } from '../runs/engine-fixture.ts'

let engine: Engine
beforeAll(async () => {
  engine = await startEngine()
})
afterAll(() => engine?.close())
const limit = (limits: Record<string, number>) => changeQuota(engine.context, engine.caller('owner'), limits)
const age = (interval: string) =>
  engine.context.pool.query(`update runs set created_at = created_at - $1::interval`, [interval])
beforeEach(async () => {
  await age('2 hours')
  await limit({ workflow_runs_per_hour: 2, monthly_spend: 1_000 })
})

describe('runs in an hour', () => {
  test('are refused above the limit: with its name, audited, without a run', async () => {
    await engine.run()
    await engine.run()
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
  test('refuses runs above the limit until the next month', async () => {
    const id = await engine.run()
    await engine.context.db.updateTable('runs').set({ cost: 7.5 }).where('id', '=', id).execute()
    await limit({ monthly_spend: 8 })
    const other = await engine.run()
    await engine.context.db.updateTable('runs').set({ cost: 0.5 }).where('id', '=', other).execute()
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

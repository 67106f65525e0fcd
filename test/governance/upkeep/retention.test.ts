import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import { removeOldData } from '../../../src/governance/upkeep/retention.ts'
import { finishRun } from '../../../src/governance/runs/end/finish.ts'
import { readStepOutput } from '../../../src/governance/runs/read/read.ts'
import { readRun } from '../runs/whole-run.ts'
import { readReceipt } from '../../../src/governance/runs/read/receipt.ts'
import { verify } from '../audit/chain-fixture.ts'
import {
  approvalsOf,
  effectOf,
  eventsOf,
  go,
  hold,
  holdRule,
  opOf,
  oneStep,
  outcomeOf,
  startEngine,
  type Engine,
  type StepOp,
} from '../runs/engine-fixture.ts'

let engine: Engine
const start = async (days: string): Promise<void> => {
  engine = await startEngine({ RETENTION_DAYS: days })
}
beforeEach(() => start('30'))
afterEach(() => engine.close())

const inputs = { who: 'a secret name' }
const definition = { inputs: { who: { type: 'string' } }, ...oneStep }

/** A run whose mail was held, approved and sent. */
async function endedRun(): Promise<StepOp> {
  await engine.rules(holdRule())
  const op = opOf(await engine.run(definition, inputs))
  await engine.vote(await hold(engine, op), 'approver')
  await engine.record(outcomeOf(op, await go(engine, op), 'completed'))
  await finishRun(engine.context, { runId: op.key.runId, status: 'completed' })
  return op
}

const endedDaysAgo = (runId: string, days: number) =>
  engine.context.db
    .updateTable('runs')
    .set({ finished_at: new Date(Date.now() - days * 24 * 3_600_000), slot: null })
    .where('id', '=', runId)
    .execute()

describe('data of a run that ended long ago', () => {
  test('is removed with everything that reveals it; the record stays', async () => {
    const op = await endedRun()
    const { runId } = op.key
    const receipt = async () => (await readReceipt(engine.context.db, engine.organizationId, runId)).text()
    const before = await receipt()
    await endedDaysAgo(runId, 31)
    expect(await removeOldData(engine.context)).toBe(1)
    expect(await effectOf(engine.context, op)).toMatchObject({
      params_sealed: null,
      output: null,
      output_sealed: null,
      params_hash: op.paramsHash,
    })
    expect(await approvalsOf(engine.context, runId)).toMatchObject([
      { params_sealed: null, status: 'approved' },
    ])
    expect(await eventsOf(engine.context, runId)).toEqual([])
    expect(await readRun(engine.context, engine.organizationId, runId)).toMatchObject({
      status: 'completed',
      inputs: {},
      outputs: {},
      result: null,
      data_removed_at: expect.any(String),
    })
    expect(await receipt()).toEqual(before)
    await expect(readStepOutput(engine.context, engine.organizationId, runId, 's')).rejects.toMatchObject({
      code: 'not_found',
      message: expect.stringContaining('RETENTION_DAYS'),
    })
    const { config } = engine.context
    expect(await verify(config.database.url, engine.organizationId, config.encryptionKeys)).toMatchObject({
      valid: true,
    })
    expect(await removeOldData(engine.context)).toBe(0)
  })

  test('stays until then, and until the run has ended', async () => {
    const ended = await endedRun()
    await endedDaysAgo(ended.key.runId, 29)
    const open = opOf(await engine.run(definition, inputs))
    await hold(engine, open)
    await engine.context.db
      .updateTable('runs')
      .set({ created_at: new Date(0) })
      .where('id', '=', open.key.runId)
      .execute()
    expect(await removeOldData(engine.context)).toBe(0)
    expect(await readRun(engine.context, engine.organizationId, ended.key.runId)).toMatchObject({ inputs })
    expect((await effectOf(engine.context, open))?.params_sealed).not.toBeNull()
  })

  test('is removed in several transactions, and once by concurrent processes', async () => {
    const runs = await Promise.all(Array.from({ length: 120 }, () => engine.run(definition, inputs)))
    for (const runId of runs) await endedDaysAgo(runId, 31)
    const [here, there] = await Promise.all([removeOldData(engine.context), removeOldData(engine.another())])
    expect(here + there).toBe(120)
    expect(await removeOldData(engine.context)).toBe(0)
  })

  test('0 days keep everything', async () => {
    await engine.close()
    await start('0')
    const op = await endedRun()
    await endedDaysAgo(op.key.runId, 10_000)
    expect(await removeOldData(engine.context)).toBe(0)
  })
})

describe('an uploaded file that no run took for long', () => {
  const daysAgo = (days: number): Date => new Date(Date.now() - days * 24 * 3_600_000)
  const insert = (id: string, created_at: Date, last_used_at: Date | null) =>
    engine.context.db
      .insertInto('files')
      .values({
        id,
        organization_id: engine.organizationId,
        name: 'a.csv',
        media_type: 'text/csv',
        size: 10,
        sha256: 'a'.repeat(64),
        labels: ['internal'],
        text_sealed: Buffer.alloc(1_000),
        text_bytes: 1_000,
        rows_sealed: Buffer.alloc(500),
        rows_bytes: 500,
        created_at,
        created_by: engine.caller('member').userId,
        last_used_at,
      })
      .execute()
  const kept = async () =>
    (await engine.context.db.selectFrom('files').select('id').orderBy('id').execute()).map(({ id }) => id)
  const stored = async (): Promise<number> => {
    const { rows } = await engine.context.pool.query<{ bytes: string }>(
      `select h.stored_bytes + coalesce(sum(m.bytes), 0) as bytes from chain_head h
       left join storage_moves m using (organization_id) where organization_id = $1 group by h.stored_bytes`,
      [engine.organizationId],
    )
    return Number(rows[0]?.bytes)
  }

  test('is deleted with its text, its rows and its bytes of storage', async () => {
    await insert('file_new', daysAgo(1), null)
    const before = await stored()
    await insert('file_old', daysAgo(31), null)
    await insert('file_unused', daysAgo(60), daysAgo(31))
    await insert('file_used', daysAgo(60), daysAgo(29))
    const ofThree = (await stored()) - before
    expect(ofThree).toBeGreaterThan(3 * 1_500)
    await removeOldData(engine.context)
    expect(await kept()).toEqual(['file_new', 'file_used'])
    // Only one of the three added files is left.
    expect(await stored()).toBeLessThan(before + ofThree / 2)
  })

  test('stays if nothing is ever removed', async () => {
    await engine.close()
    await start('0')
    await insert('file_old', daysAgo(3_000), null)
    await removeOldData(engine.context)
    expect(await kept()).toEqual(['file_old'])
  })
})

import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { getTool } from '../../../../src/catalog/index.ts'
import type { ToolDeclaration } from '../../../../src/catalog/tool.ts'
import { mostStoredBytes } from '../../../../src/governance/runs/effects/storage-limit.ts'
import {
  approvalsOf,
  effectOf,
  go,
  hold,
  holdRule,
  keptOutput,
  opOf,
  outcomeOf,
  outputOf,
  runOf,
  startEngine,
  stepOf,
  type Engine,
} from '../engine-fixture.ts'

let engine: Engine
let runId: string
beforeAll(async () => {
  engine = await startEngine()
})
afterAll(() => engine.close())
beforeEach(async () => {
  await engine.rules()
  runId = await engine.run()
})

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

describe('the stored bytes of one run', () => {
  test('include parameters, the approval’s copy and outputs', async () => {
    await engine.rules(holdRule())
    const op = opOf(runId)
    await engine.vote(await hold(engine, op), 'admin')
    const done = outcomeOf(op, await go(engine, op), 'completed')
    await engine.record({
      ...done,
      result: { ...done.result, output: outputOf(op.key, 'ü') } as typeof done.result,
    })
    expect((await runOf(engine.context, runId)).stored_bytes).toBe(2 * op.sealed.length + 4)
    const { rows } = await engine.context.pool.query(
      // The values are counted as if sealed by older versions. The newer format has 29 bytes more.
      `select (select sum(length(params_sealed) + octet_length(output_sealed) - 29) from effects where run_id = $1) +
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
    expect(await effectOf(engine.context, op)).toMatchObject({
      ...failure,
      params_sealed: null,
      decision_id: null,
    })
    expect(await stepOf(engine.context, runId)).toMatchObject({ status: 'failed', error: failure.error })
    expect(await approvalsOf(engine.context, runId)).toEqual([])
    expect(await engine.decide(op)).toMatchObject({ go: false, state: 'failed' })
  })

  test('concurrent items all count: those that fit run, the others fail', async () => {
    const ops = [0, 1, 2, 3].map((item) => opOf(runId, { item }))
    await leave(2 * (ops[0]?.sealed.length ?? 0))
    const verdicts = await Promise.all(ops.map((op) => engine.decide(op)))
    expect(verdicts.filter((verdict) => verdict.go)).toHaveLength(2)
    expect((await runOf(engine.context, runId)).stored_bytes).toBe(mostStoredBytes)
  })

  test('a call that was allowed below the limit goes on', async () => {
    const op = opOf(runId)
    await go(engine, op)
    await engine.record(outcomeOf(op, 1, 'retry'))
    await leave(0)
    expect(await go(engine, op)).toBe(2)
  })

  test('label sources count for a call and for each of its decisions', async () => {
    const labelSources = [{ label: 'internal', from: ['ü'.repeat(1_000)] }]
    const bytes = Buffer.byteLength(JSON.stringify(labelSources))
    const op = opOf(runId, { labels: ['internal'], labelSources })
    await go(engine, op)
    expect((await runOf(engine.context, runId)).stored_bytes).toBe(op.sealed.length + 2 * bytes)
    await engine.record(outcomeOf(op, 1, 'retry'))
    await leave(bytes)
    await go(engine, op)
    await engine.record(outcomeOf(op, 2, 'retry'))
    expect(await engine.decide(op)).toMatchObject({ go: false, state: 'failed' })
    expect(await effectOf(engine.context, op)).toMatchObject({
      ...failure,
      label_sources: [],
      labels: ['internal'],
    })
    const next = opOf(runId, { item: 0, labelSources })
    expect(await engine.decide(next)).toMatchObject({ go: false, state: 'failed' })
    expect(await effectOf(engine.context, next)).toMatchObject({ ...failure, label_sources: [] })
  })

  test('a skipped call needs no storage', async () => {
    await leave(0)
    const op = opOf(runId, { wanted: false, labelSources: [{ label: 'internal', from: ['a'] }] })
    expect(await engine.decide(op)).toMatchObject({ state: 'skipped' })
    expect(await effectOf(engine.context, op)).toMatchObject({ params_sealed: null, label_sources: [] })
  })

  test('a read whose output does not fit fails, and the output is not stored', async () => {
    const op = opOf(runId, { tool: read })
    const attempt = await go(engine, op)
    await leave(3)
    expect(await engine.record(outcomeOf(op, attempt, 'completed'))).toBe('failed')
    expect(await effectOf(engine.context, op)).toMatchObject({ ...failure, output: null })
  })

  test('the output of an act is stored in any case', async () => {
    const op = opOf(runId)
    const attempt = await go(engine, op)
    await leave(3)
    expect(await engine.record(outcomeOf(op, attempt, 'completed'))).toBe('completed')
    expect(await effectOf(engine.context, op)).toMatchObject({ state: 'completed' })
    expect(await keptOutput(engine.context, op)).toEqual({ ok: true })
  })
})

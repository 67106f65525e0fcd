import { expect, test } from '@jest/globals'
import { finishRun } from '../../../src/governance/runs/finish.ts'
import { readFixedRun } from '../../../src/governance/runs/fixed-run.ts'
import { readOutputs } from '../../../src/governance/runs/outputs.ts'
import { go, opOf, outcomeOf, useEngine, type Engine } from './engine-fixture.ts'

let engine: Engine
useEngine((started) => (engine = started))

/** Changes rows that never change, so that what still comes from memory shows. */
async function change(runId: string): Promise<void> {
  const { db } = engine.context
  await db.updateTable('runs').set({ requester_email: 'changed@example.com' }).where('id', '=', runId).execute() // prettier-ignore
  await db
    .updateTable('effects')
    .set({ output: '"changed"', output_sealed: null })
    .where('run_id', '=', runId)
    .execute()
}

async function read(runId: string): Promise<unknown[]> {
  const { requesterEmail } = await readFixedRun(engine.context, runId)
  return [requesterEmail, (await readOutputs(engine.context, runId, ['s'])).get('s')]
}

test('what a run under way needs is read once, and nothing of it is kept once it has ended', async () => {
  const runId = await engine.run()
  const op = opOf(runId)
  await engine.record(outcomeOf(op, await go(engine, op), 'completed'))
  const first = await read(runId)
  expect(first).toEqual([expect.not.stringContaining('changed'), { ok: true }])
  await change(runId)
  expect(await read(runId)).toEqual(first)
  await finishRun(engine.context, { runId, status: 'completed' })
  expect(await read(runId)).toEqual(['changed@example.com', 'changed'])
})

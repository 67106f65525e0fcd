import { expect, test } from '@jest/globals'
import { finishRun } from '../../../../src/governance/runs/end/finish.ts'
import { readRunSnapshot } from '../../../../src/governance/runs/values/run-snapshot.ts'
import { readOutputs } from '../../../../src/governance/runs/values/outputs.ts'
import { outputPlace } from '../../../../src/governance/sealing/places.ts'
import { go, opOf, outcomeOf, useEngine, type Engine } from '../engine-fixture.ts'

let engine: Engine
useEngine((started) => (engine = started))

/** Changes rows that the service never changes. A test can then see which values were read from memory. */
async function change(runId: string): Promise<void> {
  const { db } = engine.context
  const place = outputPlace({ runId, stepId: 's', itemIndex: -1 })
  await db.updateTable('runs').set({ requester_email: 'changed@example.com' }).where('id', '=', runId).execute() // prettier-ignore
  await db
    .updateTable('effects')
    .set({ output_sealed: await engine.context.sealer.seal(place, '"changed"') })
    .where('run_id', '=', runId)
    .execute()
}

async function read(runId: string): Promise<unknown[]> {
  const { requesterEmail } = await readRunSnapshot(engine.context, runId)
  return [requesterEmail, (await readOutputs(engine.context, runId, ['s'])).get('s')]
}

test('values of a run are read once, and dropped when it has ended', async () => {
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

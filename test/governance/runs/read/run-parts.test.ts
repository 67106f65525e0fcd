import { expect, test } from '@jest/globals'
import { asAdmin } from '../../../support/postgres.ts'
import { waitsForLock } from '../../support.ts'
import { go, opOf, useEngine, type Engine } from '../engine-fixture.ts'
import { readRun } from '../whole-run.ts'

let engine: Engine
useEngine((started) => (engine = started))

test('a run, its steps and what waits are of one moment, also if a step begins to wait between their reads', async () => {
  const runId = await engine.run()
  await go(engine, opOf(runId))
  const states = async () => {
    const run = await readRun(engine.context, engine.organizationId, runId)
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

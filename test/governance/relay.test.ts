import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import type { Context } from '../../src/context.ts'
import type { Motor, StartRequest } from '../../src/governance/motor.ts'
import { startRelay, startRun, type Relay } from '../../src/governance/relay.ts'
import { acceptRun } from '../../src/governance/runs/accept.ts'
import { cancelRun } from '../../src/governance/runs/cancel.ts'
import { finishRun } from '../../src/governance/runs/finish.ts'
import { until } from '../stack/until.ts'
import { go, opOf, startEngine, type Engine } from './runs/engine-fixture.ts'

let engine: Engine
let relays: Relay[]
beforeEach(async () => {
  engine = await startEngine()
  relays = []
})
afterEach(async () => {
  for (const relay of relays) await relay.stop()
  await engine.close()
})

/** Remembers what it was told; `answer` says what Temporal makes of it. */
function fakeMotor(answer: (kind: string) => boolean = () => true) {
  const told: string[] = []
  const starts: StartRequest[] = []
  const tell = (kind: string, runId: string): Promise<boolean> => {
    told.push(`${kind} ${runId}`)
    return Promise.resolve().then(() => answer(kind))
  }
  const motor: Motor = {
    start: async (request) => {
      starts.push(request)
      await tell('start', request.input.runId)
    },
    wake: (runId, wake) => tell(`wake ${wake.key ?? ''}`, runId),
    cancel: (runId) => tell('cancel', runId),
    describe: async () => 'missing',
  }
  return { motor, told, starts }
}
const relay = (motor: Motor, context: Context = engine.context): Relay => {
  const started = startRelay(context, motor, async () => true)
  relays.push(started)
  return started
}
const outbox = () => engine.context.db.selectFrom('outbox').selectAll().orderBy('id').execute()
const delivered = () => until('the outbox is empty', async () => (await outbox()).length === 0)

describe('the relay', () => {
  test('starts a run with its skeleton, and nothing of its data', async () => {
    const { motor, starts } = fakeMotor()
    relay(motor)
    const runId = await engine.run(
      {
        inputs: { x: { type: 'string' } },
        steps: [{ id: 'a', tool: 'file_read', params: { path: '{{input.x}}' } }],
      },
      { x: 'private' },
    )
    await delivered()
    expect(starts).toHaveLength(1)
    expect(starts[0]?.input).toEqual({
      runId,
      interpreterVersion: 1,
      steps: [
        {
          id: 'a',
          tool: 'file_read',
          dependsOn: [],
          forEach: false,
          continueOnError: false,
          timeoutSeconds: 30,
        },
      ],
      gated: false,
      heartbeatSeconds: 10,
      searchAttributes: true,
    })
    expect(JSON.stringify(starts)).not.toContain('private')
  })

  test('tells again what failed, and says why meanwhile', async () => {
    let isGone = true
    const { motor, told } = fakeMotor(() => {
      if (isGone) throw new Error('no Temporal')
      return true
    })
    relay(motor)
    const runId = await engine.run()
    await until('failures are noted', async () => {
      const [row] = await outbox()
      return told.length >= 2 && row?.last_error === 'no Temporal'
    })
    isGone = false
    await delivered()
    expect(told.length).toBeGreaterThanOrEqual(3)
    expect(new Set(told)).toEqual(new Set([`start ${runId}`]))
  })

  test('keeps a wake or cancellation for a workflow that is still to be started; drops it once the run has ended', async () => {
    const { motor, told } = fakeMotor((kind) => kind === 'start')
    const runId = await engine.run()
    // With a call under way, so that the cancellation alone does not end the run.
    await go(engine, opOf(runId))
    await cancelRun(engine.context, { caller: engine.caller('member'), runId })
    relay(motor)
    await until('told twice', () => told.filter((each) => each === `cancel ${runId}`).length >= 2)
    expect(await outbox()).toMatchObject([
      { kind: 'run.cancel', last_error: 'the workflow is not running yet' },
    ])
    await finishRun(engine.context, { runId, status: 'cancelled' })
    await delivered()
  })

  test('does not start a run that has ended', async () => {
    const { motor, told } = fakeMotor()
    const runId = await engine.run()
    await finishRun(engine.context, { runId, status: 'cancelled' })
    await startRun(engine.context, motor, async () => true, runId)
    await startRun(engine.context, motor, async () => true, 'run_none')
    relay(motor)
    await delivered()
    expect(told).toEqual([])
  })

  test('of several processes tells each row once, more than one batch of them', async () => {
    const { motor, told } = fakeMotor()
    const first = await engine.run()
    const { workflow_id } = await engine.context.db
      .selectFrom('runs')
      .select('workflow_id')
      .where('id', '=', first)
      .executeTakeFirstOrThrow()
    const caller = engine.caller('member')
    await Promise.all(
      Array.from({ length: 120 }, () =>
        acceptRun(engine.context, { caller, workflowId: workflow_id, inputs: {} }),
      ),
    )
    for (const context of [engine.context, engine.another(), engine.another()]) relay(motor, context).kick()
    await delivered()
    expect(told).toHaveLength(121)
    expect(new Set(told).size).toBe(121)
  })
})

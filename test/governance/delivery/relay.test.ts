import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import type { Context } from '../../../src/governance/context.ts'
import type { WorkflowEngine, StartRequest } from '../../../src/governance/delivery/workflow-engine.ts'
import { startRelay, startRun, type Relay } from '../../../src/governance/delivery/relay.ts'
import { acceptRun } from '../../../src/governance/runs/start/accept.ts'
import { cancelRun } from '../../../src/governance/runs/end/cancel.ts'
import { finishRun } from '../../../src/governance/runs/end/finish.ts'
import { until } from '../../stack/until.ts'
import { go, opOf, startEngine, type Engine } from '../runs/engine-fixture.ts'

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

/** A stand-in for Temporal that records the calls of the relay. `answer` decides how it answers. */
function fakeMotor(answer: (kind: string) => boolean = () => true) {
  const told: string[] = []
  const starts: StartRequest[] = []
  const tell = (kind: string, runId: string): Promise<boolean> => {
    told.push(`${kind} ${runId}`)
    return Promise.resolve().then(() => answer(kind))
  }
  const motor: WorkflowEngine = {
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
const relay = (motor: WorkflowEngine, context: Context = engine.context): Relay => {
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

  test('repeats a failed delivery, and stores the reason meanwhile', async () => {
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

  test('keeps a wake-up or cancellation until the workflow has started; drops it once the run has ended', async () => {
    const { motor, told } = fakeMotor((kind) => kind === 'start')
    const runId = await engine.run()
    // A call is in progress, so the cancellation alone does not end the run.
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

  test('in several processes delivers each row once, over several batches', async () => {
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

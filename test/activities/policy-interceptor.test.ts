import { beforeEach, describe, expect, test } from '@jest/globals'
import type { Context as ActivityContext } from '@temporalio/activity'
import { ApplicationFailure } from '@temporalio/common'
import { isDecidedCall } from '../../src/activities/decided-call.ts'
import { createPolicyInterceptor } from '../../src/activities/policy-interceptor.ts'
import { expandStep } from '../../src/governance/runs/effects/items.ts'
import {
  effectOf,
  holdRule,
  opOf,
  runOf,
  stepOf,
  useEngine,
  type Engine,
} from '../governance/runs/engine-fixture.ts'
import { execute as executeIn, type Scheduled } from './execute.ts'

let engine: Engine
let runId: string
useEngine((started) => (engine = started))
beforeEach(async () => {
  runId = await engine.run({
    steps: [
      { id: 's', tool: 'file_read', params: { path: 'a' } },
      { id: 'later', tool: 'file_read', params: { path: '{{s.output.text}}' } },
      { id: 'each', tool: 'file_read', params: { path: '{{item}}' }, for_each: ['x', 'y'] },
    ],
  })
})

const execute = (scheduled: Partial<Scheduled> & { readonly args: unknown[] }) =>
  executeIn(engine.context, { workflowId: runId, activityType: 'file_read', ...scheduled })

const step = (stepId: string, itemIndex: number | null = null) => [{ runId, stepId, itemIndex }]

describe('a call that its run’s own workflow schedules', () => {
  test('is decided, runs as a decided call, and its outcome is recorded', async () => {
    const { answer, bodies } = await execute({ args: step('s') })
    expect(answer).toEqual({ outcome: 'completed' })
    expect(bodies).toHaveLength(1)
    expect(isDecidedCall(bodies[0])).toBe(true)
    const again = await execute({ args: step('s') })
    expect(again).toEqual({ answer: { outcome: 'completed' }, bodies: [] })
    expect((await execute({ args: step('later') })).answer).toEqual({ outcome: 'completed' })
    expect(await runOf(engine.context, runId)).toMatchObject({ nodes_executed: 2 })
  })

  test('is held, and the failure contains no parameter', async () => {
    await engine.rules(holdRule({ tools: ['file_read'] }))
    const { answer, bodies } = await execute({ args: step('s') })
    expect(bodies).toEqual([])
    expect(answer).toBeInstanceOf(ApplicationFailure)
    expect(answer).toMatchObject({
      type: 'ApprovalRequired',
      nonRetryable: true,
      message: 'waits for approval',
    })
  })

  test('fails before its body runs if its sealed parameters were changed', async () => {
    await execute({ args: step('s') })
    await engine.rules(holdRule({ tools: ['file_read'] }))
    await execute({ args: step('later') })
    const sealed = Buffer.from('broken')
    await engine.context.db
      .updateTable('effects')
      .set({ params_sealed: sealed })
      .where('step_id', '=', 'later')
      .execute()
    const { answer, bodies } = await execute({ args: step('later') })
    expect(answer).toMatchObject({ type: 'StepEnded', nonRetryable: true, details: [{ outcome: 'failed' }] })
    expect(bodies).toEqual([])
    expect(await stepOf(engine.context, runId, 'later')).toMatchObject({ error: { code: 'not_prepared' } })
  })

  test('that cannot be decided fails without details and is given up in the end; outages do not count', async () => {
    await engine.rules(holdRule({ tools: ['file_read'] }))
    await execute({ args: step('s') })
    await engine.context.db.updateTable('effects').set({ params_hash: 'other' }).execute()
    const { answer, bodies } = await execute({ args: step('s') })
    expect(answer).toMatchObject({ type: 'Unavailable', message: 'the call could not be decided' })
    expect((await execute({ args: step('s'), attempt: 50_000 })).answer).toMatchObject({
      type: 'Unavailable',
    })
    const counted = engine.context.pool.query('update unexpected_errors set errors = 1998 returning errors')
    expect((await counted).rows).toHaveLength(1)
    expect((await execute({ args: step('s') })).answer).toMatchObject({ type: 'Unavailable' })
    expect((await execute({ args: step('later') })).answer).toMatchObject({ type: 'Refused', message: expect.stringContaining('waits for') }) // prettier-ignore
    expect((await execute({ args: step('s') })).answer).toMatchObject({
      type: 'Refused',
      nonRetryable: true,
      message: expect.stringContaining('2000 unexpected errors'),
    })
    expect(bodies).toEqual([])
  })

  test('is refused after a denied step, whatever the workflow says', async () => {
    await engine.rules({ name: 'no', verdict: 'deny', tools: ['file_read'] })
    expect((await execute({ args: step('s') })).answer).toMatchObject({ type: 'StepEnded' })
    await engine.rules()
    const { answer, bodies } = await execute({ args: step('later') })
    expect(answer).toMatchObject({ type: 'Refused', nonRetryable: true })
    expect(bodies).toEqual([])
  })

  test.each(['file_read', 'finishRun'])(
    'of a run in another database is left to that database’s worker: %s',
    async (activityType) => {
      const args =
        activityType === 'finishRun'
          ? [{ runId: 'run_none', status: 'failed' }]
          : [{ runId: 'run_none', stepId: 's', itemIndex: null }]
      const { answer, bodies } = await execute({ workflowId: 'run_none', activityType, args })
      expect(answer).toMatchObject({ type: 'Unavailable', nonRetryable: false, nextRetryDelay: 5_000 })
      expect(bodies).toEqual([])
    },
  )
})

describe('refused, without a trace in the run:', () => {
  const refusals: readonly (readonly [string, () => Parameters<typeof execute>[0]])[] = [
    ['a call of another workflow', () => ({ workflowId: 'other', args: step('s') })],
    ['no argument', () => ({ args: [] })],
    ['an argument of another shape', () => ({ args: [{ runId, stepId: 7, itemIndex: null }] })],
    ['an unknown step', () => ({ args: step('zz') })],
    ['another tool', () => ({ activityType: 'mail_send', args: step('s') })],
    ['an item of a step without items', () => ({ args: step('s', 0) })],
    ['a whole step that has items', () => ({ args: step('each') })],
    ['an item before the step is expanded', () => ({ args: step('each', 0) })],
    ['a negative item', () => ({ args: step('each', -1) })],
    ['half an item', () => ({ args: step('each', 0.5) })],
    ['a step whose dependencies have not ended', () => ({ args: step('later') })],
    ['the end of another run', () => ({ workflowId: 'other', activityType: 'finishRun', args: [{ runId, status: 'completed' }] })], // prettier-ignore
    ['entering another run', () => ({ workflowId: 'other', activityType: 'enterRun', args: [runId] })],
    ['expanding a step of another run', () => ({ workflowId: 'other', activityType: 'expandStep', args: [runId, 'each'] })], // prettier-ignore
  ]
  test.each(refusals)('%s', async (_name, scheduled) => {
    const before = await runOf(engine.context, runId)
    const { answer, bodies } = await execute(scheduled())
    expect(answer).toMatchObject({ type: 'Refused', nonRetryable: true })
    expect(bodies).toEqual([])
    expect(await runOf(engine.context, runId)).toEqual(before)
  })

  test('an item beyond those that the step was expanded to', async () => {
    expect(await expandStep(engine.context, runId, 'each')).toEqual({ count: 2 })
    const { answer, bodies } = await execute({ args: step('each', 2) })
    expect(answer).toMatchObject({ type: 'Refused', nonRetryable: true })
    expect(bodies).toEqual([])
    expect(
      await effectOf(engine.context, opOf(runId, { key: { runId, stepId: 'each', itemIndex: 2 } })),
    ).toBeUndefined()
    expect((await execute({ args: step('each', 1) })).answer).toEqual({ outcome: 'completed' })
  })
})

test('errors of the interpreter’s own activities are not shown to Temporal', async () => {
  const activity = {
    info: {
      activityType: 'finishRun',
      activityId: '1',
      workflowExecution: { workflowId: runId, runId: 'r' },
    },
  } as unknown as ActivityContext
  const { inbound } = createPolicyInterceptor(engine.context)(activity)
  const failing = inbound.execute?.({ args: [{ runId }], headers: {} }, () =>
    Promise.reject(new Error('a secret')),
  )
  await expect(failing).rejects.toMatchObject({
    message: 'the call could not be decided',
    type: 'Unavailable',
  })
})

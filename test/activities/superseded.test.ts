import { expect, test } from '@jest/globals'
import { ApplicationFailure } from '@temporalio/common'
import type { DecidedCall } from '../../src/activities/decided-call.ts'
import { cancelRun } from '../../src/governance/runs/end/cancel.ts'
import { effectOf, opOf, useEngine, type Engine } from '../governance/runs/engine-fixture.ts'
import { execute } from './execute.ts'

/* An attempt that may not act any more sends nothing, and its end is no unexpected error. */

let engine: Engine
useEngine((started) => (engine = started))

const mail = { to: 'a@b.test', subject: 's', text: 't' }
const start = () => engine.run({ steps: [{ id: 's', tool: 'mail_send', params: mail }] })

/** One attempt. Its body sends after `before` and the point of no return. */
async function attempt(runId: string, before: () => Promise<unknown> = async () => {}) {
  let sent = 0
  const { answer } = await execute(engine.context, {
    workflowId: runId,
    activityType: 'mail_send',
    args: [{ runId, stepId: 's', itemIndex: null }],
    body: async (decided) => {
      await before()
      await (decided as DecidedCall).context.pointOfNoReturn()
      sent += 1
      return { output: { message_id: 'm', accepted: [] } }
    },
  })
  const ended = answer instanceof ApplicationFailure ? [answer.type, ...(answer.details ?? [])] : [answer]
  return { ended, sent }
}
const unexpected = async () =>
  (await engine.context.pool.query('select activity_id from unexpected_errors')).rows

test('a run that was cancelled before its call acts: the call ends as cancelled', async () => {
  const runId = await start()
  // Temporal has not delivered the cancellation yet.
  const cancelled = await attempt(runId, () =>
    cancelRun(engine.context, { caller: engine.caller('member'), runId }),
  )
  expect(cancelled).toEqual({ ended: ['StepEnded', { outcome: 'cancelled' }], sent: 0 })
  expect(await effectOf(engine.context, opOf(runId))).toMatchObject({ state: 'cancelled', sent_at: null })
  expect(await unexpected()).toEqual([])
})

test('a newer attempt has made the call: the older one says so', async () => {
  const runId = await start()
  let newer: unknown
  const older = await attempt(runId, async () => (newer = await attempt(runId)))
  expect(newer).toEqual({ ended: [{ outcome: 'completed' }], sent: 1 })
  expect(older).toEqual({ ended: [{ outcome: 'completed' }], sent: 0 })
  expect(await unexpected()).toEqual([])
})

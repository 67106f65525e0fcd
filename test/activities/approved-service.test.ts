import { afterAll, beforeAll, beforeEach, expect, test } from '@jest/globals'
import { ApplicationFailure } from '@temporalio/common'
import type { DecidedCall } from '../../src/activities/decided-call.ts'
import { StateChanged, ToolError } from '../../src/activities/tools/executor.ts'
import { stateReaders } from '../../src/activities/tools/index.ts'
import { getTool } from '../../src/catalog/index.ts'
import type { Precondition } from '../../src/catalog/tool.ts'
import {
  approvalsOf,
  effectOf,
  holdRule,
  opOf,
  useEngine,
  type Engine,
} from '../governance/runs/engine-fixture.ts'
import { execute } from './execute.ts'
import { held } from './memory-calls.ts'

/* An approval of a call to a service outside covers the state that its approvers saw there. */

let engine: Engine
useEngine((started) => (engine = started))

let revision = 'r1'
let sent = 0
const tool = getTool('mail_send') as { precondition?: Precondition }
const readers = stateReaders as Record<string, unknown>
beforeAll(() => void (readers['mail_send'] = async () => ({ revision, fields: { title: 'a title' } })))
afterAll(() => {
  delete tool.precondition
  delete readers['mail_send']
})
beforeEach(async () => {
  revision = 'r1'
  sent = 0
  await engine.rules(holdRule())
})

const mail = async (): Promise<string> =>
  engine.run({
    steps: [{ id: 's', tool: 'mail_send', params: { to: 'a@b.test', subject: 's', text: 't' } }],
  })
/** One attempt. After the point of no return, its body sends, or reports that the call has found another revision. */
async function send(
  runId: string,
  accepts: (given: string | null) => boolean = () => true,
): Promise<unknown> {
  const { answer } = await execute(engine.context, {
    workflowId: runId,
    activityType: 'mail_send',
    args: [{ runId, stepId: 's', itemIndex: null }],
    body: async (decided) => {
      const { call, context } = decided as DecidedCall
      await context.pointOfNoReturn()
      if (!accepts(call.revision)) throw new StateChanged()
      sent += 1
      return { output: { message_id: 'm', accepted: [] } }
    },
  })
  return answer instanceof ApplicationFailure ? answer.type : (answer as { outcome: string }).outcome
}
const approveNewest = async (runId: string) =>
  engine.vote((await approvalsOf(engine.context, runId)).at(-1)!.id, 'admin')

test.each(['before', 'call'] as const)(
  'checked by `%s`: a change asks again, and nothing is sent',
  async (check) => {
    tool.precondition = { of: 'the thing', check }
    const accepts = (given: string | null) => check === 'before' || given === revision
    const runId = await mail()
    expect(await send(runId, accepts)).toBe(held)
    await approveNewest(runId)
    revision = 'r2'
    expect(await send(runId, accepts)).toBe(held)
    expect(sent).toBe(0)
    expect(await effectOf(engine.context, opOf(runId))).toMatchObject({ state: 'held', sent_at: null })
    const [, second] = await approvalsOf(engine.context, runId)
    expect(second?.held_again).toBe('the thing has changed since it was approved')
    await approveNewest(runId)
    expect(await send(runId, accepts)).toBe('completed')
    expect(sent).toBe(1)
  },
)

test('a service that cannot be read before sending fails the attempt', async () => {
  tool.precondition = { of: 'the thing', check: 'before' }
  const runId = await mail()
  await send(runId)
  await approveNewest(runId)
  const real = readers['mail_send']
  readers['mail_send'] = async () => {
    throw new ToolError('away', 'the service is away', { retryable: true })
  }
  try {
    expect(await send(runId)).toBe('Unavailable')
  } finally {
    readers['mail_send'] = real
  }
  expect(sent).toBe(0)
  expect(await send(runId)).toBe('completed')
})

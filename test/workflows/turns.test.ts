import { beforeEach, describe, expect, test } from '@jest/globals'
import { approvalsOf } from '../governance/runs/engine-fixture.ts'
import { until } from '../stack/until.ts'
import { closed, historiesOf, replay } from './histories.ts'
import { mail, onPath, quick, read, useTestStack, type FakeReads, type Stack } from './worker-fixture.ts'

let stack: Stack
let reads: FakeReads

/*
 * Quick calls that end one after the other. In a replay, the SDK gives the workflow several of their results at once
 * (docs/decisions/0277).
 */
describe('results of quick calls that come one by one, and at once in a replay', () => {
  useTestStack((...both) => ([stack, reads] = both))
  beforeEach(() => stack.settings({ approval_required_from: null }))

  const retry = { attempts: 2, backoff_seconds: 0 }
  const steps = [
    read('first', 'wait-first', quick),
    // After its failure the run starts a timer, in fewer microtasks than it needs to start the steps after `first`.
    read('flaky', 'wait-flaky', { ...quick, retry }),
    mail('mail', { depends_on: ['first'] }),
    read('next', 'wait-next', { ...quick, depends_on: ['first'] }),
    read('each', '{{item}}', { ...quick, retry, for_each: ['wait-x', 'wait-y-flaky', 'wait-z'] }),
    read('last', 'hold', { depends_on: ['next', 'each', 'mail', 'flaky'] }),
  ]

  /** Starts the run and lets its first calls end one by one, so that the run reads each result before the next. */
  async function begin(): Promise<string> {
    await stack.rules(onPath('require_approval', 'hold'))
    const runId = await stack.run({ steps })
    await until('five calls wait', () => reads.waiting() === 5)
    reads.release('wait-first')
    await until('the run has read the first result', () => reads.calls.has('wait-next'))
    for (const path of ['wait-flaky', 'wait-z', 'wait-y', 'wait-x', 'wait-next']) {
      const left = reads.waiting() - 1
      reads.release(path)
      await until('the call ends', () => reads.waiting() <= left)
    }
    return runId
  }

  test('the history replays', async () => {
    const runId = await begin()
    await stack.vote(await stack.held(runId), 'admin')
    expect(await stack.ended(runId)).toMatchObject({
      run: 'completed',
      flaky: 'completed',
      each: 'completed',
    })
    await closed(stack, runId)
    await replay(stack, runId)
  })

  test('a new worker, which must replay the history, goes on with the run', async () => {
    const runId = await begin()
    const approvalId = await stack.held(runId)
    await stack.stopWorkers()
    await stack.startWorker()
    await stack.vote(approvalId, 'admin')
    expect(await stack.ended(runId)).toMatchObject({ run: 'completed', last: 'completed' })
    await closed(stack, runId)
    const [history] = await historiesOf(stack, runId)
    expect((history?.events ?? []).filter((event) => event.workflowTaskFailedEventAttributes)).toEqual([])
  })

  test('the history replays although approvals have expired between the results', async () => {
    const expires = (path: string, seconds: number) =>
      onPath('require_approval', path, { name: path, expires_after_seconds: seconds })
    await stack.rules(expires('later', 2), expires('sooner', 1))
    const goOn = { ...quick, on_error: 'continue' }
    const last = read('last', 'wait-last', quick)
    const first = read('first', 'wait-first', quick)
    const sooner = read('sooner', 'sooner', { ...goOn, depends_on: ['first'] })
    const runId = await stack.run({ steps: [read('later', 'later', goOn), first, sooner, last] })
    const approvals = () => approvalsOf(stack.context, runId)
    await until('one is held', async () => (await approvals()).length === 1)
    reads.release('wait-first')
    await until('two are held', async () => (await approvals()).length === 2)
    const expired = ({ expires_at }: { expires_at: Date | null }) =>
      expires_at !== null && expires_at.getTime() < Date.now()
    await until('both expire', async () => (await approvals()).every(expired))
    reads.release()
    expect(await stack.ended(runId)).toMatchObject({ last: 'completed' })
    await closed(stack, runId)
    await replay(stack, runId)
  })
})

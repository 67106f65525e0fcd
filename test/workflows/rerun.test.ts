import { expect, test } from '@jest/globals'
import { rerun, type RerunRequest } from '../../src/governance/runs/start/rerun.ts'
import { mail, read, useTestStack, type FakeReads, type Stack } from './worker-fixture.ts'

let stack: Stack
let reads: FakeReads
useTestStack((...both) => ([stack, reads] = both))

const again = async (runId: string, over: Partial<RerunRequest> = {}): Promise<string> => {
  const request: RerunRequest = {
    caller: stack.caller('member'),
    runId,
    from: 'failed',
    version: 'same',
    inputs: {},
    onRepeat: 'hold',
    unknownHappened: null,
    ...over,
  }
  return (await rerun(stack.context, request)).runId
}
const subjects = () => stack.sink.messages.map(({ source }) => /^Subject: (.*)$/m.exec(source)?.[1])
const stepOf = async (runId: string, id: string) =>
  (await stack.readRun(runId))?.steps.find((each) => each.id === id)

/** The third step fails until its input is corrected. */
const report = {
  inputs: { last: { type: 'string', required: true } },
  steps: [
    read('first', 'a'),
    mail('tell', { depends_on: ['first'], params: { to: 'a@b.test', subject: 'tell {{run.id}}', text: '{{now}}' } }),
    read('last', '{{input.last}}', { depends_on: ['tell'] }),
  ],
}

test('what was completed is taken over with its output, and only the failed step runs', async () => {
  const first = await stack.run(report, { last: 'fail' })
  expect(await stack.ended(first)).toMatchObject({ run: 'failed', tell: 'completed', last: 'failed' })
  const second = await again(first, { inputs: { last: 'b' } })
  expect(await stack.ended(second)).toEqual({
    run: 'completed',
    first: 'completed',
    tell: 'completed',
    last: 'completed',
  })
  expect(reads.calls).toEqual(new Map([['a', 1], ['fail', 1], ['b', 1]]))
  expect(subjects()).toEqual([`tell ${first}`])
  const run = await stack.readRun(second)
  expect(run).toMatchObject({ rerun_of: first, nodes_executed: 1 })
  expect(run?.outputs).toMatchObject({ first: { text: 'a' }, last: { text: 'b' } })
  expect(run?.steps.map(({ reused_from }) => reused_from)).toEqual([first, first, null])
})

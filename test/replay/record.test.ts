import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeEach, describe, expect, test } from '@jest/globals'
import { historyToJSON } from '@temporalio/common/lib/proto-utils.js'
import type { temporal } from '@temporalio/proto'
import { Worker } from '@temporalio/worker'
import { workflowBundlePath } from '../../src/workflow-bundle.ts'
import { useTestStack, type FakeReads, type Stack } from '../workflows/worker-fixture.ts'
import { scenarios } from './scenarios.ts'

/**
 * Every scenario for real; its fresh history replays. With RECORD_HISTORIES=1 the histories become the recorded ones:
 * only for scenarios and interpreter versions that are new, the others are what released versions have written.
 */
type History = temporal.api.history.v1.IHistory
let stack: Stack
let reads: FakeReads
useTestStack((...both) => ([stack, reads] = both))
beforeEach(() => stack.settings({ approval_required_from: null }))

describe('a run of every kind', () => {
  test.each(Object.entries(scenarios))('%s ends as it should and replays', async (name, scenario) => {
    const { runId, ends } = await scenario(stack, reads)
    expect((await stack.ended(runId))['run']).toBe(ends)
    const handle = stack.client.workflow.getHandle(runId)
    await handle.result()
    const history = await handle.fetchHistory()
    await Worker.runReplayHistory({ workflowBundle: { codePath: await workflowBundlePath() } }, history, runId)
    if (process.env['RECORD_HISTORIES'] === '1')
      writeFileSync(join(import.meta.dirname, `${name}.json`), textOf(history))
  })
})

/** Without what tells of the machine that recorded it. */
function textOf(history: History): string {
  const machine = new Set(['stackTrace', 'identity', 'workerVersion', 'requestId', 'binaryChecksum', 'sdkMetadata'])
  const plain = JSON.parse(historyToJSON(history)) as object
  // Sticky queues are named after their worker's process and host.
  const named = (value: unknown) => (typeof value === 'string' && /^\d+@/.test(value) ? 'worker' : value)
  return `${JSON.stringify(plain, (key, value: unknown) => (machine.has(key) ? undefined : named(value)), 1)}\n`
}

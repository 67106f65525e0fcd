import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from '@jest/globals'
import { historyToJSON } from '@temporalio/common/lib/proto-utils.js'
import type { temporal } from '@temporalio/proto'
import { Worker } from '@temporalio/worker'
import { workflowBundlePath } from '../../src/workflow-bundle.ts'
import { historiesOf } from '../workflows/histories.ts'
import type { FakeReads, Stack } from '../workflows/worker-fixture.ts'
import type { Scenario } from './scenarios.ts'

type History = temporal.api.history.v1.IHistory

/**
 * A scenario for real; its fresh histories replay. With RECORD_HISTORIES=1 they become the recorded ones (`name.json`,
 * or `name-1.json` and so on where the run went on in new ones): only for scenarios and interpreter versions that are
 * new, the others are what released versions have written. Answers how many there are.
 */
export async function record(stack: Stack, reads: FakeReads, name: string, scenario: Scenario): Promise<number> {
  const { runId, ends } = await scenario(stack, reads)
  expect((await stack.ended(runId))['run']).toBe(ends)
  await stack.client.workflow.getHandle(runId).result()
  const histories = await historiesOf(stack, runId)
  for (const [index, history] of histories.entries()) {
    await Worker.runReplayHistory({ workflowBundle: { codePath: await workflowBundlePath() } }, history, runId)
    const suffix = histories.length === 1 ? '' : `-${index + 1}`
    if (process.env['RECORD_HISTORIES'] === '1')
      writeFileSync(join(import.meta.dirname, `${name}${suffix}.json`), textOf(history))
  }
  return histories.length
}

/** Without what tells of the machine that recorded it; the flags in `sdkMetadata` say how its events are to be read. */
function textOf(history: History): string {
  const machine = new Set(['stackTrace', 'identity', 'workerVersion', 'requestId', 'binaryChecksum'])
  const plain = JSON.parse(historyToJSON(history)) as object
  // Sticky queues are named after their worker's process and host.
  const named = (value: unknown) => (typeof value === 'string' && /^\d+@/.test(value) ? 'worker' : value)
  return `${JSON.stringify(plain, (key, value: unknown) => (machine.has(key) ? undefined : named(value)), 1)}\n`
}

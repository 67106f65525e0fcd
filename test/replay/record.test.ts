import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeEach, describe, expect, test } from '@jest/globals'
import { historyToJSON } from '@temporalio/common/lib/proto-utils.js'
import type { temporal } from '@temporalio/proto'
import { Worker } from '@temporalio/worker'
import { workflowBundlePath } from '../../src/programs/workflow-bundle.ts'
import { closed, historiesOf } from '../workflows/histories.ts'
import { useTestStack, type FakeReads, type Stack } from '../workflows/worker-fixture.ts'
import { continued, scenarios, type Scenario } from './scenarios.ts'

type History = temporal.api.history.v1.IHistory

let stack: Stack
let reads: FakeReads

describe('a run of every kind', () => {
  useTestStack((...both) => ([stack, reads] = both))
  beforeEach(() => stack.settings({ approval_required_from: null }))

  test.each(Object.entries(scenarios))('%s ends as expected and replays', async (name, scenario) => {
    expect(await record(name, scenario)).toBe(1)
  })
})

describe('a run that continues in new histories', () => {
  useTestStack((...both) => ([stack, reads] = both), { suggestAfterEvents: '40' })
  beforeEach(() => stack.settings({ approval_required_from: null }))

  test.each(Object.entries(continued))('%s ends as expected, and each of its histories replays', async (name, scenario) => {
    expect(await record(name, scenario)).toBeGreaterThan(1)
  })
})

/**
 * Runs a scenario and replays its new histories. With RECORD_HISTORIES=1 it also stores them (`name.json`, or
 * `name-1.json` and so on if the run continued in new histories). Do this only for new scenarios (with `-t NAME`) and new
 * interpreter versions: the other files are what runs in progress have. Returns the number of histories.
 */
async function record(name: string, scenario: Scenario): Promise<number> {
  const { runId, ends } = await scenario(stack, reads)
  expect((await stack.ended(runId))['run']).toBe(ends)
  await closed(stack, runId)
  const histories = await historiesOf(stack, runId)
  for (const [index, history] of histories.entries()) {
    await Worker.runReplayHistory({ workflowBundle: { codePath: await workflowBundlePath() } }, history, runId)
    const suffix = histories.length === 1 ? '' : `-${index + 1}`
    if (process.env['RECORD_HISTORIES'] === '1')
      writeFileSync(join(import.meta.dirname, `${name}${suffix}.json`), textOf(history))
  }
  return histories.length
}

/**
 * The text of a history without everything about the machine that recorded it. The flags in `sdkMetadata` stay, because
 * replay needs them.
 */
function textOf(history: History): string {
  const machine = new Set(['stackTrace', 'identity', 'workerVersion', 'requestId', 'binaryChecksum'])
  const plain = JSON.parse(historyToJSON(history)) as object
  // Sticky queues are named after their worker's process and host.
  const named = (value: unknown) => (typeof value === 'string' && /^\d+@/.test(value) ? 'worker' : value)
  return `${JSON.stringify(plain, (key, value: unknown) => (machine.has(key) ? undefined : named(value)), 1)}\n`
}

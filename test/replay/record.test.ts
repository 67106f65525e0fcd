import { beforeEach, describe, expect, test } from '@jest/globals'
import { useTestStack, type FakeReads, type Stack } from '../workflows/worker-fixture.ts'
import { record } from './record.ts'
import { continued, scenarios } from './scenarios.ts'

let stack: Stack
let reads: FakeReads

describe('a run of every kind', () => {
  useTestStack((...both) => ([stack, reads] = both))
  beforeEach(() => stack.settings({ approval_required_from: null }))

  test.each(Object.entries(scenarios))('%s ends as expected and replays', async (name, scenario) => {
    expect(await record(stack, reads, name, scenario)).toBe(1)
  })
})

describe('a run that continues in new histories', () => {
  useTestStack((...both) => ([stack, reads] = both), { suggestAfterEvents: '40' })
  beforeEach(() => stack.settings({ approval_required_from: null }))

  test.each(Object.entries(continued))('%s ends as expected, and each of its histories replays', async (name, scenario) => {
    expect(await record(stack, reads, name, scenario)).toBeGreaterThan(1)
  })
})

import { describe, expect, test } from '@jest/globals'
import { useTestStack, type FakeReads, type Stack } from '../workflows/worker-fixture.ts'
import { record } from './record.ts'
import { continued } from './scenarios.ts'

let stack: Stack
let reads: FakeReads
useTestStack((...both) => ([stack, reads] = both), { suggestAfterEvents: '40' })

describe('a run that continues in new histories', () => {
  test.each(Object.entries(continued))('%s ends as expected, and each of its histories replays', async (name, scenario) => {
    expect(await record(stack, reads, name, scenario)).toBeGreaterThan(2)
  })
})

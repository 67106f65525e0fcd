import { beforeEach, describe, expect, test } from '@jest/globals'
import { useTestStack, type FakeReads, type Stack } from '../workflows/worker-fixture.ts'
import { record } from './record.ts'
import { scenarios } from './scenarios.ts'

let stack: Stack
let reads: FakeReads
useTestStack((...both) => ([stack, reads] = both))
beforeEach(() => stack.settings({ approval_required_from: null }))

describe('a run of every kind', () => {
  test.each(Object.entries(scenarios))('%s ends as expected and replays', async (name, scenario) => {
    expect(await record(stack, reads, name, scenario)).toBe(1)
  })
})

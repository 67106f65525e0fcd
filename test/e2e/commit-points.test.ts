import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { commitPoints, type CommitPoint } from '../../src/governance/audit/commit-points.ts'
import { expectFinished, expectQuiet } from '../support/chaos-checks.ts'
import { besideRuns } from './commit-points/beside-runs.ts'
import { aroundCalls } from './commit-points/calls.ts'
import { both, Kills } from './commit-points/kills.ts'
import { aroundMessages } from './commit-points/messages.ts'
import { aroundMail, beforeMail } from './commit-points/runs.ts'

/*
 * The process is killed at each named commit point, one after another, and the run must reach its right end. All
 * tests share one stack: the process that reaches the armed point kills itself, and the supervisor starts it again.
 * Recoveries overlap, except while a mail is being sent: each of these kills has the stack to itself. So
 * `unknown_outcome` is expected exactly where bytes may have left.
 */

const kills = new Kills()
beforeAll(() => kills.open())
afterAll(() => kills.home?.close())

describe('a process killed at a commit point', () => {
  afterAll(async () => {
    await Promise.allSettled(kills.waiting)
  })

  beforeMail(kills)
  aroundMail(kills)
  aroundCalls(kills)
  aroundMessages(kills)
  besideRuns(kills)

  test('every remaining run ends correctly', async () => {
    for (const started of kills.held.splice(0)) {
      await kills.approve(await kills.heldMail(started))
      kills.later(started.runId.then((runId) => expectFinished(kills.home, runId, started.subject)))
    }
    await Promise.all(kills.waiting)
    await expectQuiet(kills.home)
  })

  test('every named point was covered, before and after', () => {
    const every = both(...(Object.keys(commitPoints) as CommitPoint[]))
    expect([...new Set(kills.home.faults.fired)].sort()).toEqual(every.sort())
  })
})

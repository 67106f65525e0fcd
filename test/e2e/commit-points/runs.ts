import { randomUUID } from 'node:crypto'
import { expect, test } from '@jest/globals'
import type { Answer } from '../../support/client.ts'
import type { Run } from '../../support/client-types.ts'
import { expectFinished } from '../../support/chaos-checks.ts'
import type { Fault } from '../../support/chaos.ts'
import { both, mailOf, type Kills, type Started } from './kills.ts'

/** Points reached by accepting a run, by the vote on it and its work up to the held mail, and by the approved mail. */
const onAccept = both('run.accept', 'outbox.deliver')
const onStart = both(
  'approval.vote',
  'run.enter',
  'effect.decide',
  'step.expand',
  'effect.outcome',
  'step.finish',
)
const onMail = both('effect.decide', 'effect.sent', 'effect.outcome', 'run.finish')
/** Points at which bytes of the mail may have left without a record. */
const unknowable: readonly Fault[] = ['effect.sent:after', 'effect.outcome:before']

/** Kills while runs are accepted and start, until their mail is held. */
export function beforeMail(kills: Kills): void {
  test.each(onAccept)('%s: the run is accepted once', async (fault) => {
    let started!: Started
    await kills.home.faults.at(fault, () => (started = kills.start(fault)))
    kills.held.push(started)
    kills.later(kills.approveRun(started))
  })

  test.each(onStart)('%s: the run starts once', async (fault) => {
    const started = kills.start(`start ${fault}`)
    const approvalId = await kills.home.approver.untilHeld(await started.runId, 'run')
    await kills.home.faults.at(fault, () => kills.later(kills.approve(approvalId)))
    kills.held.push(started)
  })

  test('all of them reach their held mail, and finished steps ran once', async () => {
    await Promise.all(kills.waiting)
    for (const started of kills.held) {
      await kills.heldMail(started)
      expect(kills.home.sink.count(started.subject)).toBe(0)
    }
  })
}

/** Kills while a held mail is sent, or ends in another way. */
export function aroundMail(kills: Kills): void {
  test.each(onMail)(
    '%s: the mail is sent once, and unknown only where bytes may have left',
    async (fault) => {
      const started = kills.held.pop() as Started
      const runId = await started.runId
      const approvalId = await kills.heldMail(started)
      await kills.home.faults.at(fault, () => kills.later(kills.approve(approvalId)))
      const settled = await kills.home.member.untilRun(runId, 'past its mail', (run) =>
        mailOf(run).status === 'unknown_outcome'
          ? run.status === 'paused'
          : ['completed', 'failed'].includes(mailOf(run).status),
      )
      expect(mailOf(settled).status).toBe(unknowable.includes(fault) ? 'unknown_outcome' : 'completed')
      const dots = kills.home.sink
        .connections()
        .filter((each) => each.subject === started.subject && each.dot)
      expect(dots).toHaveLength(fault === 'effect.sent:after' ? 0 : 1)
      if (mailOf(settled).status === 'unknown_outcome') {
        const outcome = kills.home.sink.count(started.subject) === 0 ? 'retry' : 'done'
        expect((await kills.home.approver.resolve(runId, 'send', outcome)).status).toBe(200)
      }
      // This run must end before the next point is armed: a mail that is sent again would trigger that point.
      await expectFinished(kills.home, runId, started.subject)
    },
  )

  test.each(both('run.cancel'))('%s: cancelled once, nothing is sent', async (fault) => {
    const started = kills.held.pop() as Started
    const runId = await started.runId
    await kills.heldMail(started)
    let answer!: Promise<Answer<Run>>
    await kills.home.faults.at(fault, () => {
      answer = kills.home.member.cancel(runId, { key: randomUUID() })
    })
    kills.later(
      answer.then(async ({ status }) => {
        expect(status).toBe(200)
        const run = await kills.home.member.untilStatus(runId, 'cancelled')
        expect(mailOf(run).status).toBe('cancelled')
        expect(kills.home.sink.count(started.subject)).toBe(0)
      }),
    )
  })

  test.each(both('approval.expire'))('%s: expired once, nothing is sent', async (fault) => {
    const started = kills.held.pop() as Started
    const runId = await started.runId
    const approvalId = await kills.heldMail(started)
    // Only the stored deadline changes: a run's timer with this deadline could fire as early as the sweeper.
    await kills.home.faults.at(fault, () => {
      void kills.home.query('update approvals set expires_at = clock_timestamp() where id = $1', [approvalId])
    })
    kills.later(
      kills.home.member
        .untilStatus(runId, 'expired')
        .then(() => expect(kills.home.sink.count(started.subject)).toBe(0)),
    )
  })

  test.each(both('effect.resolve'))('%s: an unknown outcome is resolved once', async (fault) => {
    const started = kills.held.pop() as Started
    const runId = await started.runId
    await kills.home.sink.behave({ kind: 'drop', taken: true })
    await kills.approve(await kills.heldMail(started))
    await kills.home.member.untilRun(runId, 'unknown', (run) => mailOf(run).status === 'unknown_outcome')
    await kills.home.sink.behave({ kind: 'accept' })
    let answer!: Promise<Answer<Run>>
    await kills.home.faults.at(fault, () => {
      answer = kills.home.approver.resolve(runId, 'send', 'done', { key: randomUUID() })
    })
    kills.later(
      answer.then(async ({ status }) => {
        expect(status).toBe(200)
        await expectFinished(kills.home, runId, started.subject)
      }),
    )
  })
}

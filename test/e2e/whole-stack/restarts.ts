import { describe, expect, test } from '@jest/globals'
import { randomUUID } from 'node:crypto'
import { until } from '../../stack/until.ts'
import { heldRun } from '../../support/chaos.ts'
import { expectFinished } from '../../support/chaos-checks.ts'
import type { Run } from '../../support/client-types.ts'
import { home, workflowId } from './home.ts'

/**
 * Processes that stop and restart: restarts with runs in flight, several API and worker processes, and mails whose
 * outcome is unknown.
 */
export function restarts(): void {
  describe('with restarts and mails under way', () => {
    const mailOf = (run: Run) => run.steps.find((step) => step.id === 'send')
    const untilMail = (runId: string, status: string) =>
      home.member.untilRun(runId, `one whose mail is ${status}`, (run) => mailOf(run)?.status === status)

    describe('a mail that is being sent', () => {
      test('has an unknown outcome if its worker is killed after the final dot, and is not sent again unless a person asks', async () => {
        const held = await heldRun(home, workflowId)
        await home.sink.behave({ kind: 'hold' })
        await home.approver.decide(held.approvalId, 'approve')
        await home.member.untilRun(held.runId, 'sent', () => home.sink.count(held.subject) === 1)
        await home.stack.kill9('worker')
        await home.sink.behave({ kind: 'accept' })
        const run = await home.member.untilRun(
          held.runId,
          'paused by the unknown outcome of its mail',
          (each) => each.status === 'paused' && mailOf(each)?.status === 'unknown_outcome',
        )
        expect(run).toMatchObject({
          status_reason: expect.stringContaining('an approver must resolve it'),
        })
        expect(home.sink.connections().filter((each) => each.subject === held.subject)).toEqual([
          { kind: 'connection', subject: held.subject, dot: true },
        ])
        expect(home.sink.count(held.subject)).toBe(1)
        expect(await home.member.resolve(held.runId, 'send', 'retry')).toMatchObject({
          status: 403,
          code: 'insufficient_role',
        })
        expect((await home.approver.resolve(held.runId, 'send', 'done')).status).toBe(200)
        await expectFinished(home, held.runId, held.subject)
        expect(await home.approver.resolve(held.runId, 'send', 'retry')).toMatchObject({
          status: 409,
          code: 'bad_transition',
        })
      })

      test('is sent again once for one `retry`, even if the answer to the retry was lost', async () => {
        const held = await heldRun(home, workflowId)
        await home.sink.behave({ kind: 'drop', taken: false })
        await home.approver.decide(held.approvalId, 'approve')
        await untilMail(held.runId, 'unknown_outcome')
        const dots = () =>
          home.sink.connections().filter((each) => each.subject === held.subject && each.dot).length
        expect(dots()).toBe(1)
        const key = randomUUID()
        expect((await home.approver.resolve(held.runId, 'send', 'retry', { key })).status).toBe(200)
        await home.member.untilRun(
          held.runId,
          'unknown again',
          (run) => dots() === 2 && mailOf(run)?.status === 'unknown_outcome',
        )
        // The state after the API died between the act and its answer, and the API's lock has expired.
        await home.query(
          `update idempotency_keys set response_status = null, locked_until = clock_timestamp() - interval '1 s' where key = $1`,
          [key],
        )
        const again = await home.approver.resolve(held.runId, 'send', 'retry', { key })
        expect({ status: again.status, mail: mailOf(again.body)?.status }).toEqual({
          status: 200,
          mail: 'unknown_outcome',
        })
        await home.sink.behave({ kind: 'accept' })
        expect(
          await home.query(`select resolved_outcome from effects where run_id = $1 and step_id = 'send'`, [
            held.runId,
          ]),
        ).toEqual([{ resolved_outcome: null }])
        expect((await home.approver.resolve(held.runId, 'send', 'retry')).status).toBe(200)
        await expectFinished(home, held.runId, held.subject)
        expect(dots()).toBe(3)
      })

      test('is not sent if the organization is frozen while the mail server is slow', async () => {
        const held = await heldRun(home, workflowId)
        await home.sink.behave({ kind: 'pause' })
        await home.approver.decide(held.approvalId, 'approve')
        const intent = () =>
      home.query(`select 1 from effects where run_id = $1 and step_id = 'send' and state = 'intent'`, [held.runId]) // prettier-ignore
        await until('the mail is under way', async () => (await intent()).length === 1)
        const organization = `/organizations/${home.owner.bootstrap.organization_id}`
        await home.owner.good('POST', `${organization}/freeze`, { reason: 'drill' })
        await home.sink.behave({ kind: 'release' })
        await home.sink.behave({ kind: 'accept' })
        const run = await home.member.untilRun(held.runId, 'over', (each) => each.finished_at !== null)
        expect({ run: run.status, mail: mailOf(run)?.status, sent: home.sink.count(held.subject) }).toEqual({ run: 'denied', mail: 'denied', sent: 0 }) // prettier-ignore
        expect(run.status_reason).toContain('frozen')
        expect(home.sink.connections().filter((each) => each.subject === held.subject && each.dot)).toEqual(
          [],
        )
        await home.owner.good('POST', `${organization}/unfreeze`, { reason: 'over' })
      })
    })

    describe('a restart on the same data', () => {
      test.each(['SIGTERM', 'SIGKILL'] as const)('continues runs that were in flight (%s)', async (how) => {
        const held = await heldRun(home, workflowId)
        const approved = await heldRun(home, workflowId)
        await home.sink.behave({ kind: 'accept' })
        const subject = `Report ${randomUUID()}`
        const voted = home.approver.decide(approved.approvalId, 'approve')
        const fresh = home.member.execute(workflowId, { subject, keys: [subject] }, { key: randomUUID() })
        if (how === 'SIGKILL') await home.stack.kill9('all')
        else expect(await home.stack.stop()).toBe(0)
        await home.start()
        expect((await voted).status).toBe(200)
        await home.approver.decide(held.approvalId, 'approve')
        await home.approver.decide(await home.approver.untilHeld(await fresh, 'step'), 'approve')
        await expectFinished(home, held.runId, held.subject)
        await expectFinished(home, await fresh, subject)
        const run = await home.member.untilRun(approved.runId, 'past its mail', (each) =>
          ['completed', 'unknown_outcome'].includes(mailOf(each)?.status ?? ''),
        )
        if (how === 'SIGKILL' && mailOf(run)?.status === 'unknown_outcome')
          await home.approver.resolve(
            approved.runId,
            'send',
            home.sink.count(approved.subject) === 1 ? 'done' : 'retry',
          )
        await expectFinished(home, approved.runId, approved.subject)
      })
    })
  })
}

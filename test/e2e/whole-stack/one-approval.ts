import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { Connection, Client } from '@temporalio/client'
import { randomUUID } from 'node:crypto'
import { readTemporalConfig } from '../../../src/stack/temporal.ts'
import { heldRun, type Held } from '../../support/chaos.ts'
import { callsOf, expectFinished, expectQuiet } from '../../support/chaos-checks.ts'
import { strangers } from '../../support/chaos-strangers.ts'
import { inBrowser, openPage } from '../../support/chromium.ts'
import type { Api } from '../../support/client.ts'
import type { Rule } from '../../support/client-types.ts'
import { home, workflowId } from './home.ts'

/** One approval permits one call: tested over HTTP with the whole stack. */
export function oneApproval(): void {
  describe('over HTTP, one approval permits one call', () => {
    const { namespace } = readTemporalConfig()

    let connection: Connection
    let temporal: Client

    beforeAll(async () => {
      connection = await Connection.connect({ address: home.member.bootstrap.temporal_address })
      temporal = new Client({ connection, namespace })
    })
    afterAll(async () => {
      await connection?.close()
    })

    /** The run still waits, and no mail was delivered. */
    async function expectStillHeld({ runId, subject, approvalId }: Held): Promise<void> {
      const run = await home.member.run(runId)
      expect({ status: run.status, waits: run.waiting_for.map((each) => each.approval_id) }).toEqual({
        status: 'paused',
        waits: [approvalId],
      })
      expect(home.sink.count(subject)).toBe(0)
      expect(await home.approver.approval(approvalId)).toMatchObject({
        status: 'pending',
        used_at: null,
        votes: [],
      })
    }

    describe('an approval', () => {
      test('permits its one call, once', async () => {
        const held = await heldRun(home, workflowId)
        expect((await home.approver.decide(held.approvalId, 'approve')).status).toBe(200)
        expect(await home.admin.decide(held.approvalId, 'approve')).toMatchObject({
          status: 409,
          code: 'approval_already_decided',
        })
        await expectFinished(home, held.runId, held.subject)
        expect(await home.approver.decide(held.approvalId, 'reject')).toMatchObject({
          status: 409,
          code: 'approval_already_decided',
        })
        expect(home.sink.count(held.subject)).toBe(1)
      })

      inBrowser('is given on its page, which then shows the run go on to its end', async () => {
        const held = await heldRun(home, workflowId)
        const { base_url, users } = home.member.bootstrap
        const { page, errors } = await openPage({ viewport: { width: 360, height: 740 } })
        await page.goto(`${base_url}/console/approvals/${held.approvalId}`)
        await page.getByLabel('E-mail address').fill(users.approver.email)
        await page.getByLabel('Password').fill(users.approver.password)
        await page.getByRole('button', { name: 'Sign in', exact: true }).click()
        await page.getByRole('button', { name: 'Approve' }).click()
        await page.getByText('What became of it').waitFor()
        // The page follows the run's events, and nobody loads it again.
        await page.locator('.outcome').getByText('Completed').nth(1).waitFor()
        await expectFinished(home, held.runId, held.subject)
        expect(home.sink.count(held.subject)).toBe(1)
        expect(errors).toEqual([])
      })

      test('given by several people at once counts once', async () => {
        const held = await heldRun(home, workflowId)
        const answers = await Promise.all(
          [home.approver, home.admin, home.owner, home.approver].map((person) =>
            person.decide(held.approvalId, 'approve'),
          ),
        )
        expect(answers.map(({ status, code }) => `${status} ${code}`).sort()).toEqual([
          '200 null',
          ...Array<string>(3).fill('409 approval_already_decided'),
        ])
        await expectFinished(home, held.runId, held.subject)
      })

      test('is refused to a viewer, a member, the requester and a stranger, each with a different code', async () => {
        const held = await heldRun(home, workflowId, home.admin)
        const decide = (person: Api) => person.decide(held.approvalId, 'approve')
        expect(await decide(home.viewer)).toMatchObject({ status: 403, code: 'not_an_approver' })
        // The state of keys that were made when their owners had a higher role.
        await home.query(
          `update api_keys set scopes = scopes || '{approvals:decide}' where user_id = any($1)`,
          [[home.viewer, home.member].map((each) => each.bootstrap.users[each.person].user_id)],
        )
        const stranger = await strangers(home)
        const answers = await Promise.all([home.viewer, home.member, home.admin, stranger].map(decide))
        expect(answers.map(({ status, code }) => `${status} ${code}`)).toEqual([
          '403 not_an_approver',
          '403 not_an_approver',
          '403 self_approval',
          '404 not_found',
        ])
        expect(await stranger.once('GET', `/approvals/${held.approvalId}`)).toMatchObject({ status: 404 })
        expect(await stranger.once('GET', `/runs/${held.runId}`)).toMatchObject({ status: 404 })
        expect(await stranger.resolve(held.runId, 'send', 'retry')).toMatchObject({ status: 404 })
        await expectStillHeld(held)
      })

      test('is too late after the expiry', async () => {
        const held = await heldRun(home, workflowId)
        await home.query(`update approvals set expires_at = clock_timestamp() where id = $1`, [
          held.approvalId,
        ])
        expect(await home.approver.decide(held.approvalId, 'approve')).toMatchObject({
          status: 409,
          code: 'approval_expired',
        })
        await home.member.untilStatus(held.runId, 'expired')
        expect(home.sink.count(held.subject)).toBe(0)
        expect(await home.approver.approval(held.approvalId)).toMatchObject({
          status: 'expired',
          used_at: null,
          votes: [],
        })
      })

      test('covers only its own parameters: another subject is held again', async () => {
        const first = await heldRun(home, workflowId)
        await home.approver.decide(first.approvalId, 'approve')
        await expectFinished(home, first.runId, first.subject)
        const second = await heldRun(home, workflowId)
        expect(second.approvalId).not.toBe(first.approvalId)
        const hashes = await Promise.all(
          [first, second].map((each) => home.approver.approval(each.approvalId)),
        )
        expect(hashes[0]?.params_hash).not.toBe(hashes[1]?.params_hash)
        await expectStillHeld(second)
      })

      test('loses to a deny rule that was saved while it waited', async () => {
        const held = await heldRun(home, workflowId)
        const rule: Rule = await home.admin.createRule({
          name: 'No mail today',
          verdict: 'deny',
          tools: ['mail_send'],
        })
        try {
          expect((await home.approver.decide(held.approvalId, 'approve')).status).toBe(200)
          const run = await home.member.untilStatus(held.runId, 'denied')
          expect(run.steps.find((step) => step.id === 'send')).toMatchObject({
            status: 'denied',
            verdict: 'deny',
          })
          expect(home.sink.count(held.subject)).toBe(0)
          const { decisions } = await home.member.receipt(held.runId)
          expect(decisions.at(-1)).toMatchObject({
            verdict: 'deny',
            rule_name: 'No mail today',
            executed_at: null,
          })
        } finally {
          await home.admin.deleteRule(rule.id)
        }
      })
    })

    describe('somebody who reaches Temporal without the API', () => {
      test('executes nothing with forged signals', async () => {
        const held = await heldRun(home, workflowId)
        const handle = temporal.workflow.getHandle(held.runId)
        const { historyLength: before } = await handle.describe()
        for (const message of [
          { key: 'send' },
          {},
          { key: 'send', approved: true, status: 'approved' },
          undefined,
        ])
          await handle.signal('wake', message)
        // The workflow has asked again about its call, and the call still waits.
        let length = before
        for (let i = 0; length < before + 10 && i < 200; i += 1)
          ({ historyLength: length } = await handle.describe())
        expect(length).toBeGreaterThan(before)
        await expectStillHeld(held)
        await home.approver.decide(held.approvalId, 'approve')
        await expectFinished(home, held.runId, held.subject)
      })

      test('executes nothing twice with a reset, whether the run has finished or is held', async () => {
        const held = await heldRun(home, workflowId)
        await resetToStart(held.runId)
        await expectStillHeld(held)
        await home.approver.decide(held.approvalId, 'approve')
        await expectFinished(home, held.runId, held.subject)
        const calls = await callsOf(home, held.runId)
        const before = await home.member.run(held.runId)
        await resetToStart(held.runId)
        await temporal.workflow.getHandle(held.runId).result()
        expect(await callsOf(home, held.runId)).toEqual(calls)
        expect(await home.member.run(held.runId)).toEqual(before)
        expect(home.sink.count(held.subject)).toBe(1)
      })
    })

    /** The effect of "Reset" in the Temporal UI: everything from the first task is run again. */
    async function resetToStart(runId: string): Promise<void> {
      const handle = temporal.workflow.getHandle(runId)
      const { runId: execution } = await handle.describe()
      const { events } = await handle.fetchHistory()
      const first = events?.find((event) => event.workflowTaskCompletedEventAttributes)
      await temporal.workflowService.resetWorkflowExecution({
        namespace,
        workflowExecution: { workflowId: runId, runId: execution },
        reason: 'a test',
        workflowTaskFinishEventId: first?.eventId ?? null,
        requestId: randomUUID(),
      })
    }

    test('nothing is left except calls that wait for a person', async () => {
      const { data } = await home.approver.good<{ data: { id: string; run_id: string }[] }>(
        'GET',
        '/approvals?status=pending',
      )
      for (const { run_id: id } of data) await home.admin.cancel(id)
      for (const { run_id: id } of data) await home.member.untilStatus(id, 'cancelled')
      await expectQuiet(home)
    })
  })
}

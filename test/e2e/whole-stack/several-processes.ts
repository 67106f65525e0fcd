import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { randomUUID } from 'node:crypto'
import { heldRun } from '../../support/chaos.ts'
import { expectFinished, expectQuiet } from '../../support/chaos-checks.ts'
import { readEvents } from '../../support/chaos-events.ts'
import { ApiAt, startProgramOn, type Program } from '../../support/chaos-programs.ts'
import { Api } from '../../support/client.ts'
import type { Execution } from '../../support/client-types.ts'
import { home, workflowId } from './home.ts'

/**
 * Two API and two worker processes on one PostgreSQL and one Temporal. A change that one process saves applies to the
 * next decision of every other process. The number of processes affects neither the work nor its order.
 */
export function severalProcesses(): void {
  describe('with two API and two worker processes', () => {
    /** The second API and worker; the first belong to the stack. */
    let programs: Program[] = []
    let there: { member: Api; approver: Api; admin: Api; owner: Api }

    beforeAll(async () => {
      programs = await Promise.all([startProgramOn(home, 'api-server'), startProgramOn(home, 'worker')])
      const { url } = programs[0] as Program
      there = {
        member: new ApiAt(home, 'member', url),
        approver: new ApiAt(home, 'approver', url),
        admin: new ApiAt(home, 'admin', url),
        owner: new ApiAt(home, 'owner', url),
      }
    })
    afterAll(async () => {
      for (const program of programs) await program.end('SIGKILL')
    })

    const sides = () => [
      { saver: home, asker: there },
      { saver: there, asker: home },
    ]
    const execute = (api: Api, subject: string) =>
      api.call<Execution>('POST', `/workflows/${workflowId}/execute?wait=0`, {
        inputs: { subject, keys: [subject] },
      })

    describe('a change saved by one API applies to the next decision', () => {
      test('a rule, for the other API: the plan is refused as soon as the rule exists, and no longer once it is deleted', async () => {
        for (const { saver, asker } of [...sides(), ...sides(), ...sides()]) {
          const name = `no memory ${randomUUID()}`
          const { id } = await saver.admin.createRule({ name, verdict: 'deny', tools: ['memory_set'] })
          const refused = await execute(asker.member, 'refused')
          expect({ status: refused.status, code: refused.code }).toEqual({ status: 403, code: 'run_denied' })
          expect(JSON.stringify(refused.body)).toContain(name)
          await saver.admin.deleteRule(id)
          const { body, status } = await execute(asker.member, `accepted ${randomUUID()}`)
          expect(status).toBe(202)
          expect((await asker.member.cancel(body.execution_id)).status).toBe(200)
        }
      })

      test('a rule and a tool policy, for both workers: every held mail that is approved afterwards is denied', async () => {
        const name = `no mail ${randomUUID()}`
        const policies = `/organizations/${home.member.bootstrap.organization_id}/tool-policies`
        const changes = [
          {
            reason: name,
            save: async () => {
              const { id } = await there.admin.createRule({ name, verdict: 'deny', tools: ['mail_send'] })
              return () => home.admin.deleteRule(id)
            },
          },
          {
            reason: 'A tool policy of the organization blocks `mail_send`',
            save: async () => {
              await there.owner.good('POST', policies, { tool_name: 'mail_send', allowed: false })
              return () => home.owner.good('DELETE', `${policies}/mail_send`)
            },
          },
        ]
        for (const { reason, save } of changes) {
          const held = await Promise.all(Array.from({ length: 6 }, () => heldRun(home, workflowId)))
          const remove = await save()
          await Promise.all(
            held.map(({ approvalId }, i) =>
              (i % 2 === 0 ? home : there).approver.decide(approvalId, 'approve'),
            ),
          )
          for (const { runId, subject } of held) {
            const run = await home.member.untilRun(runId, 'over', (each) => each.finished_at !== null)
            expect({ status: run.status, reason: run.status_reason }).toEqual({
              status: 'denied',
              reason: expect.stringContaining(reason),
            })
            expect(home.sink.count(subject)).toBe(0)
          }
          await remove()
        }
      })

      test('a setting, for the other API: without approvals a held step is a denied one', async () => {
        for (const { saver, asker } of sides()) {
          await saver.owner.settings({ approvals_enabled: false })
          expect(await execute(asker.member, 'refused')).toMatchObject({ status: 403, code: 'run_denied' })
          await saver.owner.settings({ approvals_enabled: true })
          const { body, status } = await execute(asker.member, `accepted ${randomUUID()}`)
          expect(status).toBe(202)
          expect((await asker.member.cancel(body.execution_id)).status).toBe(200)
        }
      })

      test('a revoked key, for the other API: its next request is unauthenticated', async () => {
        for (const { saver, asker } of [...sides(), ...sides()]) {
          const made = await saver.owner.good<{ id: string; api_key: string }>('POST', '/api-keys', {
            name: `short-lived ${randomUUID()}`,
            scopes: ['runs:read'],
          })
          const url = asker.member.bootstrap.base_url
          const ask = () =>
            fetch(`${url}/api/v1/runs`, { headers: { authorization: `Bearer ${made.api_key}` } })
          // The other API uses the key before it is revoked, so the test would notice a cached key.
          expect((await ask()).status).toBe(200)
          await saver.owner.good('DELETE', `/api-keys/${made.id}`)
          expect((await ask()).status).toBe(401)
        }
      })
    })

    describe('people who decide at the same time', () => {
      const outcome = ({ status, code }: { status: number; code: string | null }) => `${status} ${code}`

      test('an unknown outcome is settled once, by one of many choices in two APIs', async () => {
        const held = await heldRun(home, workflowId)
        await home.sink.behave({ kind: 'drop', taken: true })
        await home.approver.decide(held.approvalId, 'approve')
        await home.member.untilRun(held.runId, 'unknown', (run) => run.status === 'paused')
        await home.member.untilRun(held.runId, 'unknown', (run) =>
          run.steps.some((step) => step.status === 'unknown_outcome'),
        )
        await home.sink.behave({ kind: 'accept' })
        const callers = [home, there].flatMap(({ approver, admin, owner }) => [approver, admin, owner])
        const choices = callers.flatMap((by) =>
          (['retry', 'done', 'fail'] as const).map((choice) => ({ by, choice })),
        )
        const answers = await Promise.all(
          choices.map(({ by, choice }) => by.resolve(held.runId, 'send', choice)),
        )
        const won = choices.filter((_, n) => answers[n]?.status === 200)
        expect(won).toHaveLength(1)
        expect(new Set(answers.map(outcome))).toEqual(new Set(['200 null', '409 bad_transition']))
        const run = await home.member.untilRun(held.runId, 'over', (each) => each.finished_at !== null)
        const chosen = won[0]?.choice ?? 'fail'
        expect({ status: run.status, mails: home.sink.count(held.subject) }).toEqual(
          { retry: { status: 'completed', mails: 2 }, done: { status: 'completed', mails: 1 }, fail: { status: 'failed', mails: 1 } }[chosen], // prettier-ignore
        )
      })

      test('votes, a rejection, a cancellation and the expiry of whole runs race while worker and API die: each run has one end', async () => {
        const step = { id: 'note', tool: 'memory_set', params: { key: 'raced', value: 1 } }
        const notes = await home.member.createWorkflow('Notes', { steps: [step] })
        await home.owner.settings({ approval_required_from: 'low', approval_threshold: 2 })
        const rivals = [
          async () => undefined,
          (_: string, id: string) => there.owner.decide(id, 'reject'),
          (runId: string) => there.member.cancel(runId),
          (_: string, id: string) =>
            home.query('update approvals set expires_at = clock_timestamp() where id = $1', [id]),
        ]
        const runs = await Promise.all(
          Array.from({ length: 16 }, async (_, n) => {
            const runId = await (n % 2 === 0 ? home : there).member.execute(notes, {})
            return { runId, id: await home.approver.untilHeld(runId, 'run'), rival: rivals[n % 4] as (typeof rivals)[number] } // prettier-ignore
          }),
        )
        const racing = runs.flatMap(({ runId, id, rival }, n) => {
          const votes = [() => home.approver.decide(id, 'approve'), () => there.admin.decide(id, 'approve')]
          const calls = [...votes, () => rival(runId, id)]
          return (n % 8 < 4 ? calls : calls.toReversed()).map((call) => call())
        })
        await Promise.all([home.stack.kill9('worker'), home.stack.kill9('api'), ...racing])
        for (const { runId, id } of runs) {
          const run = await home.member.untilRun(runId, 'over', (each) => each.finished_at !== null)
          const { status, used_at } = await home.approver.approval(id)
          const [{ started, noted, ended }] = (await home.query(
            `select count(*) filter (where event_type = 'run.started')::int as started,
                count(*) filter (where event_type = 'tool_call.completed')::int as noted,
                count(*) filter (where event_type = 'workflow.execute' and canonical::jsonb->>'action' = 'finish')::int as ended
         from audit_events where run_id = $1`,
            [runId],
          )) as [Record<string, number>]
          const isUsed = used_at !== null
          expect({ started, ended, approved: isUsed ? status : null }).toEqual({ started: isUsed ? 1 : 0, ended: 1, approved: isUsed ? 'approved' : null }) // prettier-ignore
          if (run.status === 'completed') expect({ isUsed, noted }).toEqual({ isUsed: true, noted: 1 })
      else if (run.status === 'cancelled') expect(['approved', 'cancelled', 'pending']).toContain(status)
      else expect({ run: run.status, noted, isUsed, agrees: status === run.status || status === 'approved' }).toEqual({ run: expect.stringMatching(/^(rejected|expired)$/), noted: 0, isUsed: false, agrees: true }) // prettier-ignore
        }
        await home.owner.settings({ approval_required_from: null, approval_threshold: 1 })
      })
    })

    describe('shared work', () => {
      test('an event stream continues in the other API where a reader stopped', async () => {
        const held = await heldRun(home, workflowId)
        const first = await readEvents(home.member, held.runId, { until: 'step.held' })
        expect(first.map((each) => each.type)).toEqual(
          expect.arrayContaining(['run.queued', 'run.started', 'step.held']),
        )
        const rest = readEvents(there.member, held.runId, { after: first.at(-1)?.id as number })
        await home.approver.decide(held.approvalId, 'approve')
        await expectFinished(home, held.runId, held.subject)
        const all = [...first, ...(await rest)]
        expect(all.map((each) => each.id)).toEqual(all.map((_, index) => index + 1))
        expect(all.at(-1)?.type).toBe('run.completed')
        expect(await readEvents(home.member, held.runId, {})).toEqual(all)
      })

      test('votes race in two APIs, and the death of one API and one worker loses nothing', async () => {
        const subjects = Array.from({ length: 12 }, () => `Report ${randomUUID()}`)
        const runs = await Promise.all(
          subjects.map((subject, i) =>
            (i % 2 === 0 ? home : there).member.execute(workflowId, { subject, keys: [subject] }),
          ),
        )
        await programs[1]?.end('SIGKILL')
        const held = await Promise.all(runs.map((runId) => home.approver.untilHeld(runId, 'step')))
        // The same person votes in both at the same time: one vote counts.
        const votes = await Promise.all(
          held.map((id) => Promise.all([home, there].map((at) => at.approver.decide(id, 'approve')))),
        )
        for (const pair of votes)
          expect(pair.map(({ status, code }) => `${status} ${code}`).sort()).toEqual([
            '200 null',
            '409 approval_already_decided',
          ])
        await programs[0]?.end('SIGKILL')
        for (const [i, runId] of runs.entries()) await expectFinished(home, runId, subjects[i] as string)
        await expectQuiet(home)
      })

      test('processes started alone end on request', async () => {
        const programs = await Promise.all([
          startProgramOn(home, 'api-server'),
          startProgramOn(home, 'worker'),
        ])
        expect(await Promise.all(programs.map((program) => program.end()))).toEqual([0, 0])
      })
    })
  })
}

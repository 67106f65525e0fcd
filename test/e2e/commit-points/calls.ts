import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { until } from '../../stack/until.ts'
import { expectFinished } from '../../support/chaos-checks.ts'
import type { Approval } from '../../support/client-types.ts'
import { startModel, type Model } from '../../support/model.ts'
import { both, type Kills } from './kills.ts'

/** Kills while calls of other tools are made: quick ones, one that costs money, and an approved write. */
export function aroundCalls(kills: Kills): void {
  let model: Model
  beforeAll(async () => {
    model = await startModel()
  })
  afterAll(() => model?.close())

  test.each(both('effect.decide'))(
    '%s: a wait keeps its time, and the step after it runs once',
    async (fault) => {
      const key = `wait/${fault}`
      const steps = [
        { id: 'pause', wait: { seconds: 2 } },
        { id: 'keep', tool: 'memory_set', params: { key, value: 1 }, depends_on: ['pause'] },
      ]
      const waiting = await kills.home.member.createWorkflow(key, { steps })
      let runId!: Promise<string>
      await kills.home.faults.at(fault, () => {
        runId = kills.home.member.execute(waiting, {}, { key: randomUUID() })
      })
      await expectFinished(kills.home, await runId, key, 0)
    },
  )

  test.each(both('effect.decide'))(
    '%s: a run that is made again takes a write over, and makes it once',
    async (fault) => {
      const { member, query } = kills.home
      const key = `again/${fault}`
      const workflow = await member.createWorkflow(key, {
        inputs: { path: { type: 'string' } },
        steps: [
          { id: 'keep', tool: 'memory_set', params: { key, value: '{{now}}' } },
          { id: 'read', tool: 'file_read', params: { path: '{{input.path}}' }, depends_on: ['keep'] },
        ],
      })
      const first = await member.execute(workflow, { path: 'reports/none.md' })
      await member.untilStatus(first, 'failed')
      const body = { inputs: { path: 'reports/q3-summary.md' } }
      let again!: Promise<{ readonly body: { readonly id: string } }>
      await kills.home.faults.at(fault, () => {
        again = member.call('POST', `/runs/${first}/rerun`, body, { key: randomUUID() })
      })
      const second = (await again).body.id
      await member.untilStatus(second, 'completed')
      const made = await query<{ run_id: string; event_type: string }>(
        `select run_id, event_type from audit_events where run_id = any($1)
         and canonical::jsonb #>> '{metadata,step_id}' = 'keep' and event_type ~ '^tool_call.(completed|reused)$' order by seq`,
        [[first, second]],
      )
      expect(made).toEqual([
        { run_id: first, event_type: 'tool_call.completed' },
        { run_id: second, event_type: 'tool_call.reused' },
      ])
    },
  )

  test.each(both('effect.decide', 'approval.answer'))(
    '%s: a person is asked once, the answer counts once, and the step after it runs once',
    async (fault) => {
      const { approver, member, faults } = kills.home
      const key = `ask/${fault}`
      const to = { person: approver.bootstrap.users.approver.email }
      const steps = [
        { id: 'decide', ask: { to, title: 'Go on?', choices: ['yes', 'no'] } },
        { id: 'keep', tool: 'memory_set', params: { key, value: '{{decide.output.answer}}' } },
      ]
      const workflow = await member.createWorkflow(key, { steps })
      const start = () => member.execute(workflow, {}, { key: randomUUID() })
      let started!: Promise<string>
      if (fault.startsWith('effect.decide')) await faults.at(fault, () => void (started = start()))
      else started = start()
      const runId = await started
      const id = await approver.untilHeld(runId, 'step')
      expect((await approver.pending(runId)).map((each) => each.id)).toEqual([id])
      const body = { answer: 'yes' }
      const answer = () =>
        approver.call<Approval>('POST', `/approvals/${id}/answer`, body, { key: randomUUID() })
      let sent!: ReturnType<typeof answer>
      if (fault.startsWith('approval.answer')) await faults.at(fault, () => void (sent = answer()))
      else sent = answer()
      expect(await sent).toMatchObject({ status: 200, body: { status: 'answered', ask: { answer: 'yes' } } })
      await expectFinished(kills.home, runId, key, 0)
    },
  )

  test.each(both('approval.vote', 'approval.revise', 'effect.decide'))(
    '%s: a call that is sent back and edited is made once, with the values that were approved',
    async (fault) => {
      const { admin, approver, member, faults } = kills.home
      const key = `edited/${fault}`
      const params = [{ param: 'key', operator: 'equals', value: key }]
      await admin.createRule({ name: key, verdict: 'require_approval', tools: ['memory_set'], params })
      const steps = [{ id: 'keep', tool: 'memory_set', params: { key, value: 'old' } }]
      const workflow = await member.createWorkflow(key, { steps })
      const runId = await member.execute(workflow, {}, { key: randomUUID() })
      const first = await approver.untilHeld(runId, 'step')
      const next = async (...before: string[]): Promise<string> => {
        const found = async () =>
          (
            await approver.good<{ data: Approval[] }>('GET', `/approvals?run_id=${runId}&status=pending`)
          ).data.find(({ id }) => !before.includes(id))?.id
        await until('the next approval waits', async () => (await found()) !== undefined)
        return (await found()) ?? ''
      }
      /** Sends a request, and kills the process if the fault belongs to it. */
      const send = async (own: boolean, by: typeof member, path: string, body: object): Promise<void> => {
        const post = () => by.call('POST', path, body, { key: randomUUID() })
        let sent!: ReturnType<typeof post>
        if (own) await faults.at(fault, () => void (sent = post()))
        else sent = post()
        expect((await sent).status).toBe(200)
      }
      const back = { request_changes: true, comment: 'another value' }
      await send(fault.startsWith('approval.vote'), approver, `/approvals/${first}/reject`, back)
      const revision = await next(first)
      const edit = { params: { value: 'new' } }
      await send(!fault.startsWith('approval.vote'), member, `/approvals/${revision}/revise`, edit)
      const second = await next(first, revision)
      await kills.approve(second)
      await expectFinished(kills.home, runId, key, 0)
      expect(await admin.good('GET', `/memory/${encodeURIComponent(key)}`)).toMatchObject({ value: 'new' })
    },
  )

  // The outcome commits together with the decision of the next call, or with the end of the run.
  test.each(['effect.outcome:before', 'effect.outcome:after', 'run.finish:after'] as const)(
    '%s: a chain of quick calls goes on, and each takes effect once',
    async (fault) => {
      const key = `quick/${fault}`
      const steps = [
        { id: 'a', tool: 'memory_set', params: { key, value: 1 } },
        { id: 'b', tool: 'memory_get', params: { key }, depends_on: ['a'] },
        { id: 'c', tool: 'memory_set', params: { key, value: 2 }, depends_on: ['b'] },
      ]
      const quick = await kills.home.member.createWorkflow(key, { steps })
      let runId!: Promise<string>
      await kills.home.faults.at(fault, () => {
        runId = kills.home.member.execute(quick, {}, { key: randomUUID() })
      })
      await expectFinished(kills.home, await runId, key, 0)
    },
  )

  test.each(both('effect.spend'))('%s: no cost is lost, and the model answers', async (fault) => {
    await kills.home.admin.good('POST', '/tools/llm_generate/connect', model.connection)
    const steps = [{ id: 'ask', tool: 'llm_generate', params: { prompt: 'why?', max_tokens: 5 } }]
    const asking = await kills.home.member.createWorkflow(fault, { steps })
    let runId!: Promise<string>
    await kills.home.faults.at(fault, () => {
      runId = kills.home.member.execute(asking, {}, { key: randomUUID() })
    })
    const { cost } = await kills.home.member.untilStatus(await runId, 'completed')
    // The price of 3 input tokens at 5 and 2 output tokens at 25 units a million. An attempt that died adds its highest
    // possible cost.
    expect(cost).toBeCloseTo(fault === 'effect.spend:after' ? 0.000_065 + 0.010_145 : 0.000_065, 9)
  })

  test.each(['effect.decide:after', 'effect.outcome:after'] as const)(
    '%s: an approved write whose key was changed writes nothing, and asks once more',
    async (fault) => {
      const key = `approved/${fault}`
      const store = (value: string) =>
        kills.home.admin.good('PUT', `/memory/${encodeURIComponent(key)}`, { value })
      const stored = async () =>
        (await kills.home.admin.good<{ value: unknown }>('GET', `/memory/${encodeURIComponent(key)}`)).value
      const prefix = [{ param: 'key', operator: 'contains', value: 'approved/' }]
      await kills.home.admin.createRule({
        name: key,
        verdict: 'require_approval',
        tools: ['memory_set'],
        params: prefix,
      })
      const step = { id: 'set', tool: 'memory_set', params: { key, value: 'new' } }
      const keeps = await kills.home.member.createWorkflow(key, { steps: [step] })
      await store('old')
      let accepted!: Promise<string>
      // In one case the worker dies right after the hold, in the other case it dies later.
      if (fault === 'effect.decide:after')
        await kills.home.faults.at(fault, () => {
          accepted = kills.home.member.execute(keeps, {}, { key: randomUUID() })
        })
      else accepted = kills.home.member.execute(keeps, {})
      const runId = await accepted
      const first = await kills.home.approver.untilHeld(runId, 'step')
      expect(await kills.home.approver.pending(runId)).toHaveLength(1)
      await store('other')
      await kills.home.faults.at(fault, () => kills.later(kills.approve(first)))
      const second = async () => (await kills.home.approver.pending(runId)).find(({ id }) => id !== first)
      await until('it is held again', async () => (await second()) !== undefined)
      expect(await stored()).toBe('other')
      expect(await second()).toMatchObject({
        supersedes_id: first,
        votes: [],
        preview: { diff: { before: '"other"', after: '"new"' } },
      })
      await kills.approve((await second())?.id ?? '')
      await kills.home.member.untilStatus(runId, 'completed')
      expect(await stored()).toBe('new')
    },
  )
}

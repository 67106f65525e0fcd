import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import type { DecidedCall } from '../../src/activities/decided-call.ts'
import { readApproval } from '../../src/governance/approvals/read.ts'
import { hashOf } from '../../src/shared/canonical-json.ts'
import { approvalsOf, startEngine, type Engine } from '../governance/runs/engine-fixture.ts'
import { execute } from './execute.ts'

let engine: Engine
beforeAll(async () => {
  engine = await startEngine()
})
afterAll(() => engine.close())

const mail = (to: unknown) => ({ id: 's', tool: 'mail_send', params: { to, subject: 'x', text: 'me' } })
const outside = (over: object = {}) => ({
  name: 'only to our own',
  verdict: 'deny',
  tools: ['mail_send'],
  params: [{ param: 'to', operator: 'domain_not_in', value: ['other.example'] }],
  ...over,
})
const inside = (over: object = {}) =>
  outside({ params: [{ param: 'to', operator: 'domain_not_in', value: ['countersign.test'] }], ...over })
const send = (runId: string) =>
  execute(engine.context, {
    workflowId: runId,
    activityType: 'mail_send',
    args: [{ runId, stepId: 's', itemIndex: null }],
  })
const paramsOf = (bodies: unknown[]) => bodies.map((body) => (body as DecidedCall).call.params)

describe('a mail to `me`', () => {
  test('is judged by the requester’s address, and goes to it', async () => {
    await engine.rules(inside())
    const runId = await engine.run({ steps: [mail(['me', 'b@countersign.test'])] })
    const { answer, bodies } = await send(runId)
    expect(answer).toEqual({ outcome: 'completed' })
    expect(paramsOf(bodies)).toEqual([
      { to: ['member@countersign.test', 'b@countersign.test'], subject: 'x', text: 'me' },
    ])
  })

  test('is refused with the plan if no rule allows the requester’s address', async () => {
    await engine.rules(outside())
    await expect(engine.run({ steps: [mail('me')] })).rejects.toMatchObject({ code: 'run_denied' })
  })

  test('is denied during the run if `me` only appears there', async () => {
    await engine.rules()
    const runId = await engine.run({ steps: [mail('me')] })
    await engine.rules(outside())
    const { answer, bodies } = await send(runId)
    expect(answer).toMatchObject({ type: 'StepEnded', details: [{ outcome: 'denied' }] })
    expect(bodies).toEqual([])
  })

  test('is approved for the address at the time of acceptance, and goes only there', async () => {
    await engine.rules(inside({ verdict: 'allow' }), outside({ verdict: 'require_approval', name: 'hold' }))
    const runId = await engine.run({ steps: [mail('me')] })
    expect((await send(runId)).answer).toMatchObject({ type: 'ApprovalRequired' })
    const [approval] = await approvalsOf(engine.context, runId)
    const shown = await readApproval(engine.context, engine.caller('approver'), approval?.id ?? '')
    const params = { to: 'me', subject: 'x', text: 'me' }
    expect(shown).toMatchObject({
      params,
      params_hash: hashOf({ tool: 'mail_send', params }),
      requester_email: 'member@countersign.test',
    })
    await engine.context.db
      .updateTable('users')
      .set({ email: 'elsewhere@evil.example' })
      .where('email', '=', 'member@countersign.test')
      .execute()
    await engine.vote(approval?.id ?? '', 'approver')
    expect(paramsOf((await send(runId)).bodies)).toMatchObject([{ to: 'member@countersign.test' }])
  })
})

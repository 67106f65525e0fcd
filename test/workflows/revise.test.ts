import { expect, test } from '@jest/globals'
import { reviseCall } from '../../src/calls/runs/revise.ts'
import type { BootstrapName } from '../../src/governance/people/bootstrap.ts'
import { prepareChange } from '../../src/governance/applying/apply.ts'
import { vote } from '../../src/governance/approvals/vote.ts'
import { rerun } from '../../src/governance/runs/start/rerun.ts'
import { readApproval } from '../../src/governance/approvals/read.ts'
import type { JsonObject } from '../../src/policy/types.ts'
import { until } from '../stack/until.ts'
import { closed, replay } from './histories.ts'
import { mail, read, useTestStack, type Stack } from './worker-fixture.ts'

let stack: Stack
useTestStack((started) => (stack = started))

const holdMails = (over: object = {}) => ({
  name: 'mails need a person',
  verdict: 'require_approval',
  tools: ['mail_send'],
  ...over,
})
const start = (...steps: object[]) => stack.run({ steps })
const ask = (approvalId: string, comment = 'another subject, please', by: BootstrapName = 'admin') =>
  vote(stack.context, {
    caller: stack.caller(by),
    approvalId,
    decision: 'reject',
    comment,
    changesRequested: true,
    prepareChange: prepareChange(stack.context),
  })
const revise = (approvalId: string, params: JsonObject, by: BootstrapName = 'member') =>
  reviseCall(stack.context, { caller: stack.caller(by), approvalId, params, comment: 'as you asked' })
const view = (id: string, by: BootstrapName = 'admin') => readApproval(stack.context, stack.caller(by), id)
/** The next approval of the run that waits and is none of these. */
async function next(runId: string, ...before: string[]): Promise<string> {
  const found = async () =>
    (await stack.approvalsOf(runId)).find(({ id, status }) => status === 'pending' && !before.includes(id))
      ?.id
  await until('another approval waits', async () => (await found()) !== undefined)
  return (await found()) ?? ''
}
const subjects = () => stack.sink.deliveries.map(({ subject }) => subject)

test('a request for changes keeps the run: the requester edits the call, which is approved and sent so', async () => {
  await stack.rules(holdMails())
  const runId = await start(read('before', 'before'), mail('send', { depends_on: ['before'] }))
  const first = await stack.held(runId)
  await ask(first)
  const revision = await next(runId, first)
  expect(await view(revision, 'member')).toMatchObject({
    kind: 'revision',
    status: 'pending',
    supersedes_id: first,
    approvers: [{ person: stack.caller('member').email }],
    edits: { asked: { email: stack.caller('admin').email, comment: 'another subject, please' }, changed: [] },
    may_edit: expect.arrayContaining(['to', 'subject', 'text']) as unknown,
  })
  const run = await stack.readRun(runId)
  expect(run).toMatchObject({ status: 'paused' })
  expect(run?.status_reason).toContain('waits for changes by')
  await revise(revision, { subject: 'better' })
  const second = await next(runId, first, revision)
  expect(await view(second)).toMatchObject({
    kind: 'step',
    params: { subject: 'better' },
    labels: expect.arrayContaining(['untrusted']) as unknown,
    edits: { changed: [{ name: 'subject', before: 'send', after: 'better' }] },
  })
  await stack.vote(second, 'admin')
  expect(await stack.ended(runId)).toEqual({ run: 'completed', before: 'completed', send: 'completed' })
  expect(subjects().at(-1)).toBe('better')
  await closed(stack, runId)
  await replay(stack, runId)
})

test('nobody edits the call in time: it ends as rejected, as if the rejection had asked for nothing', async () => {
  await stack.rules(holdMails({ expires_after_seconds: 3 }))
  const runId = await start(mail('send'))
  await ask(await stack.held(runId))
  expect(await stack.ended(runId)).toEqual({ run: 'rejected', send: 'rejected' })
  const run = await stack.readRun(runId)
  expect(JSON.stringify(run)).toContain('asks for changes, and nobody made them in time')
  const { id = '' } = (await stack.approvalsOf(runId)).find(({ status }) => status === 'expired') ?? {}
  await expect(revise(id, { subject: 'late' })).rejects.toMatchObject({ code: 'approval_expired' })
})

test('only the requester edits, once, with values that the tool takes, and not after the end', async () => {
  await stack.rules(holdMails())
  const runId = await start(mail('send'))
  const first = await stack.held(runId)
  await expect(revise(first, { subject: 'x' })).rejects.toMatchObject({ code: 'not_an_approver' })
  await ask(first)
  const id = await next(runId, first)
  await expect(stack.vote(id, 'admin')).rejects.toMatchObject({ code: 'bad_transition' })
  await expect(revise(id, { subject: 'x' }, 'admin')).rejects.toMatchObject({ code: 'not_an_approver' })
  await expect(revise(id, { subject: 'x' }, 'owner')).rejects.toMatchObject({ code: 'not_an_approver' })
  await expect(revise(id, { subject: 7 })).rejects.toMatchObject({ code: 'validation_error' })
  await expect(revise(id, { nothing: 'x' })).rejects.toMatchObject({ code: 'validation_error' })
  await expect(revise(id, { subject: 'send' })).rejects.toMatchObject({ code: 'validation_error' })
  await stack.frozen(() => expect(revise(id, { subject: 'x' })).rejects.toMatchObject({ code: 'conflict' }))
  const both = await Promise.allSettled([revise(id, { subject: 'one' }), revise(id, { subject: 'two' })])
  expect(both.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected'])
  expect(both.find(({ status }) => status === 'rejected')).toMatchObject({
    reason: { code: 'approval_already_decided' },
  })
  const second = await next(runId, first, id)
  await expect(stack.vote(first, 'admin')).rejects.toMatchObject({ code: 'approval_already_decided' })
  await stack.cancel(runId)
  expect(await stack.ended(runId)).toMatchObject({ run: 'cancelled' })
  await expect(revise(second, { subject: 'x' })).rejects.toMatchObject({ code: 'approval_already_decided' })
})

test('the edited call is decided by the rules as of now: held, allowed, denied, and cancelled while it waits', async () => {
  const to = (value: string) => ({ params: [{ param: 'to', operator: 'equals', value }] })
  await stack.rules(holdMails(to('a@b.test')), { ...holdMails(to('bad@b.test')), name: 'n', verdict: 'deny' })
  const sentBack = async () => {
    const runId = await start(mail('send'))
    const first = await stack.held(runId)
    await ask(first)
    return { runId, id: await next(runId, first) }
  }
  const allowed = await sentBack()
  await revise(allowed.id, { to: 'good@b.test' })
  expect(await stack.ended(allowed.runId)).toMatchObject({ run: 'completed' })
  const denied = await sentBack()
  await revise(denied.id, { to: 'bad@b.test' })
  expect(await stack.ended(denied.runId)).toMatchObject({ run: 'denied', send: 'denied' })
  const cancelled = await sentBack()
  await stack.cancel(cancelled.runId)
  expect(await stack.ended(cancelled.runId)).toMatchObject({ run: 'cancelled' })
  await expect(revise(cancelled.id, { to: 'good@b.test' })).rejects.toMatchObject({
    code: 'approval_already_decided',
  })
})

test('whoever typed a value does not approve it, whatever the settings are', async () => {
  await stack.rules(holdMails())
  await stack.settings({ allow_self_approval: true })
  try {
    const runId = await stack.run({ steps: [mail('send')] }, {}, 'admin')
    const first = await stack.held(runId)
    await ask(first, 'better', 'approver')
    const id = await next(runId, first)
    await revise(id, { subject: 'typed' }, 'admin')
    const second = await next(runId, first, id)
    await expect(stack.vote(second, 'admin')).rejects.toMatchObject({ code: 'self_approval' })
    await stack.vote(second, 'owner')
    expect(await stack.ended(runId)).toMatchObject({ run: 'completed' })
  } finally {
    await stack.settings({ allow_self_approval: false })
  }
})

test('an approver edits what the rule names, and the requester or another approver confirms it', async () => {
  await stack.rules(holdMails({ approver_may_edit: ['subject'] }))
  for (const confirmer of ['member', 'owner'] as const) {
    const runId = await start(mail('send'))
    const first = await stack.held(runId)
    await expect(revise(first, { to: 'x@b.test' }, 'admin')).rejects.toMatchObject({
      code: 'not_an_approver',
    })
    await revise(first, { subject: `for ${confirmer}` }, 'admin')
    await expect(stack.vote(first, 'owner')).rejects.toMatchObject({ code: 'approval_already_decided' })
    const edit = await next(runId, first)
    expect(await view(edit)).toMatchObject({
      kind: 'edit',
      votes: [{ email: stack.caller('admin').email, decision: 'approve' }],
      edits: { changed: [{ name: 'subject', before: 'send', after: `for ${confirmer}` }] },
    })
    await expect(stack.vote(edit, 'admin')).rejects.toMatchObject({ code: 'conflict' })
    await expect(revise(edit, { subject: 'mine' })).rejects.toMatchObject({ code: 'self_approval' })
    await stack.vote(edit, confirmer)
    expect(await stack.ended(runId)).toMatchObject({ run: 'completed' })
    expect(subjects().at(-1)).toBe(`for ${confirmer}`)
  }
})

test('an edit after which no rule holds the call waits for another person all the same', async () => {
  const held = { params: [{ param: 'to', operator: 'equals', value: 'a@b.test' }] }
  await stack.rules(holdMails({ ...held, approver_may_edit: ['to'] }))
  const runId = await start(mail('send'))
  const first = await stack.held(runId)
  await revise(first, { to: 'admins-own@b.test' }, 'admin')
  const edit = await next(runId, first)
  await expect(stack.vote(edit, 'admin')).rejects.toMatchObject({ code: 'conflict' })
  await stack.vote(edit, 'member')
  expect(await stack.ended(runId)).toMatchObject({ run: 'completed' })
})

test('labels of a value stay with what replaces it, and each item is edited for itself', async () => {
  await stack.rules(holdMails())
  const runId = await start(
    mail('send', {
      for_each: ['one', 'two'],
      params: { to: 'a@b.test', subject: '{{ item }}', text: 'hello' },
    }),
  )
  await until('both items wait', async () => (await stack.approvalsOf(runId)).length === 2)
  const [one = '', two = ''] = (await stack.approvalsOf(runId)).map(({ id }) => id)
  await ask(one)
  const id = await next(runId, one, two)
  await revise(id, { text: 'other' })
  const again = await next(runId, one, two, id)
  expect((await view(again)).item_index).toBe((await view(one)).item_index)
  await stack.vote(again, 'admin')
  await stack.vote(two, 'admin')
  expect(await stack.ended(runId)).toMatchObject({ run: 'completed' })
})

test('a run that is made again takes the edited call over, and does not make the written one', async () => {
  await stack.rules(holdMails())
  const definition = {
    inputs: { last: { type: 'string', required: true } },
    steps: [mail('send'), read('last', '{{input.last}}', { depends_on: ['send'] })],
  }
  const runId = await stack.run(definition, { last: 'fail' })
  const first = await stack.held(runId)
  await ask(first)
  const id = await next(runId, first)
  await revise(id, { to: 'edited@b.test' })
  await stack.vote(await next(runId, first, id), 'admin')
  expect(await stack.ended(runId)).toMatchObject({ run: 'failed', send: 'completed' })
  const sent = stack.sink.deliveries.length
  const request = { caller: stack.caller('member'), runId, version: 'same', onRepeat: 'hold' } as const
  const again = { ...request, inputs: { last: 'well' }, unknownHappened: null }
  const second = await rerun(stack.context, { ...again, from: 'failed' })
  expect(await stack.ended(second.runId)).toMatchObject({ run: 'completed', send: 'completed' })
  expect(stack.sink.deliveries).toHaveLength(sent)
  await stack.rules()
  const third = await rerun(stack.context, { ...again, from: 'start' })
  expect(await view(await stack.held(third.runId))).toMatchObject({ kind: 'repeat' })
  await stack.cancel(third.runId)
  expect(await stack.ended(third.runId)).toMatchObject({ run: 'cancelled' })
})

test('an edit does not make the service forget that an earlier run has made the call', async () => {
  const definition = { steps: [mail('send'), read('last', 'fail', { depends_on: ['send'] })] }
  const runId = await stack.run(definition)
  expect(await stack.ended(runId)).toMatchObject({ run: 'failed', send: 'completed' })
  await stack.rules(holdMails({ params: [{ param: 'to', operator: 'equals', value: 'a@b.test' }] }))
  const again = await rerun(stack.context, {
    caller: stack.caller('member'),
    runId,
    version: 'same',
    onRepeat: 'hold',
    inputs: {},
    unknownHappened: null,
    from: 'start',
  })
  const first = await stack.held(again.runId)
  await ask(first)
  const id = await next(again.runId, first)
  await revise(id, { to: 'other@b.test' })
  expect(await view(await next(again.runId, first, id))).toMatchObject({ kind: 'repeat' })
  await stack.cancel(again.runId)
  expect(await stack.ended(again.runId)).toMatchObject({ run: 'cancelled' })
})

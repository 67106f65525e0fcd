import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import { readDefinedCall, type DefinedCall, type ResolvedCall } from '../../../src/calls/runs/call.ts'
import { decideAgain, decideSteps } from '../../../src/calls/runs/effect.ts'
import { markSent, recordWithWrite } from '../../../src/calls/runs/outcome.ts'
import { prepareCall } from '../../../src/calls/runs/prepare.ts'
import { reviseCall } from '../../../src/calls/runs/revise.ts'
import { prepareChange } from '../../../src/governance/applying/apply.ts'
import { vote } from '../../../src/governance/approvals/vote.ts'
import type { BootstrapName } from '../../../src/governance/people/bootstrap.ts'
import type { JsonObject, Role } from '../../../src/policy/types.ts'
import type { ToolDeclaration } from '../../../src/tools/kit/tool.ts'
import { create, forgetAll } from '../../governance/rules/policy-calls.ts'
import {
  denyRule,
  holdRule,
  nothingSeen,
  outcomeOf,
  outputOf,
  useEngine,
  type Engine,
} from '../../governance/runs/engine-fixture.ts'

let engine: Engine
useEngine((started) => (engine = started))
beforeEach(() => forgetAll(engine))
afterEach(() => setRoleOfAdmin('admin'))

const letter = { to: 'a@b.test', subject: 'x', text: 'secret-7' }
const start = (tool = 'mail_send', params: JsonObject = letter) =>
  engine.run({ steps: [{ id: 's', tool, params }] })
const keyOf = (runId: string) => ({ runId, stepId: 's', itemIndex: -1 })
const define = (runId: string) => readDefinedCall(engine.context, keyOf(runId))

/** Prepares the call as a worker does. */
async function prepare(defined: DefinedCall): Promise<ResolvedCall> {
  const tool = defined.tool as ToolDeclaration
  const { value, permit } = await prepareCall(engine.context, defined, tool, new AbortController().signal)
  permit.release()
  return value
}
const decide = async (defined: DefinedCall) =>
  engine.context.combiner.join(engine.organizationId, decideSteps, await prepare(defined))
const hold = async (runId: string) => engine.hold(await prepare(await define(runId)))

const revise = (approvalId: string, params: JsonObject, by: BootstrapName) =>
  reviseCall(engine.context, { caller: engine.caller(by), approvalId, params, comment: '' })
const ask = (approvalId: string) =>
  vote(engine.context, {
    caller: engine.caller('admin'),
    approvalId,
    decision: 'reject',
    comment: 'another address',
    changesRequested: true,
    prepareChange: prepareChange(engine.context),
  })
/** Held, edited by an admin, and confirmed by the requester. */
async function editedByAdmin(runId: string, params: JsonObject): Promise<void> {
  await revise(await hold(runId), params, 'admin')
  await engine.vote(await hold(runId), 'member')
}

test('who may not edit the call learns nothing about its values', async () => {
  await engine.rules(holdRule())
  const id = await hold(await start())
  const refusalOf = (text: unknown) =>
    revise(id, { text } as JsonObject, 'viewer').then(
      () => 'edited',
      ({ code, message }: { code: string; message: string }) => `${code}: ${message}`,
    )
  const wrong = await refusalOf('secret-1')
  expect(wrong).toContain('not_an_approver')
  expect(await refusalOf('secret-7')).toBe(wrong)
  expect(await refusalOf(7)).toBe(wrong)
  await engine.vote(id, 'admin')
  const decided = await refusalOf('secret-1')
  expect(decided).toContain('approval_already_decided')
  expect(await refusalOf('secret-7')).toBe(decided)
})

test('an edit between the reads of the labels and of the parameters keeps the label `untrusted`', async () => {
  const former = holdRule({ params: [{ param: 'to', operator: 'equals', value: letter.to }] })
  await engine.rules(former, denyRule({ labels: { any_of: ['untrusted'] } }))
  const runId = await start()
  await ask(await hold(runId))
  const revision = await hold(runId)
  const early = await define(runId)
  await revise(revision, { to: 'other@c.test' }, 'member')
  await expect(decide(early)).rejects.toMatchObject({ name: 'EditedMeanwhile' })
  expect(await decide(await define(runId))).toMatchObject({ state: 'denied' })
})

test('a value that means the same for the tool is no change', async () => {
  await engine.rules(holdRule({ approver_may_edit: ['cc', 'text'] }))
  const id = await hold(await start())
  await expect(revise(id, { cc: null }, 'admin')).rejects.toMatchObject({
    code: 'validation_error',
    message: expect.stringContaining('are as they were') as unknown,
  })
  await revise(id, { cc: null, text: 'other' }, 'admin')
  expect((await engine.effectOf({ key: keyOf((await approval(id)).run_id ?? '') }))?.revision).toMatchObject({
    typed: { text: engine.caller('admin').userId },
  })
})

const approval = (id: string) =>
  engine.context.db.selectFrom('approvals').selectAll().where('id', '=', id).executeTakeFirstOrThrow()

test('tool policies for the role of whoever edited the call hold for it', async () => {
  await engine.rules(holdRule({ approver_may_edit: ['text'] }))
  const runId = await start()
  await editedByAdmin(runId, { text: 'other' })
  await create(engine, { tool_name: 'mail_send', allowed: false, role: 'admin' })
  expect(await decide(await define(runId))).toMatchObject({
    state: 'denied',
    reason: expect.stringContaining('wrote the step or edited the call') as unknown,
  })
})

test('an edited call is denied if the person who edited it has left', async () => {
  await engine.rules(holdRule({ approver_may_edit: ['text'] }))
  const runId = await start()
  await editedByAdmin(runId, { text: 'other' })
  await setRoleOfAdmin(null)
  expect(await decide(await define(runId))).toMatchObject({
    state: 'denied',
    reason: expect.stringContaining('has left') as unknown,
  })
})

async function setRoleOfAdmin(role: Role | null): Promise<void> {
  const { userId, organizationId } = engine.caller('admin')
  const { db } = engine.context
  await db.deleteFrom('memberships').where('user_id', '=', userId).execute()
  if (role === null) return
  await db
    .insertInto('memberships')
    .values({ organization_id: organizationId, user_id: userId, role })
    .execute()
}

describe.each([
  ['memory_set', { key: 'k', value: 'x' }],
  ['mail_send', letter],
] as const)('between the decision on an edited %s and its act', (tool, params) => {
  test.each([
    ['whoever edited it leaves', null, 'denied'],
    ['whoever edited it is only a viewer now', 'viewer', 'denied'],
    ['whoever edited it as an approver is none any more', 'member', 'held'],
  ] as const)('%s', async (_, role, state) => {
    const name = Object.keys(params).at(-1) ?? ''
    await engine.rules({ ...holdRule({ approver_may_edit: [name] }), tools: [tool] })
    const runId = await start(tool, params)
    await editedByAdmin(runId, { [name]: 'other' })
    const op = await prepare(await define(runId))
    const decided = await engine.decide(op)
    if (!decided.go) throw new Error(decided.state)
    const { attempt, basis } = decided
    await setRoleOfAdmin(role)
    const act = () =>
      tool === 'mail_send'
        ? markSent(engine.context, op.key, attempt, basis)
        : recordWithWrite(
            engine.context,
            engine.organizationId,
            outcomeOf(op, attempt, 'completed'),
            basis,
            async () => null,
          )
    expect(await act()).toBe('changed')
    const again = (call: ResolvedCall) =>
      engine.context.combiner.join(engine.organizationId, decideAgain, { key: op.key, call, attempt })
    expect(await again({ ...op, seen: await nothingSeen(engine) })).toMatchObject({ state })
  })
})

test('the size of an output is limited for the role of whoever edited the call', async () => {
  await engine.rules({ ...holdRule({ approver_may_edit: ['key'] }), tools: ['memory_get'] })
  const runId = await start('memory_get', { key: 'k' })
  await editedByAdmin(runId, { key: 'other' })
  await create(engine, { tool_name: 'memory_get', role: 'admin', restrictions: { max_response_size_kb: 1 } })
  const op = await prepare(await define(runId))
  const call = {
    source: 'workflows',
    tool: 'memory_get',
    sideEffect: 'read',
    params: {},
    labels: [],
  } as const
  const output = outputOf(op.key, 'x'.repeat(2_000))
  const attempt = await engine.go(op)
  expect(await engine.record(outcomeOf(op, attempt, { state: 'completed', output, labels: [], call }))).toBe(
    'failed',
  )
})

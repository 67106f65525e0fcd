import { beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { answerQuestion } from '../../../src/calls/runs/answer.ts'
import { expandStep } from '../../../src/calls/runs/items.ts'
import { expireDue } from '../../../src/governance/approvals/expire.ts'
import { listApprovals, readApproval } from '../../../src/governance/approvals/read.ts'
import { readDetail } from '../../../src/governance/approvals/detail.ts'
import { sightOf } from '../../../src/governance/approvals/sight.ts'
import { readWaitingSummary } from '../../../src/governance/approvals/summary.ts'
import { changeQuota } from '../../../src/governance/limits/quota.ts'
import { setAbsence, endAbsence } from '../../../src/governance/people/absences.ts'
import type { BootstrapName } from '../../../src/governance/people/bootstrap.ts'
import { createGroup } from '../../../src/governance/people/groups.ts'
import { createServiceAccount } from '../../../src/governance/people/service-accounts.ts'
import { openOutput } from '../../../src/governance/runs/values/outputs.ts'
import type { Json, JsonObject } from '../../../src/policy/types.ts'
import { addOrganization } from '../../api/fixtures.ts'
import { askStep, useEngine, type Engine } from '../../governance/runs/engine-fixture.ts'
import { auditOf } from '../../governance/support.ts'

/* Sales is the viewer. The member starts runs and has written the workflow. */

let engine: Engine
useEngine((started) => (engine = started))
const email = (name: BootstrapName) => engine.caller(name).email

beforeAll(async () => {
  const members = [email('viewer')]
  await createGroup(engine.context, engine.caller('owner'), { name: 'sales', description: '', members }, null)
})
beforeEach(() => engine.settings({ trust_answers: false, approval_threshold: 1, allow_self_approval: false }))

const toSales = { to: { group: 'sales' }, title: 'Refund this order?', choices: ['refund', 'refuse'] }
const form = {
  action: { type: 'string', required: true, options: ['refund', 'refuse'] },
  message: { type: 'string' },
}
const asking = (over: object = {}, step: object = {}) => ({
  inputs: { order: { type: 'string' }, who: { type: 'string' } },
  steps: [{ id: 's', ask: { ...toSales, show: { order: '{{input.order}}' }, ...over }, ...step }],
})

const keyOf = (runId: string, item = -1) => ({ runId, stepId: 's', itemIndex: item })
const step = (runId: string, item = -1) => askStep(engine.context, runId, 's', item)
async function asked(
  over: object = {},
  inputs: JsonObject = { order: '4711' },
  by: BootstrapName = 'member',
) {
  const runId = await engine.run(asking(over), inputs, by)
  const held = await step(runId)
  if (held.state !== 'held' || held.approvalId === null) throw new Error(JSON.stringify(held))
  return { runId, id: held.approvalId, held }
}
const answer = (id: string, by: BootstrapName, given: Json = 'refund') =>
  answerQuestion(engine.context, { caller: engine.caller(by), approvalId: id, answer: given })
const outcome = (work: Promise<unknown>): Promise<string> =>
  work.then(
    () => 'done',
    (error: { code?: string }) => error.code ?? String(error),
  )
const outputOf = async (runId: string, item = -1) => {
  const row = await engine.effectOf({ key: keyOf(runId, item) })
  return openOutput(engine.context, keyOf(runId, item), row?.output_sealed ?? null)
}
const view = (id: string, by: BootstrapName) => readApproval(engine.context, engine.caller(by), id)
const mine = async (by: BootstrapName) =>
  (
    await listApprovals(
      engine.context,
      engine.caller(by),
      { mine: true, kind: 'ask' },
      { limit: 200, cursor: null },
    )
  ).data.map(({ id }) => id)
async function stateOf({ id, runId }: { id: string; runId: string }) {
  const effect = await engine.effectOf({ key: keyOf(runId) })
  return [await view(id, 'owner'), effect, await engine.eventsOf(runId), await engine.wakesOf(runId)]
}

test('a question waits, and its answer is the output of the step', async () => {
  const { id, runId, held } = await asked()
  expect(held).toMatchObject({ waitsFor: 'answer', expiresAt: expect.any(String) })
  const run = await engine.readRun(runId)
  expect(run).toMatchObject({
    status: 'paused',
    status_reason: 'step `s` waits for an answer of 1 member of `sales`',
    waiting_for: [{ kind: 'ask', approval_id: id, step_id: 's', approvers: [{ group: 'sales', count: 1 }] }],
  })
  expect(run?.steps[0]).toMatchObject({ kind: 'ask', status: 'held', tool: null, verdict: null, attempts: 0 })
  expect(await view(id, 'viewer')).toMatchObject({
    kind: 'ask',
    status: 'pending',
    summary: 'Refund this order?',
    params: { order: '4711' },
    ask: { choices: ['refund', 'refuse'], form: null, otherwise: null, answered_by: null },
    authors: [],
    rule_name: null,
  })
  expect(await readDetail(engine.context, engine.caller('viewer'), id)).toMatchObject({
    vote_refused: null,
    voters_left: 1,
    cannot_be_given: null,
  })
  expect(await mine('viewer')).toContain(id)
  expect((await readWaitingSummary(engine.context.db, engine.organizationId)).kinds).toContainEqual({
    kind: 'ask',
    count: expect.any(Number),
  })

  await answer(id, 'viewer')
  const after = await view(id, 'viewer')
  expect(after).toMatchObject({
    status: 'answered',
    ask: { answered_by: { email: email('viewer') }, answered_for: null, answer: 'refund' },
  })
  const output = { answer: 'refund', by: email('viewer'), at: after.decided_at }
  expect(await outputOf(runId)).toEqual(output)
  expect(await step(runId)).toMatchObject({ state: 'completed' })
  expect(await engine.wakesOf(runId)).toEqual([{ key: 's#-1', by: engine.caller('viewer').userId }])
  expect(await engine.eventsOf(runId)).toEqual([
    'run.queued',
    'run.started',
    'step.started',
    'step.held',
    'approval.created',
    'run.paused',
    'approval.decided',
    'run.resumed',
    'step.completed',
  ])
  expect(await engine.runOf(runId)).toMatchObject({ status: 'running', nodes_executed: 1 })
  const entries = await auditOf(engine.context, engine.organizationId, 10)
  const entry = entries.find(({ event_type }) => event_type === 'approval.answered')
  expect(JSON.parse(entry?.canonical ?? '')).toMatchObject({
    action: 'answer',
    actor: { id: engine.caller('viewer').userId },
    metadata: { approval_id: id },
  })
  expect(entry?.canonical).not.toMatch(/refund|4711/)
})

describe('may answer', () => {
  const toPerson = (who: string) => ({ to: { person: who } })
  test.each<[string, () => object, BootstrapName, string]>([
    ['a member of the group, whatever their role is', () => ({}), 'viewer', 'done'],
    ['no admin outside of it', () => ({}), 'admin', 'not_an_approver'],
    ['no owner outside of it', () => ({}), 'owner', 'not_an_approver'],
    ['no requester outside of it', () => ({}), 'member', 'not_an_approver'],
    ['the requester, who is asked', () => ({ to: 'requester' }), 'member', 'done'],
    ['nobody else than the requester', () => ({ to: 'requester' }), 'viewer', 'not_an_approver'],
    ['the person who is asked', () => toPerson(email('admin')), 'admin', 'done'],
    ['a person, by a template', () => toPerson('{{input.who}}'), 'approver', 'done'],
    ['nobody else than the person', () => toPerson(email('admin')), 'approver', 'not_an_approver'],
    [
      'nobody of a group that does not exist',
      () => ({ to: { group: 'nobody' } }),
      'owner',
      'not_an_approver',
    ],
  ])('%s', async (_, over, by, result) => {
    const it = await asked(over(), { order: '4711', who: email('approver').toUpperCase() })
    const before = await stateOf(it)
    expect((await mine(by)).includes(it.id)).toBe(result === 'done')
    expect(await outcome(answer(it.id, by))).toBe(result)
    if (result !== 'done') expect(await stateOf(it)).toEqual(before)
  })

  test('those who are asked later, from then on, and the deputy of somebody who is away', async () => {
    const escalate = [{ after_seconds: 60, to: 'owner' }]
    const { id } = await asked({ escalate })
    expect(await outcome(answer(id, 'owner'))).toBe('not_an_approver')
    await engine.context.pool.query(
      `update approvals set seats = replace(seats::text, substring(seats::text from '"at": "([^"]+)"'), '2020-01-01T00:00:00Z')::jsonb where id = $1`,
      [id],
    )
    expect(await outcome(answer(id, 'owner'))).toBe('done')

    const now = Date.now()
    const deputy = email('approver')
    const away = { from: new Date(now - 1_000), until: new Date(now + 3_600_000), deputy }
    await setAbsence(engine.context, engine.caller('viewer'), away)
    const other = await asked()
    const toOne = await asked({ to: { person: email('viewer') } })
    expect(await mine('approver')).toEqual(expect.arrayContaining([other.id, toOne.id]))
    await answer(other.id, 'approver')
    await answer(toOne.id, 'approver')
    expect((await view(toOne.id, 'approver')).ask).toMatchObject({
      answered_by: { email: email('approver') },
      answered_for: { email: email('viewer') },
    })
    expect(await outputOf(other.runId)).toMatchObject({ by: email('approver') })
    await endAbsence(engine.context, engine.caller('viewer'))
  })

  test('one person, whatever the threshold of approvals is', async () => {
    await engine.settings({ approval_threshold: 3 })
    const { id } = await asked()
    expect(await view(id, 'viewer')).toMatchObject({ approvals_needed: 1, approvers: [{ count: 1 }] })
    expect(await outcome(answer(id, 'viewer'))).toBe('done')
  })

  test('nobody of another organization: there it does not exist', async () => {
    const { id } = await asked()
    const elsewhere = await addOrganization(engine.context)
    const caller = {
      ...engine.caller('viewer'),
      organizationId: elsewhere.id,
      userId: elsewhere.owner.userId,
    }
    const work = answerQuestion(engine.context, { caller, approvalId: id, answer: 'refund' })
    expect(await outcome(work)).toBe('not_found')
  })
})

describe('a step that cannot ask fails', () => {
  test('a service account', async () => {
    const account = await createServiceAccount(engine.context, engine.caller('owner'), {
      name: 'bot',
      role: 'member',
    })
    const runId = await engine.run(asking({ to: { person: '{{input.who}}' } }), { who: account.email })
    expect(await step(runId)).toMatchObject({
      state: 'failed',
      reason: expect.stringContaining('is a service account'),
    })
    expect((await engine.effectOf({ key: keyOf(runId) }))?.error).toMatchObject({
      code: 'invalid_params',
      fault: 'caller',
    })
  })

  test.each<Json>(['stranger@elsewhere.test', '', null])('who: %j', async (who) => {
    const runId = await engine.run(asking({ to: { person: '{{input.who}}' } }), { who: who as string })
    expect(await step(runId)).toMatchObject({
      state: 'failed',
      reason: expect.stringMatching(/^`ask\.to`: /),
    })
    expect(await engine.approvalsOf(runId)).toEqual([])
  })
})

describe('an answer', () => {
  test('that does not fit is refused with the path of the field, and changes nothing', async () => {
    const it = await asked({ choices: undefined, form })
    const before = await stateOf(it)
    const refused = await answer(it.id, 'viewer', { action: 'burn', other: 1 }).catch(
      (error: unknown) => error,
    )
    expect(refused).toMatchObject({
      code: 'validation_error',
      details: [{ path: 'answer.other' }, { path: 'answer.action' }],
    })
    expect(await stateOf(it)).toEqual(before)
    await answer(it.id, 'viewer', { action: 'refuse' })
    expect(await outputOf(it.runId)).toMatchObject({ answer: { action: 'refuse', message: null } })
  })

  test('comes once', async () => {
    const it = await asked()
    const both = await Promise.all([
      outcome(answer(it.id, 'viewer')),
      outcome(answer(it.id, 'viewer', 'refuse')),
    ])
    expect(both.toSorted()).toEqual(['approval_already_decided', 'done'])
    expect(await outputOf(it.runId)).toMatchObject({ answer: both[0] === 'done' ? 'refund' : 'refuse' })
  })

  test('is no vote, and a vote is no answer', async () => {
    const it = await asked({ to: { person: email('admin') } })
    const before = await stateOf(it)
    for (const decision of ['approve', 'reject'] as const)
      await expect(engine.vote(it.id, 'admin', decision)).rejects.toThrow(
        `a question has no votes: answer it with \`POST /approvals/${it.id}/answer\``,
      )
    expect(await stateOf(it)).toEqual(before)
  })

  test('is refused while the organization is frozen, and the question stays', async () => {
    const it = await asked()
    await engine.frozen(async () => {
      await expect(answer(it.id, 'viewer')).rejects.toThrow('the organization is frozen (incident)')
      expect(await step(it.runId)).toMatchObject({ state: 'held' })
      const fresh = await engine.run(asking(), {}).catch((error: { code: string }) => error.code)
      expect(fresh).toBe('run_denied')
    })
    expect(await outcome(answer(it.id, 'viewer'))).toBe('done')
  })

  test('brings the labels of what was shown, and `untrusted` unless the settings trust answers', async () => {
    const labelled = async () => {
      const it = await asked()
      await engine.context.db
        .updateTable('effects')
        .set({ labels: ['pii'] })
        .where('run_id', '=', it.runId)
        .execute()
      await answer(it.id, 'viewer')
      return (await engine.stepOf(it.runId)).labels
    }
    expect(await labelled()).toEqual(['pii', 'untrusted'])
    await engine.settings({ trust_answers: true })
    expect(await labelled()).toEqual(['pii'])
  })
})

test('a group that does not exist is warned about, and made before the next run', async () => {
  const { id } = await asked({ to: { group: 'nobody' } })
  expect(await readDetail(engine.context, engine.caller('owner'), id)).toMatchObject({
    cannot_be_given:
      'nobody who is asked can answer now: it lacks 1 member of `nobody`. An owner can make the group `nobody` for the next time',
  })
})

test('the values are shown as the author has ordered them', async () => {
  const { id } = await asked({ show: { order: '{{input.order}}', amount: 5, 'a note': null } })
  expect(Object.entries((await view(id, 'viewer')).params ?? {})).toEqual([
    ['order', '4711'],
    ['amount', 5],
    ['a note', null],
  ])
})

describe('nobody answers in time', () => {
  test('the step ends as expired, also if only the sweep notes it', async () => {
    const it = await asked()
    await engine.makeLate(it.id)
    expect(await outcome(answer(it.id, 'viewer'))).toBe('approval_expired')
    expect(await view(it.id, 'viewer')).toMatchObject({ status: 'expired' })
    expect(await step(it.runId)).toMatchObject({ state: 'expired', reason: 'nobody answered in time' })

    const swept = await asked()
    await engine.makeLate(swept.id)
    await expireDue(engine.context)
    expect(await engine.wakesOf(swept.runId)).toEqual([{ key: 's#-1' }])
    expect(await step(swept.runId)).toMatchObject({ state: 'expired' })
    const noticed = await asked()
    await engine.makeLate(noticed.id)
    expect(await step(noticed.runId)).toMatchObject({ state: 'expired' })
    expect(await view(noticed.id, 'viewer')).toMatchObject({ status: 'expired' })
  })

  test('`otherwise` stands in', async () => {
    const it = await asked({ choices: undefined, form, otherwise: { action: 'refuse' } })
    await engine.makeLate(it.id)
    expect(await step(it.runId)).toMatchObject({ state: 'completed' })
    const { expires_at } = await view(it.id, 'viewer')
    expect(await outputOf(it.runId)).toEqual({
      answer: { action: 'refuse', message: null },
      by: null,
      at: expires_at,
    })
    expect(await engine.stepOf(it.runId)).toMatchObject({ status: 'completed', labels: ['untrusted'] })
    const tooLate = 'nobody answered in time, and the answer `otherwise` of the step counted'
    await expect(answer(it.id, 'viewer', { action: 'refund' })).rejects.toMatchObject({ message: tooLate })
    expect(await readDetail(engine.context, engine.caller('viewer'), it.id)).toMatchObject({
      vote_refused: tooLate,
    })
    expect(await view(it.id, 'viewer')).toMatchObject({
      status: 'expired',
      ask: { answered_by: null, answer: { action: 'refuse', message: null } },
    })
  })
})

test('a cancelled run withdraws its questions', async () => {
  const it = await asked()
  await engine.cancel(it.runId)
  expect(await view(it.id, 'viewer')).toMatchObject({ status: 'cancelled' })
  expect(await outcome(answer(it.id, 'viewer'))).toBe('approval_already_decided')
  expect(await engine.stepOf(it.runId)).toMatchObject({ status: 'cancelled' })
})

test('no question is asked above the limit of pending approvals', async () => {
  const { rows } = await engine.context.pool.query<{ n: string }>(
    `select count(*) as n from approvals where status = 'pending'`,
  )
  await changeQuota(engine.context, engine.caller('owner'), { pending_approvals: Number(rows[0]?.n) })
  const runId = await engine.run(asking(), {})
  expect(await step(runId)).toMatchObject({ state: 'no_room' })
  expect(await engine.approvalsOf(runId)).toEqual([])
  await changeQuota(engine.context, engine.caller('owner'), { pending_approvals: null })
  expect(await step(runId)).toMatchObject({ state: 'held' })
})

test('each item of a `for_each` is asked about', async () => {
  const definition = asking({ show: { item: '{{item}}' } }, { for_each: ['a', 'b'] })
  const runId = await engine.run(definition)
  await expandStep(engine.context, runId, 's')
  const held = [await step(runId, 0), await step(runId, 1)]
  expect((await engine.readRun(runId))?.status_reason).toBe(
    '2 items of step `s` wait for an answer of 1 member of `sales`',
  )
  const [first = '', second = ''] = held.flatMap((each) =>
    each.state === 'held' ? (each.approvalId ?? []) : [],
  )
  expect(await view(second, 'viewer')).toMatchObject({ item_index: 1, params: { item: 'b' } })
  await answer(second, 'viewer', 'refuse')
  await answer(first, 'viewer')
  expect([await outputOf(runId, 0), await outputOf(runId, 1)]).toMatchObject([
    { answer: 'refund' },
    { answer: 'refuse' },
  ])
})

test('who does not answer and did not start the run sees no value of the question', async () => {
  const { id } = await asked()
  const seen = async (by: BootstrapName) => 'params' in (await view(id, by))
  expect([await seen('viewer'), await seen('member'), await seen('owner')]).toEqual([true, true, true])
  expect(await seen('admin')).toBe(false)
  await answer(id, 'viewer')
  expect((await view(id, 'admin')).ask).not.toHaveProperty('answer')
})

test('a question hides no values of its run', async () => {
  const { runId } = await asked({ to: { person: email('approver') } })
  const run = { id: runId, requested_by: engine.caller('member').userId }
  expect(await sightOf(engine.context.db, engine.caller('admin'), run)).toMatchObject({
    hidden: null,
    isBarred: false,
  })
  expect((await sightOf(engine.context.db, engine.caller('viewer'), run)).hidden).not.toBeNull()
})

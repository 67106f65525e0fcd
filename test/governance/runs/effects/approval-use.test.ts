import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import { createRoleOverride, deleteRoleOverride } from '../../../../src/governance/rules/role-overrides.ts'
import { deleteToolPolicy } from '../../../../src/governance/rules/tool-policies.ts'
import { cancelRun } from '../../../../src/governance/runs/end/cancel.ts'
import type { BootstrapName } from '../../../../src/governance/people/bootstrap.ts'
import type { Role } from '../../../../src/policy/types.ts'
import {
  approvalsOf,
  denyRule,
  effectOf,
  eventsOf,
  go,
  hold,
  holdRule,
  opOf,
  outcomeOf,
  runOf,
  useEngine,
  stepOf,
  type Engine,
  type StepOp,
} from '../engine-fixture.ts'
import { create } from '../../rules/policy-calls.ts'

let engine: Engine
useEngine((started) => (engine = started))
const everyone: Record<BootstrapName, Role> = { owner: 'owner', admin: 'admin', approver: 'admin', member: 'member', viewer: 'viewer' } // prettier-ignore
beforeEach(async () => {
  await engine.settings({
    approvals_enabled: true,
    approval_threshold: 1,
    allow_self_approval: false,
    default_tool_access: 'allow',
  })
  await engine.rules(holdRule())
  for (const name of Object.keys(everyone) as BootstrapName[]) await setRole(name, everyone[name])
})

/** Changes a role under the same lock that every decision takes. */
async function setRole(name: BootstrapName, role: Role | null): Promise<void> {
  const { organizationId, userId } = engine.caller(name)
  const { db } = engine.context
  await db.deleteFrom('memberships').where('user_id', '=', userId).execute()
  if (role !== null)
    await db
      .insertInto('memberships')
      .values({ organization_id: organizationId, user_id: userId, role })
      .execute()
}

const approved = async (
  over: Parameters<typeof opOf>[1] = {},
  by: BootstrapName[] = ['admin'],
): Promise<StepOp> => {
  const op = opOf(await engine.run(), over)
  const id = await hold(engine, op)
  for (const name of by) await engine.vote(id, name)
  return op
}

describe('an approval', () => {
  test('allows its one call with all its technical retries, and is used up', async () => {
    const op = await approved()
    await go(engine, op)
    await engine.record(outcomeOf(op, 1, 'retry'))
    expect(await go(engine, op)).toBe(2)
    await engine.record(outcomeOf(op, 2, 'completed'))
    const [approval, ...more] = await approvalsOf(engine.context, op.key.runId)
    expect(more).toEqual([])
    expect(approval).toMatchObject({ status: 'approved', used_by: `${op.key.runId}/s/-1` })
    expect(approval?.used_at).not.toBeNull()
  })

  test('does not apply to another item, step or run', async () => {
    const op = await approved()
    const [approval] = await approvalsOf(engine.context, op.key.runId)
    expect(await hold(engine, { ...op, key: { ...op.key, itemIndex: 0 } })).not.toBe(approval?.id)
    expect(await hold(engine, opOf(await engine.run()))).not.toBe(approval?.id)
    // The approval does not apply even if the row of another call is forced to name it.
    await go(engine, op)
    const thief = opOf(await engine.run())
    await hold(engine, thief)
    await engine.context.db
      .updateTable('effects')
      .set({ approval_id: approval?.id ?? '' })
      .where('run_id', '=', thief.key.runId)
      .execute()
    expect(await engine.decide(thief)).toMatchObject({ go: false, state: 'held' })
  })

  test('for other parameters does not count', async () => {
    const op = await approved()
    await engine.context.db
      .updateTable('approvals')
      .set({ params_hash: 'other' })
      .where('run_id', '=', op.key.runId)
      .execute()
    expect(await engine.decide(op)).toMatchObject({ go: false, state: 'held' })
  })
})

const policy = async (body: object) => void (await create(engine, { tool_name: 'mail_send', ...body }))

afterEach(async () => {
  const owner = engine.caller('owner')
  for (const role of [undefined, 'member', 'admin'] as const)
    await deleteToolPolicy(engine.context, owner, 'mail_send', role).catch(() => {})
  await deleteRoleOverride(engine.context, owner, 'mail_send', 'member').catch(() => {})
})

/** Each change between the vote and the use of the approval, with the resulting state of the call. */
const changes: readonly (readonly [string, string, (op: StepOp) => Promise<StepOp | void>])[] = [
  ['nothing', 'go', async () => {}],
  ['a label that was shown is gone', 'go', async (op) => ({ ...op, labels: ['internal'] })],
  ['a label more than was shown', 'held', async (op) => ({ ...op, labels: ['internal', 'pii', 'secret'] })],
  ['the rule now needs an owner', 'held', () => engine.rules(holdRule({ approver: 'owner' }))],
  ['the rule now needs two', 'held', () => engine.rules(holdRule({ approvals_needed: 2 }))],
  ['another rule holds it for an owner too', 'held', () => engine.rules(holdRule(), holdRule({ name: 'o', approver: 'owner' }))], // prettier-ignore
  ['the organization now needs two', 'held', () => engine.settings({ approval_threshold: 2 })],
  ['the voter was demoted', 'held', () => setRole('admin', 'member')],
  ['the voter has left', 'held', () => setRole('admin', null)],
  ['a deny rule was saved', 'denied', () => engine.rules(holdRule(), denyRule())],
  ['approvals were switched off', 'denied', () => engine.settings({ approvals_enabled: false })],
  ['the requester has left', 'denied', () => setRole('member', null)],
  ['the requester is a viewer now', 'denied', () => setRole('member', 'viewer')],
  ['the run was cancelled', 'cancelled', (op) => cancelRun(engine.context, { caller: engine.caller('member'), runId: op.key.runId })], // prettier-ignore
  ['a policy that blocks the tool was saved', 'denied', () => policy({ allowed: false })],
  [
    'a policy that blocks it for the role was saved',
    'denied',
    () => policy({ allowed: false, role: 'member' }),
  ],
  ['an override that blocks it was saved', 'denied', () => createRoleOverride(engine.context, engine.caller('owner'), { tool_name: 'mail_send', role: 'member', allowed: false }, null).then(() => {})], // prettier-ignore
  ['the tool may only read now', 'denied', () => policy({ restrictions: { read_only: true } })],
  ['tools need a policy now', 'denied', () => engine.settings({ default_tool_access: 'deny' })],
  ['a policy of another role was saved', 'go', () => policy({ allowed: false, role: 'admin' })],
  ['the rule is gone', 'go', () => engine.rules()],
  ['the rule is only a shadow now', 'go', () => engine.rules(holdRule({ status: 'shadow' }))],
]

describe('between the vote and the use', () => {
  test.each(changes)('%s → %s', async (_name, expected, change) => {
    const op = await approved({ labels: ['internal', 'pii'] })
    const now = (await change(op)) ?? op
    const verdict = await engine.decide(now)
    expect(verdict.go ? 'go' : verdict.state).toBe(expected)
    const [first, second] = await approvalsOf(engine.context, op.key.runId)
    expect(first?.used_by === null).toBe(expected !== 'go' || _name.startsWith('the rule is'))
    if (expected !== 'held') {
      expect(second).toBeUndefined()
      return
    }
    expect(first?.superseded_by).toBe(second?.id)
    expect(second).toMatchObject({ status: 'pending', labels: [...now.labels].sort() })
    await setRole('admin', 'admin')
    await engine.vote(second?.id ?? '', 'owner')
    // If two votes are needed, a second person must vote: the new approval does not take over votes of the old one.
    if (second?.approvals_needed === 2) await engine.vote(second.id, 'approver')
    await go(engine, now)
  })

  test.each<[string, BootstrapName, BootstrapName]>([
    ['requester', 'admin', 'member'],
    ['author', 'member', 'admin'],
  ])('allow_self_approval was switched off after the vote of the %s → held', async (_, by, author) => {
    await engine.settings({ allow_self_approval: true })
    const op = opOf(await engine.run(undefined, {}, by, author))
    await engine.vote(await hold(engine, op), 'admin')
    await engine.settings({ allow_self_approval: false })
    expect(await engine.decide(op)).toMatchObject({ state: 'held' })
  })

  test('a policy that blocks the tool for the role of the step’s author → denied, whoever runs it', async () => {
    const op = opOf(await engine.run(undefined, {}, 'admin', 'member'))
    await engine.vote(await hold(engine, op), 'owner')
    await policy({ allowed: false, role: 'member' })
    expect(await engine.decide(op)).toMatchObject({
      state: 'denied',
      reason: expect.stringContaining('somebody with this role wrote the step'),
    })
  })

  test('a frozen organization denies with its own reason', async () => {
    const op = await approved()
    const freeze = (frozen: string | null) =>
      engine.context.db.updateTable('chain_head').set({ frozen }).execute()
    await freeze('incident 7')
    try {
      expect(await engine.decide(op)).toMatchObject({ state: 'denied' })
    } finally {
      await freeze(null)
    }
    const decision = await engine.context.db
      .selectFrom('decisions')
      .select(['reason', 'verdict'])
      .where('run_id', '=', op.key.runId)
      .orderBy('seq', 'desc')
      .executeTakeFirstOrThrow()
    expect(decision).toEqual({ reason: 'organization frozen', verdict: 'deny' })
  })

  test('a rejected call stays rejected after its rule is removed', async () => {
    const op = opOf(await engine.run())
    await engine.vote(await hold(engine, op), 'admin', 'reject')
    await engine.rules()
    expect(await engine.decide(op)).toMatchObject({ go: false, state: 'rejected' })
  })

  test('a lowered threshold does not reduce the votes that the approval needs', async () => {
    await engine.settings({ approval_threshold: 2 })
    const op = opOf(await engine.run())
    const id = await hold(engine, op)
    await engine.vote(id, 'admin')
    await engine.settings({ approval_threshold: 1 })
    expect(await engine.decide(op)).toMatchObject({ state: 'held', approvalId: id })
    await engine.vote(id, 'approver')
    await go(engine, op)
  })
})

describe('a run whose calls are held', () => {
  test('is paused while any call waits and resumes with the last; events are in order', async () => {
    const runId = await engine.run({
      steps: ['a', 'b', 'c'].map((id) => ({ id, tool: 'memory_get', params: { key: 'k' } })),
    })
    const at = (stepId: string): StepOp => {
      const op = opOf(runId)
      return { ...op, key: { ...op.key, stepId } }
    }
    const status = async () => (await runOf(engine.context, runId)).status
    const first = await hold(engine, at('a'))
    const second = await hold(engine, at('b'))
    expect(await status()).toBe('paused')
    // Another branch of the run continues, but the run stays paused.
    await engine.rules()
    await go(engine, at('c'))
    await engine.record(outcomeOf(at('c'), 1, 'completed'))
    expect(await status()).toBe('paused')
    await engine.rules(holdRule())
    await engine.vote(first, 'admin')
    await go(engine, at('a'))
    expect(await status()).toBe('paused')
    await engine.vote(second, 'admin')
    await go(engine, at('b'))
    expect(await status()).toBe('running')
    expect(await runOf(engine.context, runId)).toMatchObject({ status_reason: 'the run is in progress' })
    const events = await eventsOf(engine.context, runId)
    expect(events.filter((type) => type.startsWith('run.'))).toEqual([
      'run.queued',
      'run.started',
      'run.paused',
      'run.resumed',
    ])
    expect(events.slice(0, 6)).toEqual([
      'run.queued',
      'run.started',
      'step.decided',
      'step.held',
      'approval.created',
      'run.paused',
    ])
  })

  test('shows the waiting calls with approver and rule', async () => {
    await engine.rules(holdRule({ approver: 'owner', name: 'Board mail' }))
    const op = opOf(await engine.run(), { labels: ['pii'] })
    await hold(engine, op)
    expect(await runOf(engine.context, op.key.runId)).toMatchObject({
      status_reason: 'step `s` waits for approval by an owner (rule `Board mail`)',
    })
    expect(await stepOf(engine.context, op.key.runId)).toMatchObject({
      status: 'held',
      verdict: 'require_approval',
    })
    const [approval] = await approvalsOf(engine.context, op.key.runId)
    expect(approval).toMatchObject({
      kind: 'step',
      tool: 'mail_send',
      approver: 'owner',
      labels: ['pii'],
      rule_name: 'Board mail',
      params_hash: op.paramsHash,
    })
    expect(approval?.params_sealed?.equals(op.sealed)).toBe(true)
  })

  test.each([
    [undefined, 3600],
    [60, 60],
    [0, null],
  ])('expires after its rule’s time (%s), else the default', async (seconds, expected) => {
    await engine.rules(holdRule(seconds === undefined ? {} : { expires_after_seconds: seconds }))
    const op = opOf(await engine.run())
    await hold(engine, op)
    const [approval] = await approvalsOf(engine.context, op.key.runId)
    const lasts = approval?.expires_at ? approval.expires_at.getTime() - approval.created_at.getTime() : null
    expect(lasts).toBe(expected === null ? null : expected * 1000)
  })

  test('a held call that is asked again, e.g. by a forged signal, keeps its approval', async () => {
    const op = opOf(await engine.run())
    const id = await hold(engine, op)
    const before = await effectOf(engine.context, op)
    expect(await hold(engine, op)).toBe(id)
    expect(await effectOf(engine.context, op)).toEqual(before)
    expect(await approvalsOf(engine.context, op.key.runId)).toHaveLength(1)
  })
})

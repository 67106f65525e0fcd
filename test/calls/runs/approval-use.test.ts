import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import { createRoleOverride } from '../../../src/governance/rules/role-overrides.ts'
import type { BootstrapName } from '../../../src/governance/people/bootstrap.ts'
import type { Role } from '../../../src/policy/types.ts'
import {
  denyRule,
  holdRule,
  opOf,
  outcomeOf,
  useEngine,
  type Engine,
  type ResolvedCall,
  toolOf,
} from '../../governance/runs/engine-fixture.ts'
import { create, forgetAll } from '../../governance/rules/policy-calls.ts'
import { setFreeze } from '../../../src/governance/rules/freeze.ts'
import { decideAgain } from '../../../src/calls/runs/effect.ts'
import type { Basis } from '../../../src/calls/runs/call.ts'
import { markSent, recordWithWrite } from '../../../src/calls/runs/outcome.ts'

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

const approved = async (over: Parameters<typeof opOf>[1] = {}): Promise<ResolvedCall> => {
  const op = opOf(await engine.run(), over)
  await engine.vote(await engine.hold(op), 'admin')
  return op
}

describe('an approval', () => {
  test('allows its one call with all its technical retries, and is used up', async () => {
    const op = await approved()
    await engine.go(op)
    await engine.record(outcomeOf(op, 1, 'retry'))
    expect(await engine.go(op)).toBe(2)
    await engine.record(outcomeOf(op, 2, 'completed'))
    const [approval, ...more] = await engine.approvalsOf(op.key.runId)
    expect(more).toEqual([])
    expect(approval).toMatchObject({ status: 'approved', used_by: `${op.key.runId}/s/-1` })
    expect(approval?.used_at).not.toBeNull()
  })

  test('does not apply to another item, step or run', async () => {
    const op = await approved()
    const [approval] = await engine.approvalsOf(op.key.runId)
    expect(await engine.hold({ ...op, key: { ...op.key, itemIndex: 0 } })).not.toBe(approval?.id)
    expect(await engine.hold(opOf(await engine.run()))).not.toBe(approval?.id)
    // The approval does not apply even if the row of another call is forced to name it.
    await engine.go(op)
    const thief = opOf(await engine.run())
    await engine.hold(thief)
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

afterEach(() => forgetAll(engine))

const blockForMembers = () => {
  const override = { tool_name: 'mail_send', role: 'member', allowed: false }
  return createRoleOverride(engine.context, engine.caller('owner'), override, null)
}
const lastDecision = (op: ResolvedCall) =>
  engine.context.db
    .selectFrom('decisions')
    .select(['reason', 'verdict'])
    .where('run_id', '=', op.key.runId)
    .orderBy('seq', 'desc')
    .executeTakeFirst()

/** Each change between the vote and the use of the approval, with the resulting state of the call. */
const changes: readonly (readonly [string, string, (op: ResolvedCall) => Promise<ResolvedCall | void>])[] = [
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
  ['the run was cancelled', 'cancelled', async (op) => void (await engine.cancel(op.key.runId))],
  ['a policy that blocks the tool was saved', 'denied', () => policy({ allowed: false })],
  ['a policy that blocks it for the role', 'denied', () => policy({ allowed: false, role: 'member' })],
  ['an override that blocks it was saved', 'denied', async () => void (await blockForMembers())],
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
    const [first, second] = await engine.approvalsOf(op.key.runId)
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
    await engine.go(now)
  })

  test.each<[string, BootstrapName, BootstrapName]>([
    ['requester', 'admin', 'member'],
    ['author', 'member', 'admin'],
  ])('allow_self_approval was switched off after the vote of the %s → held', async (_, by, author) => {
    await engine.settings({ allow_self_approval: true })
    const op = opOf(await engine.run(undefined, {}, by, author))
    await engine.vote(await engine.hold(op), 'admin')
    await engine.settings({ allow_self_approval: false })
    expect(await engine.decide(op)).toMatchObject({ state: 'held' })
  })

  test('a policy that blocks the tool for the role of the step’s author → denied, whoever runs it', async () => {
    const op = opOf(await engine.run(undefined, {}, 'admin', 'member'))
    await engine.vote(await engine.hold(op), 'owner')
    await policy({ allowed: false, role: 'member' })
    expect(await engine.decide(op)).toMatchObject({
      state: 'denied',
      reason: expect.stringContaining('somebody with this role wrote the step'),
    })
  })

  test('a frozen organization denies with its own reason', async () => {
    const op = await approved()
    expect(await engine.frozen(() => engine.decide(op))).toMatchObject({ state: 'denied' })
    expect(await lastDecision(op)).toEqual({ reason: 'organization frozen', verdict: 'deny' })
  })

  test('a rejected call stays rejected after its rule is removed', async () => {
    const op = opOf(await engine.run())
    await engine.vote(await engine.hold(op), 'admin', 'reject')
    await engine.rules()
    expect(await engine.decide(op)).toMatchObject({ go: false, state: 'rejected' })
  })

  test('a lowered threshold does not reduce the votes that the approval needs', async () => {
    await engine.settings({ approval_threshold: 2 })
    const op = opOf(await engine.run())
    const id = await engine.hold(op)
    await engine.vote(id, 'admin')
    await engine.settings({ approval_threshold: 1 })
    expect(await engine.decide(op)).toMatchObject({ state: 'held', approvalId: id })
    await engine.vote(id, 'approver')
    await engine.go(op)
  })
})

describe('a run whose calls are held', () => {
  test('is paused while any call waits and resumes with the last; events are in order', async () => {
    const runId = await engine.run({
      steps: ['a', 'b', 'c'].map((id) => ({ id, tool: 'memory_get', params: { key: 'k' } })),
    })
    const at = (stepId: string): ResolvedCall => {
      const op = opOf(runId)
      return { ...op, key: { ...op.key, stepId } }
    }
    const status = async () => (await engine.runOf(runId)).status
    const first = await engine.hold(at('a'))
    const second = await engine.hold(at('b'))
    expect(await status()).toBe('paused')
    // Another branch of the run continues, but the run stays paused.
    await engine.rules()
    await engine.go(at('c'))
    await engine.record(outcomeOf(at('c'), 1, 'completed'))
    expect(await status()).toBe('paused')
    await engine.rules(holdRule())
    await engine.vote(first, 'admin')
    await engine.go(at('a'))
    expect(await status()).toBe('paused')
    await engine.vote(second, 'admin')
    await engine.go(at('b'))
    expect(await status()).toBe('running')
    expect(await engine.runOf(runId)).toMatchObject({ status_reason: 'the run is in progress' })
    const events = await engine.eventsOf(runId)
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
    await engine.hold(op)
    expect(await engine.runOf(op.key.runId)).toMatchObject({
      status_reason: 'step `s` waits for approval by an owner (rule `Board mail`)',
    })
    expect(await engine.stepOf(op.key.runId)).toMatchObject({ status: 'held', verdict: 'require_approval' })
    const [approval] = await engine.approvalsOf(op.key.runId)
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
    await engine.hold(op)
    const [approval] = await engine.approvalsOf(op.key.runId)
    const lasts = approval?.expires_at ? approval.expires_at.getTime() - approval.created_at.getTime() : null
    expect(lasts).toBe(expected === null ? null : expected * 1000)
  })

  test('a held call that is asked again, e.g. by a forged signal, keeps its approval', async () => {
    const op = opOf(await engine.run())
    const id = await engine.hold(op)
    const before = await engine.effectOf(op)
    expect(await engine.hold(op)).toBe(id)
    expect(await engine.effectOf(op)).toEqual(before)
    expect(await engine.approvalsOf(op.key.runId)).toHaveLength(1)
  })
})

/*
 * Changes between the decision on a call and the moment when the call acts. A mail acts when it is marked as sent.
 * Other tools act when they write to the service’s database.
 */
describe('between the decision on a call and its act', () => {
  beforeEach(() => engine.rules())
  const owner = () => engine.caller('owner')
  const stop = () =>
    setFreeze(engine.context, owner(), true, { reason: 'incident', askedAt: performance.now(), once: null })
  const goOn = () =>
    setFreeze(engine.context, owner(), false, { reason: 'over', askedAt: performance.now(), once: null })
  afterEach(goOn)

  const again = (op: ResolvedCall, attempt = 1) =>
    engine.context.combiner.join(engine.organizationId, decideAgain, { key: op.key, call: op, attempt })

  /** A call that is allowed and about to act, with the basis of its decision. */
  async function ready(over: Parameters<typeof opOf>[1] = {}): Promise<[ResolvedCall, Basis]> {
    const op = opOf(await engine.run(), over)
    await engine.go(op)
    return [op, await engine.basisOf(op)]
  }

  const mark = (op: ResolvedCall, attempt: number, basis: Basis) =>
    markSent(engine.context, op.key, attempt, basis)
  let writes: number[]
  async function write(op: ResolvedCall, attempt: number, basis: Basis): Promise<string> {
    const outcome = outcomeOf(op, attempt, 'completed')
    const commit = async () => (writes.push(attempt), null)
    const state = await recordWithWrite(engine.context, engine.organizationId, outcome, basis, commit)
    return state === 'completed' ? 'yes' : state
  }

  /** The change, the answer just before the act (`changed`: the call must be decided again), and the new decision. */
  const changes: readonly (readonly [string, () => Promise<unknown>, string, string])[] = [
    ['nothing', async () => {}, 'yes', 'go 2'],
    ['a freeze', stop, 'changed', 'denied'],
    ['a freeze that is over', async () => (await stop(), goOn()), 'changed', 'go 2'],
    ['a rule that denies it', () => engine.rules(denyRule()), 'changed', 'denied'],
    ['a rule that holds it', () => engine.rules(holdRule()), 'changed', 'held'],
    ['a rule for another tool', () => engine.rules(denyRule({ tools: ['file_read'] })), 'changed', 'go 2'],
    ['a tool policy that blocks it', () => policy({ allowed: false }), 'changed', 'denied'],
    ['a setting', () => engine.settings({ approval_threshold: 2 }), 'changed', 'go 2'],
    ['the requester made a viewer', () => setRole('member', 'viewer'), 'changed', 'denied'],
    ['the requester made an admin', () => setRole('member', 'admin'), 'changed', 'go 2'],
    ['the requester who leaves', () => setRole('member', null), 'changed', 'denied'],
  ]
  const acts = {
    'the mark of a mail': ['unsafe', mark],
    'the commit of a write': ['transactional', write],
  } as const
  describe.each(Object.entries(acts))('before %s', (_name, [repeat, act]) => {
    test.each(changes)('%s', async (_, change, answer, decided) => {
      writes = []
      const [op, basis] = await ready({ tool: toolOf(repeat) })
      await change()
      expect(await act(op, 1, basis)).toBe(answer)
      if (repeat === 'transactional') expect(writes).toEqual(answer === 'yes' ? [1] : [])
      if (answer === 'yes') return
      expect((await engine.effectOf(op))?.state).toBe('intent')
      const verdict = await again(op)
      expect(verdict?.go ? `go ${verdict.attempt}` : verdict?.state).toBe(decided)
      if (!verdict?.go) return
      expect(await act(op, 2, verdict.basis)).toBe('yes')
      if (repeat === 'transactional') expect(writes).toEqual([2])
    })
  })

  test('a freeze is the reason of the decision and of the outcome', async () => {
    const [op] = await ready()
    await stop()
    await again(op)
    expect(await lastDecision(op)).toEqual({ reason: 'organization frozen', verdict: 'deny' })
    expect(await engine.effectOf(op)).toMatchObject({ state: 'denied', error: { code: 'denied' } })
  })

  test('the approval that this call has used allows it again, also after a crash; a stricter rule holds it', async () => {
    await engine.rules(holdRule())
    const op = await approved()
    await engine.go(op)
    const [approval] = await engine.approvalsOf(op.key.runId)
    await engine.rules(holdRule({ name: 'the same again' }))
    expect(await again(op)).toMatchObject({ go: true, attempt: 2 })
    expect(await engine.approvalsOf(op.key.runId)).toMatchObject([{ id: approval?.id, status: 'approved' }])
    expect(await engine.go(op)).toBe(3)
    await engine.rules(holdRule({ name: 'stricter', approver: 'owner' }))
    expect(await again(op, 3)).toMatchObject({ go: false, state: 'held' })
    const [first, second] = await engine.approvalsOf(op.key.runId)
    expect(first).toMatchObject({ id: approval?.id, superseded_by: second?.id })
    await engine.vote(second?.id ?? '', 'owner')
    expect(await engine.go(op)).toBe(4)
  })

  test('an attempt that was superseded or cancelled decides nothing', async () => {
    const [op, basis] = await ready()
    await engine.go(op)
    expect(await again(op, 1)).toBeNull()
    expect(await mark(op, 1, basis)).toBe('superseded')
    await engine.cancel(op.key.runId)
    await engine.rules(holdRule())
    expect(await mark(op, 2, basis)).toBe('superseded')
  })
})

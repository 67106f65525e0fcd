import { describe, expect, test } from '@jest/globals'
import { freeze, unfreeze } from '../../../../src/governance/rules/freeze.ts'
import { decideAgain } from '../../../../src/governance/runs/effects/decide-again.ts'
import type { Basis } from '../../../../src/governance/runs/effects/step-op.ts'
import { cancelRun } from '../../../../src/governance/runs/end/cancel.ts'
import { markSent, recordWithWrite } from '../../../../src/governance/runs/effects/outcome.ts'
import { createToolPolicy, deleteToolPolicy } from '../../../../src/governance/rules/tool-policies.ts'
import {
  approvalsOf,
  basisOf,
  denyRule,
  effectOf,
  go,
  hold,
  holdRule,
  opOf,
  outcomeOf,
  toolOf,
  useEngine,
  type Engine,
  type StepOp,
} from '../engine-fixture.ts'

/*
 * Changes between the decision on a call and the moment when the call acts. A mail acts when it is marked as sent.
 * Other tools act when they write to the service’s database.
 */

let engine: Engine
useEngine((started) => (engine = started))

const again = (op: StepOp, attempt = 1) =>
  engine.context.combiner.join(engine.organizationId, decideAgain, { key: op.key, step: op, attempt })
const stop = () => freeze(engine.context, engine.caller('owner'), 'incident', performance.now(), null)
const goOn = () => unfreeze(engine.context, engine.caller('owner'), 'over', performance.now(), null)
const setRole = (role: string) =>
  engine.context.pool.query('update memberships set role = $1 where organization_id = $2 and user_id = $3', [
    role,
    engine.organizationId,
    engine.caller('member').userId,
  ])

const blockMail = () =>
  createToolPolicy(
    engine.context,
    engine.caller('admin'),
    { tool_name: 'mail_send', allowed: false, restrictions: {} },
    null,
  )
const allowMail = () => deleteToolPolicy(engine.context, engine.caller('admin'), 'mail_send', undefined)

interface Ready {
  readonly op: StepOp
  readonly basis: Basis
}

/** A call that is allowed and about to act. */
async function ready(over: Parameters<typeof opOf>[1] = {}): Promise<Ready> {
  const op = opOf(await engine.run(), over)
  await go(engine, op)
  return { op, basis: await basisOf(engine.context, op) }
}

/** A call that a person approved, and that is about to act. */
async function approved(): Promise<Ready & { readonly approvalId: string }> {
  await engine.rules(holdRule())
  const op = opOf(await engine.run())
  const approvalId = await hold(engine, op)
  await engine.vote(approvalId, 'admin')
  await go(engine, op)
  return { op, approvalId, basis: await basisOf(engine.context, op) }
}

/**
 * Columns: the change, how to undo it, the answer just before the act, and the new decision. The answer `changed` means
 * that the call must be decided again.
 */
const changes: readonly (readonly [
  string,
  () => Promise<unknown>,
  () => Promise<unknown>,
  string,
  string,
])[] = [
  ['nothing', async () => {}, async () => {}, 'yes', 'go 2'],
  ['a freeze', stop, goOn, 'changed', 'denied'],
  ['a freeze that is over', async () => (await stop(), goOn()), async () => {}, 'changed', 'go 2'],
  ['a rule that denies it', () => engine.rules(denyRule()), () => engine.rules(), 'changed', 'denied'],
  ['a rule that holds it', () => engine.rules(holdRule()), () => engine.rules(), 'changed', 'held'],
  [
    'a rule that has nothing to do with it',
    () => engine.rules(denyRule({ tools: ['file_read'] })),
    () => engine.rules(),
    'changed',
    'go 2',
  ],
  ['a tool policy that blocks it', blockMail, allowMail, 'changed', 'denied'],
  ['a setting', () => engine.settings({ approval_threshold: 2 }), () => engine.settings({ approval_threshold: 1 }), 'changed', 'go 2'], // prettier-ignore
  ['the requester made a viewer', () => setRole('viewer'), () => setRole('member'), 'changed', 'denied'],
  ['the requester made an admin', () => setRole('admin'), () => setRole('member'), 'changed', 'go 2'],
]

describe('between the decision on a mail and its mark', () => {
  test.each(changes)('%s', async (_, change, undo, answer, decided) => {
    const { op, basis } = await ready()
    await change()
    try {
      expect(await markSent(engine.context, op.key, 1, basis)).toBe(answer)
      if (answer === 'yes') return
      expect((await effectOf(engine.context, op))?.state).toBe('intent')
      const verdict = await again(op)
      expect(verdict?.go ? `go ${verdict.attempt}` : verdict?.state).toBe(decided)
      if (!verdict?.go) return
      expect(await markSent(engine.context, op.key, 2, verdict.basis)).toBe('yes')
    } finally {
      await undo()
    }
  })

  test('the requester leaves: nothing is sent', async () => {
    const { op, basis } = await ready()
    const { userId } = engine.caller('member')
    await engine.context.pool.query('delete from memberships where user_id = $1', [userId])
    try {
      expect(await markSent(engine.context, op.key, 1, basis)).toBe('changed')
      expect(await again(op)).toMatchObject({ go: false, state: 'denied' })
    } finally {
      await engine.context.db
        .insertInto('memberships')
        .values({ organization_id: engine.organizationId, user_id: userId, role: 'member' })
        .execute()
    }
  })

  test('a freeze is the reason of the decision and of the outcome', async () => {
    const { op } = await ready()
    await stop()
    try {
      await again(op)
    } finally {
      await goOn()
    }
    const reasons = await engine.context.db
      .selectFrom('decisions')
      .select(['reason', 'verdict'])
      .where('run_id', '=', op.key.runId)
      .orderBy('seq')
      .execute()
    expect(reasons.at(-1)).toEqual({ reason: 'organization frozen', verdict: 'deny' })
    expect(await effectOf(engine.context, op)).toMatchObject({ state: 'denied', error: { code: 'denied' } })
  })

  test('the approval that this call has used allows it again', async () => {
    const { op, approvalId } = await approved()
    await engine.rules(holdRule({ name: 'the same again' }))
    const verdict = await again(op)
    expect(verdict).toMatchObject({ go: true, attempt: 2 })
    expect(await approvalsOf(engine.context, op.key.runId)).toMatchObject([
      { id: approvalId, status: 'approved' },
    ])
  })

  test('a stricter rule holds it again', async () => {
    const { op, approvalId } = await approved()
    await engine.rules(holdRule({ name: 'stricter', approver: 'owner' }))
    const verdict = await again(op)
    expect(verdict).toMatchObject({ go: false, state: 'held' })
    const [first, second] = await approvalsOf(engine.context, op.key.runId)
    expect(first).toMatchObject({ id: approvalId, superseded_by: second?.id })
    await engine.vote(second?.id ?? '', 'owner')
    expect(await go(engine, op)).toBe(2)
  })

  test('after a crash, the intent and its approval can be used by the next attempt', async () => {
    const { op } = await approved()
    await engine.rules(holdRule({ name: 'the same again' }))
    await again(op)
    expect(await go(engine, op)).toBe(3)
  })

  test('an attempt that was superseded or cancelled decides nothing', async () => {
    const { op, basis } = await ready()
    await go(engine, op)
    expect(await again(op, 1)).toBeNull()
    expect(await markSent(engine.context, op.key, 1, basis)).toBe('superseded')
    await cancelRun(engine.context, { caller: engine.caller('member'), runId: op.key.runId })
    await engine.rules(holdRule())
    expect(await markSent(engine.context, op.key, 2, basis)).toBe('superseded')
  })
})

describe('between the decision on a write and its commit', () => {
  test.each(changes)('%s', async (_, change, undo, answer, decided) => {
    const { op, basis } = await ready({ tool: toolOf('transactional') })
    await change()
    const writes: number[] = []
    const write = (attempt: number, rests: Basis) =>
      recordWithWrite(
        engine.context,
        engine.organizationId,
        outcomeOf(op, attempt, 'completed'),
        rests,
        async () => {
          writes.push(attempt)
          return null
        },
      )
    try {
      expect(await write(1, basis)).toBe(answer === 'yes' ? 'completed' : 'changed')
      expect(writes).toEqual(answer === 'yes' ? [1] : [])
      if (answer === 'yes') return
      const verdict = await again(op)
      expect(verdict?.go ? `go ${verdict.attempt}` : verdict?.state).toBe(decided)
      if (!verdict?.go) return
      expect(await write(2, verdict.basis)).toBe('completed')
      expect(writes).toEqual([2])
    } finally {
      await undo()
    }
  })
})

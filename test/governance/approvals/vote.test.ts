import { beforeEach, describe, expect, test, beforeAll } from '@jest/globals'
import { sql } from 'kysely'
import { expireDue } from '../../../src/governance/approvals/expire.ts'
import { readDetail } from '../../../src/governance/approvals/detail.ts'
import { listApprovals } from '../../../src/governance/approvals/read.ts'
import { prepareChange } from '../../../src/governance/applying/apply.ts'
import { vote } from '../../../src/governance/approvals/vote.ts'
import { changeRole } from '../../../src/governance/people/members.ts'
import type { Role } from '../../../src/policy/types.ts'
import { enterRun } from '../../../src/governance/runs/start/enter.ts'
import type { Context } from '../../../src/governance/context.ts'
import type { BootstrapName } from '../../../src/governance/people/bootstrap.ts'
import { addOrganization } from '../../api/fixtures.ts'
import { holdRule, opOf, useEngine, type Engine } from '../runs/engine-fixture.ts'
import type { GovernancePatch } from '../../../src/policy/settings.ts'

let engine: Engine
useEngine((started) => (engine = started))

beforeEach(async () => {
  await engine.settings({ approval_threshold: 1, allow_self_approval: false, approval_required_from: null })
  await engine.rules(holdRule())
})

const listOf = async (viewer: BootstrapName, filters: Parameters<typeof listApprovals>[2] = {}) =>
  (await listApprovals(engine.context, engine.caller(viewer), filters, { limit: 200, cursor: null })).data
/** Whether the viewer may decide the approval now. */
const isListed = async (approvalId: string, viewer: BootstrapName) =>
  (await listOf(viewer, { mine: true })).some(({ id }) => id === approvalId)
const held = async (by: BootstrapName = 'member', author: BootstrapName = 'member') => {
  const runId = await engine.run(undefined, {}, by, author)
  return { id: await engine.hold(opOf(runId)), runId }
}
const votesOf = (id: string) =>
  engine.context.db.selectFrom('approval_votes').selectAll().where('approval_id', '=', id).execute()
const outcome = (work: Promise<unknown>): Promise<string> =>
  work.then(
    () => 'counted',
    (error: { code?: string }) => error.code ?? String(error),
  )

/** Everything that a refused vote might wrongly change. */
async function stateOf({ id, runId }: { id: string; runId: string }) {
  return {
    approval: await engine.approvalsOf(runId),
    votes: await votesOf(id),
    events: await engine.eventsOf(runId),
    wakes: await engine.wakesOf(runId),
  }
}

describe('a vote', () => {
  test('decides, wakes the run once and shows the voter', async () => {
    const { id, runId } = await held()
    await engine.vote(id, 'admin', 'approve', 'fine')
    const { userId } = engine.caller('admin')
    expect(await votesOf(id)).toMatchObject([{ user_id: userId, decision: 'approve', comment: 'fine' }])
    expect((await engine.approvalsOf(runId))[0]).toMatchObject({ status: 'approved', used_at: null })
    expect(await engine.wakesOf(runId)).toEqual([{ key: 's#-1', by: userId }])
    expect((await engine.eventsOf(runId)).at(-1)).toBe('approval.decided')
  })

  const voted = async (name: BootstrapName, decision?: 'reject') => {
    const it = await held()
    await engine.vote(it.id, name, decision)
    return it
  }
  const after = async (change: Promise<unknown>, make: () => ReturnType<typeof held>) => (
    await change,
    make()
  )
  const late = async () => {
    const it = await held()
    await engine.makeLate(it.id)
    await expireDue(engine.context)
    return it
  }
  const two = () => after(engine.settings({ approval_threshold: 2 }), () => voted('admin'))
  const forOwner = () => after(engine.rules(holdRule({ approver: 'owner' })), held)
  test.each<[string, string, () => ReturnType<typeof held>, BootstrapName, 'approve' | 'reject']>([
    ['of the requester', 'self_approval', () => held('admin'), 'admin', 'approve'],
    [
      'of the author of the version that runs',
      'self_approval',
      () => held('member', 'admin'),
      'admin',
      'approve',
    ],
    ['of a member', 'not_an_approver', held, 'member', 'approve'],
    ['of a viewer', 'not_an_approver', held, 'viewer', 'approve'],
    ['of an admin where it needs an owner', 'not_an_approver', forOwner, 'admin', 'approve'],
    ['after a decision', 'approval_already_decided', () => voted('approver'), 'admin', 'approve'],
    ['after a rejection', 'approval_already_decided', () => voted('approver', 'reject'), 'admin', 'approve'],
    ['a second time', 'conflict', two, 'admin', 'approve'],
    ['a second time, the other way', 'conflict', two, 'admin', 'reject'],
    ['after expiry was recorded', 'approval_expired', late, 'admin', 'approve'],
  ])('%s is refused as %s and changes nothing', async (_name, code, prepare, name, decision) => {
    const it = await prepare()
    const before = await stateOf(it)
    expect(await outcome(engine.vote(it.id, name, decision))).toBe(code)
    expect(await stateOf(it)).toEqual(before)
  })

  test('of the requester or of an author gets the names of people who can decide', async () => {
    const ask = 'ask `approver@countersign.test` or `owner@countersign.test`'
    await expect(engine.vote((await held('admin')).id, 'admin')).rejects.toThrow(
      `you cannot decide your own request: ${ask}`,
    )
    await expect(engine.vote((await held('member', 'admin')).id, 'admin')).rejects.toThrow(
      `you wrote the version of the workflow that runs, and its authors cannot decide: ${ask}`,
    )
    await engine.rules(holdRule({ approver: 'owner' }))
    await expect(engine.vote((await held('owner')).id, 'owner')).rejects.toThrow(
      'nobody else has the role `owner`: add a person with this role, or set `allow_self_approval`',
    )
  })

  test('that did not count for a moment can be given again, and decides if enough votes count', async () => {
    await engine.settings({ approval_threshold: 2 })
    const it = await held()
    const missing = async () => {
      const { votes_missing, vote_refused } = await readDetail(engine.context, engine.caller('owner'), it.id)
      return [votes_missing, vote_refused]
    }
    const setRole = (role: Role) =>
      changeRole(engine.context, engine.caller('owner'), engine.caller('admin').userId, role)
    const mine = () => isListed(it.id, 'admin')
    await engine.vote(it.id, 'admin')
    expect([await missing(), await mine()]).toEqual([[1, null], false])
    await setRole('member')
    expect(await missing()).toEqual([2, null])
    await engine.vote(it.id, 'approver')
    expect([await missing(), await outcome(engine.vote(it.id, 'approver'))]).toEqual([[1, null], 'conflict'])
    await setRole('admin')
    expect([await missing(), await mine()]).toEqual([[0, null], true])
    expect(await outcome(engine.vote(it.id, 'admin', 'reject'))).toBe('conflict')
    await engine.vote(it.id, 'admin')
    expect([await votesOf(it.id), (await engine.wakesOf(it.runId)).length]).toMatchObject([[{}, {}], 1])
    expect(await engine.decide(opOf(it.runId))).toMatchObject({ go: true })
  })

  test('that rejects is named with its comment in the call’s outcome', async () => {
    const it = await held()
    const comment = `not\n before Friday ${'x'.repeat(400)}`
    await engine.vote(it.id, 'approver', 'reject', comment)
    expect(await engine.decide(opOf(it.runId))).toMatchObject({
      state: 'rejected',
      reason: expect.stringMatching(
        /^`approver@countersign\.test` rejected it with the comment `not before Friday x+…`$/,
      ),
    })
  })

  test('on an approval of another organization finds nothing', async () => {
    const it = await held()
    const { id, owner } = await addOrganization(engine.context)
    const before = await stateOf(it)
    const caller = { ...engine.caller('owner'), ...owner, organizationId: id }
    expect(await outcome(vote(engine.context, { caller, approvalId: it.id, decision: 'approve', comment: '', prepareChange: prepareChange(engine.context) }))).toBe('not_found') // prettier-ignore
    expect(await outcome(engine.vote('apr_none', 'admin'))).toBe('not_found')
    expect(await stateOf(it)).toEqual(before)
  })

  test('after an expiry that is not recorded yet is refused, and records it', async () => {
    const it = await held()
    await engine.makeLate(it.id)
    expect(await outcome(engine.vote(it.id, 'admin'))).toBe('approval_expired')
    expect(await votesOf(it.id)).toEqual([])
    expect((await engine.approvalsOf(it.runId))[0]).toMatchObject({ status: 'expired' })
    expect(await engine.wakesOf(it.runId)).toHaveLength(1)
  })

  test('with a role that was just lost does not count', async () => {
    const it = await held()
    const { userId } = engine.caller('approver')
    const setRole = (role: 'admin' | 'member') =>
      engine.context.db.updateTable('memberships').set({ role }).where('user_id', '=', userId).execute()
    await setRole('member')
    try {
      // The caller object still has the role `admin`, because it was authenticated before the change.
      expect(await outcome(engine.vote(it.id, 'approver'))).toBe('not_an_approver')
    } finally {
      await setRole('admin')
    }
  })

  test('of the requester counts if the organization allows it', async () => {
    await engine.settings({ allow_self_approval: true })
    const it = await held('admin')
    await engine.vote(it.id, 'admin')
    expect((await engine.approvalsOf(it.runId))[0]).toMatchObject({ status: 'approved' })
  })
})

describe('votes at the same time, from two processes', () => {
  let other: Context
  beforeAll(() => void (other = engine.another()))
  const elsewhere = (approvalId: string, name: BootstrapName, decision: 'approve' | 'reject') =>
    outcome(
      vote(other, {
        caller: engine.caller(name),
        approvalId,
        decision,
        comment: '',
        prepareChange: prepareChange(other),
      }),
    )

  test('of one person count once', async () => {
    for (let round = 0; round < 10; round += 1) {
      await engine.settings({ approval_threshold: 2 })
      const it = await held()
      const answers = await Promise.all([
        outcome(engine.vote(it.id, 'admin')),
        elsewhere(it.id, 'admin', 'approve'),
      ])
      expect(answers.sort()).toEqual(['conflict', 'counted'])
      expect(await votesOf(it.id)).toHaveLength(1)
      expect((await engine.approvalsOf(it.runId))[0]).toMatchObject({ status: 'pending' })
    }
  })

  test('of two people: one decides, the other is too late', async () => {
    for (let round = 0; round < 10; round += 1) {
      const it = await held()
      const answers = await Promise.all([
        outcome(engine.vote(it.id, 'admin')),
        elsewhere(it.id, 'approver', 'reject'),
      ])
      expect(answers.sort()).toEqual(['approval_already_decided', 'counted'])
      expect(await votesOf(it.id)).toHaveLength(1)
      expect(await engine.wakesOf(it.runId)).toHaveLength(1)
    }
  })
})

describe('the number of votes', () => {
  const status = async (it: { runId: string }) => (await engine.approvalsOf(it.runId))[0]?.status

  test('the larger of the rule’s number and the organization’s', async () => {
    await engine.rules(holdRule({ approvals_needed: 2 }))
    const byRule = await held()
    await engine.vote(byRule.id, 'admin')
    expect(await status(byRule)).toBe('pending')
    await engine.vote(byRule.id, 'approver')
    expect(await status(byRule)).toBe('approved')
    await engine.settings({ approval_threshold: 3 })
    const byOrganization = await held()
    for (const name of ['admin', 'approver'] as const) await engine.vote(byOrganization.id, name)
    expect(await status(byOrganization)).toBe('pending')
    await engine.vote(byOrganization.id, 'owner')
    expect(await status(byOrganization)).toBe('approved')
  })

  test('a rejection decides at once, whatever the earlier votes', async () => {
    await engine.settings({ approval_threshold: 3 })
    const it = await held()
    await engine.vote(it.id, 'admin')
    await engine.vote(it.id, 'approver', 'reject')
    expect(await status(it)).toBe('rejected')
  })

  test('on a whole run it works the same', async () => {
    await engine.settings({ approval_threshold: 2, approval_required_from: 'low' })
    const runId = await engine.run()
    const [approval] = await engine.approvalsOf(runId)
    expect(approval).toMatchObject({ kind: 'run', status: 'pending', approvals_needed: 2, step_id: null })
    await engine.vote(approval?.id ?? '', 'admin')
    expect(await status({ runId })).toBe('pending')
    await engine.vote(approval?.id ?? '', 'owner')
    expect(await status({ runId })).toBe('approved')
    expect(await engine.wakesOf(runId)).toEqual([{ by: engine.caller('owner').userId }])
    await engine.settings({ approval_threshold: 3 })
    expect(await enterRun(engine.context, runId)).toMatchObject({ state: 'wait', waitsFor: 'approval' })
    expect(await status({ runId })).toBe('pending')
    const names = (await engine.eventsOf(runId)).filter((type) => type.startsWith('approval.'))
    expect(names).toEqual(['approval.created', 'approval.voted', 'approval.decided', 'approval.reopened'])
  })
})

describe('expiry', () => {
  test('expires the due approvals only, once', async () => {
    const due = await held()
    const notYet = await held()
    await engine.makeLate(due.id)
    expect(await expireDue(engine.context)).toBe(1)
    expect(await expireDue(engine.context)).toBe(0)
    expect((await engine.approvalsOf(due.runId))[0]).toMatchObject({ status: 'expired' })
    expect((await engine.approvalsOf(notYet.runId))[0]).toMatchObject({ status: 'pending' })
    expect(await engine.wakesOf(due.runId)).toHaveLength(1)
  })
})

/** The run's audit entries about approvals: type, status and actor. */
async function auditOf(runId: string): Promise<string[]> {
  const rows = await engine.context.db
    .selectFrom('audit_events')
    .select('canonical')
    .where('run_id', '=', runId)
    .where('event_type', 'like', 'approval.%')
    .orderBy('seq')
    .execute()
  return rows.map(({ canonical }) => {
    const entry = JSON.parse(canonical) as { event_type: string; status: string; actor: { id: string } }
    return `${entry.event_type} ${entry.status} ${entry.actor.id.replace(runId, 'run')}`
  })
}

const requested = 'approval.requested pending run'
const admin = () => engine.caller('admin').userId

test.each<[string, (approvalId: string, runId: string) => Promise<unknown>, () => string[]]>([
  ['given and used', async (id, runId) => {
    await engine.vote(id, 'admin')
    await engine.go(opOf(runId))
  }, () => [`approval.granted approved ${admin()}`]],
  ['rejected', (id) => engine.vote(id, 'admin', 'reject'), () => [`approval.rejected rejected ${admin()}`]],
  ['voted on, one vote of two', async (id) => {
    await engine.settings({ approval_threshold: 2 })
    await engine.vote(id, 'admin')
  }, () => [`approval.voted pending ${admin()}`]],
  ['expired by the periodic check', async (id) => {
    await engine.makeLate(id)
    await expireDue(engine.context)
  }, () => ['approval.expired expired approvals']],
  ['expired when a vote comes too late', async (id) => {
    await engine.makeLate(id)
    await expect(engine.vote(id, 'admin')).rejects.toMatchObject({ code: 'approval_expired' })
  }, () => ['approval.expired expired approvals']],
  ['expired when its call asks again', async (id, runId) => {
    await engine.makeLate(id)
    await engine.decide(opOf(runId))
  }, () => ['approval.expired expired run']],
  ['withdrawn because its run is cancelled', (_id, runId) =>
    engine.cancel(runId), () => []],
])('an approval that is %s has these audit entries, and one event tells its run', async (name, change, expected) => {
  const runId = await engine.run()
  const id = await engine.hold(opOf(runId))
  await change(id, runId)
  expect(await auditOf(runId)).toEqual([requested, ...expected()])
  const events = (await engine.eventsOf(runId)).filter((type) => type.startsWith('approval.'))
  const last = name.startsWith('voted') ? 'approval.voted' : 'approval.decided'
  expect(events).toEqual(['approval.created', last])
}) // prettier-ignore

test('the request and each vote of an item name the item', async () => {
  const runId = await engine.run()
  const id = await engine.hold(opOf(runId, { item: 3 }))
  await engine.vote(id, 'admin', 'reject')
  const { rows } = await engine.context.pool.query<{ canonical: string }>(
    `select canonical from audit_events where run_id = $1 and event_type like 'approval.%' order by seq`,
    [runId],
  )
  const found = rows.map(({ canonical }) => {
    const { event_type: type, metadata } = JSON.parse(canonical) as { event_type: string; metadata: object }
    return [type, metadata]
  })
  const of = expect.objectContaining({ approval_id: id, step_id: 's', item_index: 3 })
  expect(found).toEqual([
    ['approval.requested', of],
    ['approval.rejected', of],
  ])
})

describe('the filter `mine` lists', () => {
  beforeEach(() => engine.settings({ approval_required_from: 'low' }))

  const waiting = async (by: BootstrapName): Promise<string> => {
    const runId = await engine.run(undefined, {}, by)
    return (await engine.approvalsOf(runId))[0]?.id ?? ''
  }
  const until = (id: string, interval: string) =>
    sql`update approvals set expires_at = now() + ${interval}::interval where id = ${id}`.execute(
      engine.context.db,
    )

  const nothing = async () => {}
  test.each<
    [string, GovernancePatch, (id: string) => Promise<unknown>, BootstrapName, BootstrapName, boolean]
  >([
    ['a waiting approval', {}, nothing, 'member', 'admin', true],
    ['one that has an hour left', {}, (id) => until(id, '1 hour'), 'member', 'admin', true],
    ['not one whose time is over', {}, (id) => until(id, '-1 second'), 'member', 'admin', false],
    ['nothing for a person who may not decide', {}, nothing, 'member', 'viewer', false],
    ['not the viewer’s own', {}, nothing, 'admin', 'admin', false],
    ['the viewer’s own, if that is allowed', { allow_self_approval: true }, nothing, 'admin', 'admin', true],
    ['not a decided one', {}, (id) => engine.vote(id, 'owner'), 'member', 'admin', false],
    [
      'one that needs a second vote',
      { approval_threshold: 2 },
      (id) => engine.vote(id, 'owner'),
      'member',
      'admin',
      true,
    ],
    [
      'not one with the viewer’s vote',
      { approval_threshold: 2 },
      (id) => engine.vote(id, 'admin'),
      'member',
      'admin',
      false,
    ],
  ])('%s', async (_, settings, change, by, viewer, listed) => {
    await engine.settings(settings)
    const id = await waiting(by)
    await change(id)
    expect(await isListed(id, viewer)).toBe(listed)
  })

  test('a waiting approval shows the number of votes that it needs now', async () => {
    const id = await waiting('member')
    const needed = async () => (await listOf('admin')).find((each) => each.id === id)?.approvals_needed
    expect(await needed()).toBe(1)
    await engine.settings({ approval_threshold: 3 })
    expect(await needed()).toBe(3)
    await engine.settings({ approval_threshold: 1 })
    await engine.vote(id, 'admin')
    await engine.settings({ approval_threshold: 3 })
    expect(await needed()).toBe(1)
  })
})

import { beforeEach, describe, expect, test } from '@jest/globals'
import { expireDue } from '../../../src/governance/approvals/expire.ts'
import { readDetail } from '../../../src/governance/approvals/detail.ts'
import { listApprovals } from '../../../src/governance/approvals/read.ts'
import { vote } from '../../../src/governance/approvals/vote.ts'
import { changeRole } from '../../../src/governance/people/members.ts'
import type { Role } from '../../../src/policy/types.ts'
import { enterRun } from '../../../src/governance/runs/start/enter.ts'
import type { BootstrapName } from '../../../src/governance/people/bootstrap.ts'
import { addOrganization } from '../../api/fixtures.ts'
import {
  approvalsOf,
  eventsOf,
  hold,
  holdRule,
  makeLate,
  opOf,
  useEngine,
  type Engine,
} from '../runs/engine-fixture.ts'

let engine: Engine
useEngine((started) => (engine = started))
beforeEach(async () => {
  await engine.settings({ approval_threshold: 1, allow_self_approval: false, approval_required_from: null })
  await engine.rules(holdRule())
})

const held = async (
  by: BootstrapName = 'member',
  author: BootstrapName = 'member',
): Promise<{ id: string; runId: string }> => {
  const runId = await engine.run(undefined, {}, by, author)
  return { id: await hold(engine, opOf(runId)), runId }
}
const votesOf = (id: string) =>
  engine.context.db.selectFrom('approval_votes').selectAll().where('approval_id', '=', id).execute()
const wakesOf = (runId: string) =>
  engine.context.db
    .selectFrom('outbox')
    .select('payload')
    .where('run_id', '=', runId)
    .where('kind', '=', 'run.wake')
    .execute()
const outcome = (work: Promise<unknown>): Promise<string> =>
  work.then(
    () => 'counted',
    (error: { code?: string }) => error.code ?? String(error),
  )

/** Everything that a refused vote might wrongly change. */
async function stateOf({ id, runId }: { id: string; runId: string }) {
  return {
    approval: await approvalsOf(engine.context, runId),
    votes: await votesOf(id),
    events: await eventsOf(engine.context, runId),
    wakes: await wakesOf(runId),
  }
}

describe('a vote', () => {
  test('decides, wakes the run once and shows the voter', async () => {
    const { id, runId } = await held()
    await vote(engine.context, {
      caller: engine.caller('admin'),
      approvalId: id,
      decision: 'approve',
      comment: 'fine',
    })
    expect(await votesOf(id)).toMatchObject([{ user_id: engine.caller('admin').userId, decision: 'approve', comment: 'fine' }]) // prettier-ignore
    expect((await approvalsOf(engine.context, runId))[0]).toMatchObject({ status: 'approved', used_at: null })
    expect(await wakesOf(runId)).toEqual([{ payload: { key: 's#-1', by: engine.caller('admin').userId } }])
    expect((await eventsOf(engine.context, runId)).at(-1)).toBe('approval.decided')
  })

  const refusals: readonly (readonly [string, string, () => Promise<{ id: string; runId: string }>, BootstrapName, string?])[] = [
    ['of the requester', 'self_approval', () => held('admin'), 'admin'],
    ['of the author of the version that runs', 'self_approval', () => held('member', 'admin'), 'admin'],
    ['of a member', 'not_an_approver', () => held(), 'member'],
    ['of a viewer', 'not_an_approver', () => held(), 'viewer'],
    ['of an admin where it needs an owner', 'not_an_approver', async () => {
      await engine.rules(holdRule({ approver: 'owner' }))
      return held()
    }, 'admin'],
    ['after a decision', 'approval_already_decided', async () => {
      const it = await held()
      await engine.vote(it.id, 'approver')
      return it
    }, 'admin'],
    ['after a rejection', 'approval_already_decided', async () => {
      const it = await held()
      await engine.vote(it.id, 'approver', 'reject')
      return it
    }, 'admin'],
    ['a second time', 'conflict', async () => {
      await engine.settings({ approval_threshold: 2 })
      const it = await held()
      await engine.vote(it.id, 'admin')
      return it
    }, 'admin'],
    ['a second time, the other way', 'conflict', async () => {
      await engine.settings({ approval_threshold: 2 })
      const it = await held()
      await engine.vote(it.id, 'admin')
      return it
    }, 'admin', 'reject'],
    ['after expiry was recorded', 'approval_expired', async () => {
      const it = await held()
      await makeLate(engine.context, it.id)
      await expireDue(engine.context)
      return it
    }, 'admin'],
  ] // prettier-ignore
  test.each(refusals.map((each) => [each[0], each[1], each] as const))(
    '%s is refused as %s and changes nothing',
    async (_name, code, refusal) => {
      const [, , prepare, name, decision] = refusal
      const it = await prepare()
      const before = await stateOf(it)
      expect(await outcome(engine.vote(it.id, name, (decision ?? 'approve') as 'approve'))).toBe(code)
      expect(await stateOf(it)).toEqual(before)
    },
  )

  test('of the requester gets the names of people who can decide', async () => {
    const refusal = (it: { id: string }, by: BootstrapName) =>
      engine.vote(it.id, by).then(
        () => 'counted',
        (error: Error) => error.message,
      )
    expect(await refusal(await held('admin'), 'admin')).toBe(
      'you cannot decide your own request: ask `approver@countersign.test` or `owner@countersign.test`',
    )
    await engine.rules(holdRule({ approver: 'owner' }))
    expect(await refusal(await held('owner'), 'owner')).toContain(
      'nobody else has the role `owner`: add a person with this role, or set `allow_self_approval`',
    )
  })

  test('of an author says so', async () => {
    const it = await held('member', 'admin')
    await expect(engine.vote(it.id, 'admin')).rejects.toThrow(
      'you wrote the version of the workflow that runs, and its authors cannot decide: ' +
        'ask `approver@countersign.test` or `owner@countersign.test`',
    )
  })

  test('that did not count for a moment can be given again, and decides if enough votes count', async () => {
    await engine.settings({ approval_threshold: 2 })
    const it = await held()
    const missing = () =>
      readDetail(engine.context, { ...engine.caller('owner') }, it.id).then(
        ({ votes_missing, vote_refused }) => [votes_missing, vote_refused],
      )
    const setRole = (role: Role) =>
      changeRole(engine.context, engine.caller('owner'), engine.caller('admin').userId, role)
    const mine = async () => {
      const list = await listApprovals(
        engine.context,
        engine.caller('admin'),
        { mine: true },
        { limit: 200, cursor: null },
      )
      return list.data.some(({ id }) => id === it.id)
    }
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
    expect([await votesOf(it.id), (await wakesOf(it.runId)).length]).toMatchObject([[{}, {}], 1])
    expect(await engine.decide(opOf(it.runId))).toMatchObject({ go: true })
  })

  test('that rejects is named with its comment in the call’s outcome', async () => {
    const it = await held()
    const comment = `not\n before Friday ${'x'.repeat(400)}`
    await vote(engine.context, {
      caller: engine.caller('approver'),
      approvalId: it.id,
      decision: 'reject',
      comment,
    })
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
    expect(await outcome(vote(engine.context, { caller, approvalId: it.id, decision: 'approve', comment: '' }))).toBe('not_found') // prettier-ignore
    expect(await outcome(engine.vote('apr_none', 'admin'))).toBe('not_found')
    expect(await stateOf(it)).toEqual(before)
  })

  test('after an expiry that is not recorded yet is refused, and records it', async () => {
    const it = await held()
    await makeLate(engine.context, it.id)
    expect(await outcome(engine.vote(it.id, 'admin'))).toBe('approval_expired')
    expect(await votesOf(it.id)).toEqual([])
    expect((await approvalsOf(engine.context, it.runId))[0]).toMatchObject({ status: 'expired' })
    expect(await wakesOf(it.runId)).toHaveLength(1)
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
    expect((await approvalsOf(engine.context, it.runId))[0]).toMatchObject({ status: 'approved' })
  })
})

describe('votes at the same time, from two processes', () => {
  const other = () => engine.another()

  test('of one person count once', async () => {
    const two = other()
    for (let round = 0; round < 10; round += 1) {
      await engine.settings({ approval_threshold: 2 })
      const it = await held()
      const request = {
        caller: engine.caller('admin'),
        approvalId: it.id,
        decision: 'approve',
        comment: '',
      } as const
      const answers = await Promise.all(
        [engine.context, two].map((context) => outcome(vote(context, request))),
      )
      expect(answers.sort()).toEqual(['conflict', 'counted'])
      expect(await votesOf(it.id)).toHaveLength(1)
      expect((await approvalsOf(engine.context, it.runId))[0]).toMatchObject({ status: 'pending' })
    }
  })

  test('of two people: one decides, the other is too late', async () => {
    const two = other()
    for (let round = 0; round < 10; round += 1) {
      const it = await held()
      const answers = await Promise.all([
        outcome(engine.vote(it.id, 'admin')),
        outcome(
          vote(two, {
            caller: engine.caller('approver'),
            approvalId: it.id,
            decision: 'reject',
            comment: '',
          }),
        ),
      ])
      expect(answers.sort()).toEqual(['approval_already_decided', 'counted'])
      expect(await votesOf(it.id)).toHaveLength(1)
      expect(await wakesOf(it.runId)).toHaveLength(1)
    }
  })
})

describe('the number of votes', () => {
  const status = async (it: { runId: string }) => (await approvalsOf(engine.context, it.runId))[0]?.status

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
    const [approval] = await approvalsOf(engine.context, runId)
    expect(approval).toMatchObject({ kind: 'run', status: 'pending', approvals_needed: 2, step_id: null })
    await engine.vote(approval?.id ?? '', 'admin')
    expect(await status({ runId })).toBe('pending')
    await engine.vote(approval?.id ?? '', 'owner')
    expect(await status({ runId })).toBe('approved')
    expect(await wakesOf(runId)).toEqual([{ payload: { by: engine.caller('owner').userId } }])
    await engine.settings({ approval_threshold: 3 })
    expect(await enterRun(engine.context, runId)).toMatchObject({ state: 'wait', waitsFor: 'approval' })
    expect(await status({ runId })).toBe('pending')
    const names = (await eventsOf(engine.context, runId)).filter((type) => type.startsWith('approval.'))
    expect(names).toEqual(['approval.created', 'approval.voted', 'approval.decided', 'approval.reopened'])
  })
})

describe('expiry', () => {
  test('expires the due approvals only, once', async () => {
    const due = await held()
    const notYet = await held()
    await makeLate(engine.context, due.id)
    expect(await expireDue(engine.context)).toBe(1)
    expect(await expireDue(engine.context)).toBe(0)
    expect((await approvalsOf(engine.context, due.runId))[0]).toMatchObject({ status: 'expired' })
    expect((await approvalsOf(engine.context, notYet.runId))[0]).toMatchObject({ status: 'pending' })
    expect(await wakesOf(due.runId)).toHaveLength(1)
  })
})

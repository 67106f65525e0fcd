import { beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { newId } from '../../../src/contract/ids.ts'
import type { BootstrapName } from '../../../src/governance/people/bootstrap.ts'
import { planNotifications } from '../../../src/governance/notifications/plan.ts'
import { planMail } from '../../../src/governance/notifications/plan-mail.ts'
import { planSlack } from '../../../src/governance/notifications/plan-slack.ts'
import { connectSlack, link, timePasses } from '../../governance/notifications/people.ts'
import { addPerson } from '../fixtures.ts'
import type { TestServer } from '../server.ts'
import { codeOf, placesOf, useServer } from '../use-server.ts'

/* Finance is asked first, legal later: the viewer is in finance, the approver in legal. */

let server: TestServer
const { as, ours, personOf } = useServer((started) => (server = started), {
  SMTP_URL: 'smtp://127.0.0.1:9',
})
const idOf = (who: BootstrapName): string => personOf(who).userId
let finance: string
beforeAll(async () => {
  await ours('owner', 'PATCH', '/governance', { approvals_enabled: true })
  finance = (await ours('owner', 'POST', '/groups', { name: 'finance', members: [idOf('viewer')] })).body.id
  await ours('owner', 'POST', '/groups', { name: 'legal', members: [idOf('approver')] })
  await link({ context: server.context, organizationId: server.identities.organization_id, caller: personOf } as never, {
    owner: 'U0000OWNER', viewer: 'U00000VIEWER', approver: 'U00APPROVER', admin: 'U0000ADMIN',
  }) // prettier-ignore
  await connectSlack({ context: server.context, organizationId: server.identities.organization_id, caller: personOf })
}) // prettier-ignore
beforeEach(async () => {
  for (const { id } of (await ours('owner', 'GET', '/rules')).body.data)
    await ours('owner', 'DELETE', `/rules/${id}`)
  for (const who of ['viewer', 'approver', 'admin', 'owner'] as const) await away(who, null)
})

const rule = (body: object) =>
  ours('admin', 'POST', '/rules', {
    name: newId('rule'),
    verdict: 'require_approval',
    tools: ['Write'],
    ...body,
  })
const escalate = [
  { after_seconds: 600, to: { group: 'legal' } },
  { after_seconds: 1_200, to: 'owner' },
]
const later = { approver: { group: 'finance' }, remind_after_seconds: 300, escalate }

/** Asks about a call of the member's agent, which a rule holds. */
async function held(by: BootstrapName = 'member') {
  const file_path = `/${newId('file')}`
  const ask = async () =>
    (
      await as(by, 'POST', '/authorize', {
        agent: { name: 'a', kind: 'hook' },
        session_id: `s-${by}`,
        tool_name: 'Write',
        tool_input: { file_path, content: 'c' },
      })
    ).body
  const id: string = (await ask()).approval_id
  return { id, again: async () => (await ask()).decision as string }
}
const vote = async (who: BootstrapName, id: string, how: 'approve' | 'reject' = 'approve') => {
  const answer = await as(who, 'POST', `/approvals/${id}/${how}`, {})
  return answer.status === 200 ? answer.body.status : answer.body.error.code
}
const read = async (who: BootstrapName, id: string) => (await as(who, 'GET', `/approvals/${id}`)).body
const isMine = async (who: BootstrapName, id: string) =>
  (await as(who, 'GET', '/approvals?mine=true')).body.data.some((each: { id: string }) => each.id === id)

const pass = (id: string, seconds: number) => timePasses(server.context, id, seconds)

/** Who was told of the approval, by what reason. */
async function told(id: string, channel = 'slack'): Promise<Record<string, string[]>> {
  await planNotifications(server.context, [planSlack, planMail(server.context.config)])
  const { rows } = await server.context.pool.query(
    'select event, recipient from notifications where subject = $1 and channel = $2 order by id',
    [id, channel],
  )
  const names = new Map((['owner', 'admin', 'approver', 'viewer', 'member'] as const).map((who) => [idOf(who), who])) // prettier-ignore
  const found: Record<string, string[]> = {}
  for (const { event, recipient } of rows) (found[event] ??= []).push(names.get(recipient) ?? recipient)
  return Object.fromEntries(Object.entries(found).map(([event, who]) => [event, who.toSorted()]))
}

/** Sets the absence of a person, who is away from an hour ago to in an hour; null ends it. */
const away = (who: BootstrapName, deputy: BootstrapName | null, from = -60, until = 60) => {
  const at = (minutes: number) => new Date(Date.now() + minutes * 60_000).toISOString()
  return deputy === null
    ? as(who, 'DELETE', '/me/absence')
    : as(who, 'PUT', '/me/absence', { from: at(from), until: at(until), deputy: idOf(deputy) })
}

describe('a rule', () => {
  test.each<[string, object, string]>([
    ['after its own expiry', { expires_after_seconds: 600, escalate }, 'escalate.0.after_seconds'],
    ['with a reminder after its own expiry', { expires_after_seconds: 60, remind_after_seconds: 60 }, 'remind_after_seconds'],
    ['not in the order of time', { escalate: escalate.toReversed() }, 'escalate.1.after_seconds'],
    ['twice to the same', { escalate: [escalate[0], { after_seconds: 900, to: { group: 'legal' } }] }, 'escalate.1.to'],
    ['to whom it asks first', { escalate: [{ after_seconds: 60, to: 'admin' }] }, 'escalate.0.to'],
    ['to a group that does not exist', { escalate: [{ after_seconds: 60, to: { group: 'nobody' } }] }, 'escalate.0.to.group'],
    ['too soon', { escalate: [{ after_seconds: 59, to: 'owner' }] }, 'escalate.0.after_seconds'],
    ['too late', { remind_after_seconds: 30 * 86_400 + 1 }, 'remind_after_seconds'],
    ['more than three times', { escalate: [60, 61, 62, 63].map((after_seconds) => ({ after_seconds, to: { group: `g${after_seconds}` } })) }, 'escalate'],
    ['for a denial', { verdict: 'deny', escalate }, 'escalate'],
    ['with a reminder for a denial', { verdict: 'deny', remind_after_seconds: 60 }, 'remind_after_seconds'],
  ])('does not escalate %s', async (_name, body, path) => {
    const answer = await rule(body)
    expect([codeOf(answer), placesOf(answer)]).toEqual(['422 validation_error', expect.arrayContaining([path])])
  }) // prettier-ignore

  test('names the groups that it escalates to: they cannot be deleted', async () => {
    const saved = await rule({ escalate })
    const groups = (await ours('owner', 'GET', '/groups')).body.data
    const { id } = groups.find(({ name }: { name: string }) => name === 'legal')
    expect(codeOf(await ours('owner', 'DELETE', `/groups/${id}`))).toBe('409 conflict')
    const body = { escalate: null, remind_after_seconds: null }
    const changed = await ours('admin', 'PATCH', `/rules/${saved.body.id}`, body)
    expect(changed.body).not.toHaveProperty('escalate')
  })

  test('that escalates differs from one that does not', async () => {
    const plain = { name: 'r', verdict: 'require_approval', tools: ['Write'], approver: { group: 'finance' } }
    const to = [{ ...plain, escalate, remind_after_seconds: 300 }]
    const { body } = await ours('admin', 'POST', '/rules/diff', { from: [plain], to })
    expect(body.changes[0].approval).toMatchObject({
      from: { remind_after_seconds: null, approvers: [{ group: 'finance', count: 1 }] },
      to: { remind_after_seconds: 300, approvers: [{ also: [{ group: 'legal', after_seconds: 600 }, { role: 'owner' }] }] },
    }) // prettier-ignore
  })
})

describe('an approval whose rule escalates', () => {
  test('is decided by the next ones only when they are asked too', async () => {
    await rule(later)
    const { id, again } = await held()
    const before = await read('viewer', id)
    const [legal, owner] = before.approvers[0].also
    expect([legal.group, owner.role]).toEqual(['legal', 'owner'])
    expect(Date.parse(legal.at) - Date.parse(before.created_at)).toBe(600_000)
    expect(before.detail.seats[0]).toMatchObject({ group: 'finance', filled: 0, also: [legal, owner] })
    expect([await vote('approver', id), await isMine('approver', id)]).toEqual(['not_an_approver', false])
    expect(await read('approver', id)).not.toHaveProperty('params')
    await pass(id, 600)
    expect([await isMine('approver', id), await isMine('viewer', id), await isMine('owner', id)]).toEqual([true, true, false]) // prettier-ignore
    expect((await read('approver', id)).params.content).toBe('c')
    expect(await vote('owner', id)).toBe('not_an_approver')
    expect([await vote('approver', id), await again()]).toEqual(['approved', 'allow'])
  })

  test('that the first ones decided is not shown to the next ones later', async () => {
    await rule(later)
    const { id } = await held()
    expect(await vote('viewer', id)).toBe('approved')
    await pass(id, 1_000_000)
    await server.context.pool.query(
      `update approvals set decided_at = decided_at - interval '1000000 seconds' where id = $1`,
      [id],
    )
    expect(await read('approver', id)).not.toHaveProperty('params')
  })

  test('and another rule that does not escalate: the first ones alone', async () => {
    await rule(later)
    await rule({ approver: { group: 'finance' } })
    const { id } = await held()
    await pass(id, 600)
    expect([await vote('approver', id), await vote('viewer', id)]).toEqual(['not_an_approver', 'approved'])
  })

  test('counts no vote of the next ones once the rule does not name them any more', async () => {
    const saved = await rule(later)
    const { id, again } = await held()
    await pass(id, 600)
    expect(await vote('approver', id)).toBe('approved')
    await ours('admin', 'PATCH', `/rules/${saved.body.id}`, { escalate: null })
    expect(await again()).toBe('require_approval')
  })

  test('says when somebody can decide, and counts the next ones only then', async () => {
    await rule(later)
    await ours('owner', 'DELETE', `/groups/${finance}/members/${idOf('viewer')}`)
    const { id } = await held()
    const { also } = (await read('owner', id)).approvers[0]
    expect((await read('owner', id)).detail.cannot_be_given).toBe(
      `nobody can give it before ${also[0].at.slice(0, 19)}Z, when a member of \`legal\` is asked too`,
    )
    await pass(id, 600)
    expect((await read('owner', id)).detail.cannot_be_given).toBeNull()
    await ours('owner', 'PUT', `/groups/${finance}/members/${idOf('viewer')}`)
  })

  test('reminds once, and asks the next ones once, also if messages are planned again', async () => {
    await rule(later)
    const { id } = await held()
    expect(await told(id)).toEqual({ 'approval.created': ['viewer'] })
    await pass(id, 300)
    await Promise.all([told(id), told(id)])
    expect(await told(id)).toEqual({ 'approval.created': ['viewer'], 'approval.asked_again': ['viewer'] })
    await pass(id, 300)
    const all = { 'approval.created': ['approver', 'viewer'], 'approval.asked_again': ['viewer'] }
    expect(await told(id)).toEqual(all)
    await server.context.pool.query(
      `insert into notices (organization_id, kind, subject, due_at) values ($1, 'approval', $2, now())`,
      [server.identities.organization_id, id],
    )
    expect(await told(id)).toEqual(all)
  })

  test('that has ended reminds and asks nobody', async () => {
    await rule(later)
    const { id } = await held()
    await told(id)
    await vote('viewer', id)
    const before = await told(id)
    await server.context.pool.query('delete from notifications where subject = $1', [id])
    await pass(id, 1_200)
    expect([before, await told(id)]).toEqual([{ 'approval.created': ['viewer'] }, {}])
  })
})

describe('a person who is away', () => {
  const mine = { approver: { group: 'finance' } }

  test.each<[string, BootstrapName, object, string]>([
    ['oneself', 'viewer', { deputy: 'viewer@countersign.test' }, 'deputy'],
    ['a stranger', 'viewer', { deputy: 'a@stranger.test' }, 'deputy'],
    ['an end before the begin', 'viewer', { until: '2020-01-01T00:00:00Z' }, 'until'],
    ['an end that is over', 'viewer', { from: '2020-01-01T00:00:00Z', until: '2020-01-02T00:00:00Z' }, 'until'],
    ['more than 92 days', 'viewer', { until: new Date(Date.now() + 93 * 86_400_000).toISOString() }, 'until'],
  ])('does not name %s', async (_name, who, over, path) => {
    const [from, until] = [0, 1].map((days) => new Date(Date.now() + days * 86_400_000).toISOString())
    const answer = await as(who, 'PUT', '/me/absence', { from, until, deputy: idOf('admin'), ...over })
    expect([codeOf(answer), placesOf(answer)]).toEqual(['422 validation_error', [path]])
  }) // prettier-ignore

  test('does not name a service account, and it names nobody', async () => {
    const account = await ours('owner', 'POST', '/service-accounts', { name: newId('user').toLowerCase(), role: 'member' })
    const [from, until] = [0, 1].map((days) => new Date(Date.now() + days * 86_400_000).toISOString())
    const answer = await as('viewer', 'PUT', '/me/absence', { from, until, deputy: account.body.id })
    expect([codeOf(answer), placesOf(answer)]).toEqual(['422 validation_error', ['deputy']])
  }) // prettier-ignore

  test('sees it, owners and admins see it, and the audit log has what stood before and after', async () => {
    expect((await as('viewer', 'GET', '/me/absence')).body.absence).toBeNull()
    const set = await away('viewer', 'admin')
    expect(set.body.absence.deputy).toEqual({ user_id: idOf('admin'), email: 'admin@countersign.test' })
    expect((await as('viewer', 'GET', '/me/absence')).body).toEqual(set.body)
    const members = (await ours('owner', 'GET', '/members')).body.data
    expect(members.find(({ user_id: id }: { user_id: string }) => id === idOf('viewer')).absence).toEqual(set.body.absence) // prettier-ignore
    expect((await ours('admin', 'GET', `/groups/${finance}`)).body.members[0].absence).toEqual(
      set.body.absence,
    )
    await away('viewer', null)
    const { events } = (await ours('owner', 'GET', '/governance/audit')).body
    const after = { ...set.body.absence, deputy: idOf('admin') }
    expect(events.slice(0, 2)).toMatchObject([
      { event_type: 'absence.ended', metadata: { before: after } },
      { event_type: 'absence.set', metadata: { before: {}, after } },
    ])
  })

  test('is stood in for: the deputy is asked, sees, and votes as themselves', async () => {
    await rule(mine)
    const { id, again } = await held()
    expect([await vote('approver', id), await isMine('approver', id)]).toEqual(['not_an_approver', false])
    await away('viewer', 'approver')
    expect(await isMine('approver', id)).toBe(true)
    await told(id)
    expect(await told(id)).toEqual({ 'approval.created': ['approver', 'viewer'] })
    const seen = await read('approver', id)
    expect(seen.params.content).toBe('c')
    expect(seen.detail).toMatchObject({
      vote_refused: null,
      deciding_for: { user_id: idOf('viewer'), email: 'viewer@countersign.test' },
    })
    expect(await vote('approver', id)).toBe('approved')
    expect((await read('owner', id)).votes).toMatchObject([
      { user_id: idOf('approver'), for: { user_id: idOf('viewer'), email: 'viewer@countersign.test' } },
    ])
    const { events } = (await ours('owner', 'GET', '/governance/audit?event_type=approval.granted')).body
    expect(events[0]).toMatchObject({ actor: { id: idOf('approver') }, metadata: { for: idOf('viewer') } })
    expect(await again()).toBe('allow')
  })

  test('is not stood in for before the absence, or by a deputy’s deputy', async () => {
    await rule(mine)
    const { id } = await held()
    await away('viewer', 'approver', 10)
    expect(await vote('approver', id)).toBe('not_an_approver')
    await away('viewer', 'approver')
    await away('approver', 'admin')
    expect([await vote('admin', id), await vote('approver', id)]).toEqual(['not_an_approver', 'approved'])
  })

  test('and the deputy are one vote, in any order', async () => {
    await rule({ approvers: [{ group: 'finance', count: 2 }] })
    await ours('owner', 'PUT', `/groups/${finance}/members/${idOf('owner')}`)
    await away('viewer', 'approver')
    for (const order of [['viewer', 'approver'], ['approver', 'viewer']] as const) {
      const { id } = await held()
      expect([await vote(order[0], id), await vote(order[1], id)]).toEqual(['pending', 'pending'])
      expect((await read('owner', id)).detail).toMatchObject({ votes_missing: 1, seats: [{ filled: 1 }] })
      expect(await vote('owner', id)).toBe('approved')
    } // prettier-ignore
    await ours('owner', 'DELETE', `/groups/${finance}/members/${idOf('owner')}`)
  })

  test('asked for it, or the deputy did: the deputy does not decide', async () => {
    await ours('owner', 'PUT', `/groups/${finance}/members/${idOf('member')}`)
    await rule(mine)
    await away('member', 'approver')
    const ofAbsent = await held('member')
    expect([await vote('approver', ofAbsent.id), await isMine('approver', ofAbsent.id)]).toEqual(['not_an_approver', false]) // prettier-ignore
    const ofDeputy = await held('approver')
    expect([await vote('approver', ofDeputy.id), await isMine('approver', ofDeputy.id)]).toEqual(['self_approval', false]) // prettier-ignore
    await away('member', null)
    await ours('owner', 'DELETE', `/groups/${finance}/members/${idOf('member')}`)
  })

  describe('between vote and use', () => {
    type Change = readonly [string, () => Promise<unknown>, () => Promise<unknown>, string]
    const back = () => away('viewer', 'approver')
    test.each<Change>([
      ['ended it', () => away('viewer', null), back, 'require_approval'],
      ['named another deputy', () => away('viewer', 'admin'), back, 'require_approval'],
      ['moved it', () => away('viewer', 'approver', 10), back, 'require_approval'],
      ['lost the group', () => ours('owner', 'DELETE', `/groups/${finance}/members/${idOf('viewer')}`), () => ours('owner', 'PUT', `/groups/${finance}/members/${idOf('viewer')}`), 'require_approval'],
      ['is still away', async () => undefined, back, 'allow'],
      ['is back, as the absence said', () => server.context.pool.query(`update absences set until_at = clock_timestamp()`), back, 'allow'],
    ])('who %s: the vote counts as it says', async (_name, change, undo, decision) => {
      await rule(mine)
      await away('viewer', 'approver')
      const { id, again } = await held()
      expect(await vote('approver', id)).toBe('approved')
      await change()
      expect(await again()).toBe(decision)
      await undo()
    }) // prettier-ignore

    test('whose deputy has left: the vote counts no more', async () => {
      await rule(mine)
      const { userId, key } = await addPerson(server.context, server.identities.organization_id, 'member')
      const [from, until] = [-1, 1].map((days) => new Date(Date.now() + days * 86_400_000).toISOString())
      await as('viewer', 'PUT', '/me/absence', { from, until, deputy: userId })
      const { id, again } = await held()
      expect((await server.call(key, 'POST', `/approvals/${id}/approve`, {})).body.status).toBe('approved')
      await ours('owner', 'DELETE', `/members/${userId}`)
      expect((await as('viewer', 'GET', '/me/absence')).body.absence).toBeNull()
      expect(await again()).toBe('require_approval')
    })

    test('who ends it at the very moment of the vote: the vote is refused, or counts no more', async () => {
      await rule(mine)
      await away('viewer', 'approver')
      const { id, again } = await held()
      await Promise.all([vote('approver', id), away('viewer', null)])
      expect(await again()).toBe('require_approval')
    })
  })
})

import { beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { newId } from '../../../src/contract/ids.ts'
import type { BootstrapName } from '../../../src/governance/people/bootstrap.ts'
import { planNotifications } from '../../../src/governance/notifications/plan.ts'
import { planMail } from '../../../src/governance/notifications/plan-mail.ts'
import { addKey, addPerson } from '../fixtures.ts'
import type { TestServer } from '../server.ts'
import { codeOf, placesOf, useServer } from '../use-server.ts'

let server: TestServer
const { as, ours, personOf } = useServer((started) => (server = started), {
  SMTP_URL: 'smtp://127.0.0.1:9',
})
beforeAll(() => ours('owner', 'PATCH', '/governance', { approvals_enabled: true }))
beforeEach(async () => {
  for (const path of ['/rules', '/groups'])
    for (const { id } of (await ours('owner', 'GET', path)).body.data)
      await ours('owner', 'DELETE', `${path}/${id}`)
})

const idOf = (who: BootstrapName): string => personOf(who).userId
const group = async (name: string, ...members: readonly BootstrapName[]): Promise<string> => {
  const made = await ours('owner', 'POST', '/groups', { name, members: members.map(idOf) })
  return made.body.id
}
const rule = (body: object, who: BootstrapName = 'admin') =>
  ours(who, 'POST', '/rules', { name: newId('rule'), verdict: 'require_approval', tools: ['Write'], ...body })
const finance = { group: 'finance', count: 1 }
const legal = { group: 'legal', count: 1 }

const asked = (file: string) =>
  as('member', 'POST', '/authorize', {
    agent: { name: 'a', kind: 'hook' },
    session_id: 's',
    tool_name: 'Write',
    tool_input: { file_path: file, content: 'c' },
  })
/** Asks about a call of the member's agent, which a rule holds. */
async function held(): Promise<{ id: string; again: () => Promise<string> }> {
  const file = `/${newId('file')}`
  const { body } = await asked(file)
  return { id: body.approval_id, again: async () => (await asked(file)).body.decision }
}
const vote = async (who: BootstrapName, id: string, how: 'approve' | 'reject' = 'approve') => {
  const answer = await as(who, 'POST', `/approvals/${id}/${how}`, {})
  return answer.status === 200 ? answer.body.status : answer.body.error.code
}

describe('a group', () => {
  test('is made, read, changed and deleted by an owner, and read by an admin', async () => {
    const { email } = server.identities.users.viewer
    const members = [idOf('member'), email.toUpperCase(), idOf('member')]
    const made = await ours('owner', 'POST', '/groups', { name: 'finance', description: 'd', members })
    expect([made.status, made.body.member_count]).toEqual([201, 2])
    const path = `/groups/${made.body.id}`
    expect((await ours('admin', 'GET', path)).body).toEqual(made.body)
    expect(made.body.members).toMatchObject([{ user_id: idOf('member') }, { email, role: 'viewer' }])
    const renamed = await ours('owner', 'PATCH', path, { name: 'money' })
    expect(renamed.body).toMatchObject({ name: 'money', description: 'd', member_count: 2 })
    expect((await ours('admin', 'GET', '/groups')).body.data).toEqual([renamed.body])
    expect((await ours('owner', 'PUT', `${path}/members/${idOf('admin')}`)).body.member_count).toBe(3)
    expect((await ours('owner', 'DELETE', `${path}/members/${email}`)).status).toBe(204)
    expect((await ours('owner', 'DELETE', path)).status).toBe(204)
    const { body } = await ours('owner', 'GET', '/governance/audit')
    expect(body.events.slice(0, 5).map(({ event_type: type, metadata }: { event_type: string; metadata: object }) => [type, metadata])).toMatchObject([
      ['group.deleted', { before: { name: 'money', description: 'd', members: expect.any(Array) } }],
      ['group.member_removed', { member_id: idOf('viewer') }],
      ['group.member_added', { member_id: idOf('admin') }],
      ['group.updated', { before: { name: 'finance', description: 'd' }, after: { name: 'money', description: 'd' } }],
      ['group.created', { after: { name: 'finance', members: expect.arrayContaining([idOf('viewer')]) } }],
    ]) // prettier-ignore
  })

  test.each<[string, BootstrapName, object, string]>([
    ['by an admin', 'admin', { name: 'x' }, '403 insufficient_role'],
    ['with the name of a role', 'owner', { name: 'admin' }, '422 validation_error'],
    ['with capital letters', 'owner', { name: 'Finance' }, '422 validation_error'],
    ['with a stranger', 'owner', { name: 'x', members: ['a@stranger.test'] }, '422 validation_error'],
    ['with a taken name', 'owner', { name: 'taken' }, '409 conflict'],
  ])('is not made %s', async (_name, who, body, code) => {
    await group('taken')
    expect(codeOf(await ours(who, 'POST', '/groups', body))).toBe(code)
    expect((await ours('admin', 'GET', '/groups')).body.data).toHaveLength(1)
  })

  test('loses a person who leaves the organization, and the log names the group', async () => {
    const { userId } = await addPerson(server.context, server.identities.organization_id, 'member')
    const id = await group('finance')
    await ours('owner', 'PUT', `/groups/${id}/members/${userId}`)
    await ours('owner', 'DELETE', `/members/${userId}`)
    expect((await ours('owner', 'GET', `/groups/${id}`)).body.members).toEqual([])
    const { body } = await ours('owner', 'GET', '/governance/audit')
    expect(body.events[0]).toMatchObject({ event_type: 'member.removed', metadata: { groups: ['finance'] } })
  })

  test.each([
    ['approver', { approver: { group: 'finance' } }],
    ['approvers', { approvers: [finance] }],
    ['an inactive rule', { approver: { group: 'finance' }, status: 'inactive' }],
  ])('that a rule names by %s stays, with its name', async (_name, body) => {
    const id = await group('finance')
    await rule({ ...body, name: 'big payments' })
    for (const answer of [
      await ours('owner', 'DELETE', `/groups/${id}`),
      await ours('owner', 'PATCH', `/groups/${id}`, { name: 'other' }),
    ]) {
      expect(codeOf(answer)).toBe('409 conflict')
      expect(answer.body.error.message).toContain('`big payments`')
    }
    expect((await ours('owner', 'PATCH', `/groups/${id}`, { description: 'd' })).status).toBe(200)
  })
})

describe('a rule', () => {
  test.each<[string, object, string]>([
    ['a group that does not exist', { approver: { group: 'finance' } }, 'approver.group'],
    ['one of several groups that does not exist', { approvers: [{ role: 'admin', count: 1 }, legal] }, 'approvers.1.group'],
    ['a group twice', { approvers: [legal, legal] }, 'approvers.1'],
    ['two roles', { approvers: [{ role: 'admin', count: 1 }, { role: 'owner', count: 1 }] }, 'approvers.1'],
    ['both forms', { approver: 'admin', approvers: [{ role: 'admin', count: 1 }] }, 'approver'],
    ['approvers for a denial', { verdict: 'deny', approvers: [{ role: 'admin', count: 1 }] }, 'approvers'],
    ['no approvers', { approvers: [] }, 'approvers'],
  ])('is not saved with %s', async (_name, body, path) => {
    const answer = await rule(body)
    expect([codeOf(answer), placesOf(answer)]).toEqual(['422 validation_error', expect.arrayContaining([path])])
  }) // prettier-ignore

  test('holds for both groups: each decides without being admin, and neither alone', async () => {
    await group('finance', 'viewer')
    await group('legal', 'approver')
    await rule({ approvers: [finance, legal] })
    const { id, again } = await held()
    const { body } = await as('admin', 'GET', `/approvals/${id}`)
    expect(body).toMatchObject({ approver: null, approvals_needed: 2, approvers: [finance, legal] })
    expect(body).not.toHaveProperty('params')
    expect([await vote('admin', id), await vote('owner', id)]).toEqual(['not_an_approver', 'not_an_approver'])
    expect(await vote('viewer', id)).toBe('pending')
    expect(await again()).toBe('require_approval')
    expect(await vote('viewer', id)).toBe('conflict')
    expect((await as('approver', 'GET', `/approvals/${id}`)).body.detail).toMatchObject({
      votes_missing: 1,
      seats: [
        { ...finance, filled: 1 },
        { ...legal, filled: 0 },
      ],
    })
    expect(await vote('approver', id)).toBe('approved')
    expect([await again(), await again()]).toEqual(['allow', 'require_approval'])
  })

  test('and another rule: all of their groups, and the strictest role', async () => {
    await group('finance', 'viewer')
    await rule({ approvers: [finance] })
    await rule({ approver: 'owner' })
    const { id, again } = await held()
    expect([await vote('viewer', id), await vote('admin', id)]).toEqual(['pending', 'not_an_approver'])
    expect([await vote('owner', id), await again()]).toEqual(['approved', 'allow'])
  })

  test('one member may reject, also if another has approved', async () => {
    await group('finance', 'viewer', 'approver')
    await rule({ approvers: [{ ...finance, count: 2 }] })
    const { id } = await held()
    expect([await vote('viewer', id), await vote('approver', id, 'reject')]).toEqual(['pending', 'rejected'])
  })
})

test('a viewer in a group lists and reads what the group decides, and nothing else', async () => {
  const list = async (query = '') =>
    (await as('viewer', 'GET', `/approvals${query}`)).body.data.map(({ id }: { id: string }) => id)
  await group('finance')
  await rule({ approver: { group: 'finance' } })
  const [{ id: ofFinance }] = [await held()]
  expect([await list(), codeOf(await as('viewer', 'GET', `/approvals/${ofFinance}`))]).toEqual([
    [],
    '403 not_an_approver',
  ])
  await ours('owner', 'PUT', `/groups/${(await ours('owner', 'GET', '/groups')).body.data[0].id}/members/${idOf('viewer')}`) // prettier-ignore
  await rule({ tools: ['Edit'] })
  const ofAdmins = await as('member', 'POST', '/authorize', {
    agent: { name: 'a', kind: 'hook' },
    session_id: 's',
    tool_name: 'Edit',
    tool_input: { file_path: '/x' },
  })
  expect(await list()).toEqual([ofFinance])
  expect(await list('?mine=true')).toEqual([ofFinance])
  expect(codeOf(await as('viewer', 'GET', `/approvals/${ofAdmins.body.approval_id}`))).toBe(
    '403 not_an_approver',
  )
  const read = await as('viewer', 'GET', `/approvals/${ofFinance}`)
  expect([read.body.params.content, read.body.detail.vote_refused]).toEqual(['c', null])
  expect((await as('viewer', 'GET', '/me')).body.organizations[0]).toMatchObject({
    role: 'viewer',
    groups: ['finance'],
  })
  expect(codeOf(await rule({ approver: 'admin' }, 'viewer'))).toBe('403 missing_scope')
  await vote('viewer', ofFinance)
  expect((await as('viewer', 'GET', `/approvals/${ofFinance}`)).status).toBe(200)
})

describe('taken away', () => {
  const take = async (id: string, who: BootstrapName) =>
    ours('owner', 'DELETE', `/groups/${id}/members/${idOf(who)}`)

  test('from the group between the vote and the use: the call is held again', async () => {
    const id = await group('finance', 'viewer')
    await rule({ approver: { group: 'finance' } })
    const { id: approval, again } = await held()
    expect(await vote('viewer', approval)).toBe('approved')
    await take(id, 'viewer')
    expect(await again()).toBe('require_approval')
  })

  test('from the group between two votes: the first counts no more', async () => {
    const id = await group('finance', 'viewer')
    await group('legal', 'approver')
    await rule({ approvers: [finance, legal] })
    const { id: approval } = await held()
    await vote('viewer', approval)
    await take(id, 'viewer')
    expect(await vote('approver', approval)).toBe('pending')
    await ours('owner', 'PUT', `/groups/${id}/members/${idOf('viewer')}`)
    expect(await vote('viewer', approval)).toBe('approved')
  })

  test('just before the vote: it is refused', async () => {
    const id = await group('finance', 'viewer')
    await rule({ approver: { group: 'finance' } })
    const { id: approval } = await held()
    await take(id, 'viewer')
    expect(await vote('viewer', approval)).toBe('not_an_approver')
  })

  test('membership of the organization: votes for a group count no more', async () => {
    const id = await group('finance')
    const { userId, key } = await addPerson(server.context, server.identities.organization_id, 'viewer')
    await ours('owner', 'PUT', `/groups/${id}/members/${userId}`)
    await rule({ approver: { group: 'finance' } })
    const { id: approval, again } = await held()
    expect((await server.call(key, 'POST', `/approvals/${approval}/approve`, {})).body.status).toBe(
      'approved',
    )
    await ours('owner', 'DELETE', `/members/${userId}`)
    expect(await again()).toBe('require_approval')
  })

  test('the role of a voter for a role seat, while the group’s vote stays', async () => {
    await group('finance', 'viewer')
    await rule({ approvers: [finance, { role: 'admin', count: 1 }] })
    const { id: approval, again } = await held()
    await vote('viewer', approval)
    expect(await vote('approver', approval)).toBe('approved')
    const setRole = (role: string) => ours('owner', 'PATCH', `/members/${idOf('approver')}`, { role })
    await setRole('member')
    expect(await again()).toBe('require_approval')
    await setRole('admin')
  })

  test('the group itself, made anew under its name: its new members do not decide the old approval', async () => {
    const id = await group('finance', 'viewer')
    const saved = await rule({ approver: { group: 'finance' } })
    const { id: approval } = await held()
    await ours('owner', 'DELETE', `/rules/${saved.body.id}`)
    await ours('owner', 'DELETE', `/groups/${id}`)
    await group('finance', 'viewer', 'approver')
    expect(await vote('viewer', approval)).toBe('not_an_approver')
  })

  test('nothing: a person in both groups counts once, at the same time through two keys', async () => {
    await group('finance', 'approver')
    await group('legal', 'approver', 'viewer')
    await rule({ approvers: [finance, legal] })
    const { id: approval } = await held()
    const twice = await Promise.all([vote('approver', approval), vote('approver', approval)])
    expect(new Set(twice)).toEqual(new Set(['conflict', 'pending']))
    expect(await vote('viewer', approval)).toBe('approved')
  })
})

test('a service account does not vote, although it is in the group', async () => {
  const id = await group('finance')
  const account = await ours('owner', 'POST', '/service-accounts', { name: 'ci', role: 'member' })
  // No route gives such an account a key with this scope.
  const organizationId = server.identities.organization_id
  const key = await addKey(server.context, organizationId, account.body.id, ['approvals:decide'])
  expect((await ours('owner', 'PUT', `/groups/${id}/members/${account.body.id}`)).body.member_count).toBe(1)
  await rule({ approver: { group: 'finance' } })
  const { id: approval } = await held()
  const vote = await server.call(key.secret, 'POST', `/approvals/${approval}/approve`, {})
  expect([codeOf(vote), vote.body.error.message]).toEqual(['403 not_an_approver', expect.stringContaining('service account')]) // prettier-ignore
  expect((await as('owner', 'GET', `/approvals/${approval}`)).body.detail.cannot_be_given).toContain(
    'finance',
  )
})

test('an approval that nobody can give says so, and owners get a mail', async () => {
  const groupId = await group('finance')
  const { body: saved } = await rule({ approver: { group: 'finance' } })
  const { id } = await held()
  const { body } = await as('owner', 'GET', `/approvals/${id}`)
  expect(body.detail.cannot_be_given).toMatch(
    /it lacks 1 member of `finance`\. An owner can add members to the group$/,
  )
  await planNotifications(server.context, [planMail(server.context.config)])
  const { rows } = await server.context.pool.query('select recipient from notifications where subject = $1', [
    id,
  ])
  expect(new Set(rows.map(({ recipient }) => recipient))).toEqual(new Set([idOf('owner')]))
  expect(await vote('owner', id)).toBe('not_an_approver')
  await ours('owner', 'DELETE', `/rules/${saved.id}`)
  expect((await ours('owner', 'DELETE', `/groups/${groupId}`)).status).toBe(204)
  await group('finance', 'owner')
  expect((await as('owner', 'GET', `/approvals/${id}`)).body.detail.cannot_be_given).toMatch(
    /`finance`\. The group `finance` was deleted, and a new one of this name is another group: /,
  )
})

describe('a tool policy and an override', () => {
  const read = async (who: BootstrapName) =>
    (
      await as(who, 'POST', '/authorize', {
        agent: { name: 'a', kind: 'hook' },
        session_id: newId('session'),
        tool_name: 'Read',
        tool_input: { file_path: '/a' },
      })
    ).body
  const interns = { tool_name: 'Read', role: 'interns', allowed: false }
  const undo = (kind: string) => ours('owner', 'DELETE', `/${kind}/Read?role=interns`)

  test.each(['tool-policies', 'role-policy-overrides'])(
    'of a group hold for its members alone: %s',
    async (kind) => {
      const id = await group('interns', 'member')
      expect((await ours('owner', 'POST', `/${kind}`, interns)).status).toBe(201)
      expect(await read('member')).toMatchObject({
        decision: 'deny',
        reason: 'tool blocked for group interns',
      })
      expect((await read('admin')).decision).toBe('allow')
      const refused = await ours('owner', 'DELETE', `/groups/${id}`)
      expect([codeOf(refused), refused.body.error.message]).toEqual([
        '409 conflict',
        expect.stringContaining('`Read`'),
      ])
      await ours('owner', 'DELETE', `/groups/${id}/members/${idOf('member')}`)
      expect((await read('member')).decision).toBe('allow')
      await ours('owner', 'PUT', `/groups/${id}/members/${idOf('admin')}`)
      expect((await read('admin')).decision).toBe('deny')
      await undo(kind)
      expect((await read('admin')).decision).toBe('allow')
    },
  )

  test('a policy for a name that is neither a role nor a group is refused', async () => {
    const answer = await ours('owner', 'POST', '/tool-policies', interns)
    expect([codeOf(answer), placesOf(answer)]).toEqual(['422 validation_error', ['role']])
  })

  test('may allow a tool to a group, where only listed tools are allowed', async () => {
    await group('interns', 'member')
    await ours('owner', 'PATCH', '/governance', { default_tool_access: 'deny' })
    await ours('owner', 'POST', '/role-policy-overrides', { ...interns, allowed: true })
    expect([(await read('member')).decision, (await read('admin')).decision]).toEqual(['allow', 'deny'])
    await undo('role-policy-overrides')
    await ours('owner', 'PATCH', '/governance', { default_tool_access: 'allow' })
  })
})

describe('`run_by` of a workflow', () => {
  const definition = { steps: [{ id: 's', tool: 'memory_get', params: { key: 'k' } }] }
  const save = (run_by: readonly string[]) =>
    as('member', 'POST', '/workflows', { name: 'payroll', definition: { ...definition, run_by } })
  const start = (who: BootstrapName, id: string) => as(who, 'POST', `/workflows/${id}/execute?wait=0`, {})

  test('lets only members of the group start it, and names the group', async () => {
    const id = await group('finance', 'approver')
    const { body } = await save(['finance', 'owner'])
    const refused = await start('member', body.id)
    expect([codeOf(refused), refused.body.error.message]).toEqual([
      '403 insufficient_role',
      expect.stringContaining(
        'only members of `finance` or people with the role `owner` may start this workflow',
      ),
    ])
    const preview = await as('member', 'POST', `/workflows/${body.id}/authorization-preview`, {})
    expect(preview.body).toMatchObject({
      executable: false,
      not_executable_because: refused.body.error.message,
    })
    expect([(await start('approver', body.id)).status, (await start('owner', body.id)).status]).toEqual([
      202, 202,
    ])
    const kept = await ours('owner', 'DELETE', `/groups/${id}`)
    expect([codeOf(kept), kept.body.error.message]).toEqual([
      '409 conflict',
      expect.stringContaining('`payroll`'),
    ])
    await as('owner', 'DELETE', `/workflows/${body.id}`)
  })

  test('binds older versions too', async () => {
    const made = await as('member', 'POST', '/workflows', { name: 'payroll', definition })
    const id: string = made.body.id
    await as('member', 'PUT', `/workflows/${id}`, { definition: { ...definition, run_by: ['owner'] } })
    const older = await as('member', 'POST', `/workflows/${id}/execute?wait=0`, { version: 1 })
    expect(codeOf(older)).toBe('403 insufficient_role')
    const preview = await as('member', 'POST', `/workflows/${id}/authorization-preview`, { version: 1 })
    expect(preview.body.executable).toBe(false)
    const own = await as('owner', 'POST', `/workflows/${id}/execute?wait=0`, { version: 1 })
    expect(own.status).toBe(202)
    await as('owner', 'DELETE', `/workflows/${id}`)
  })

  test('is refused with a name that is neither a role nor a group', async () => {
    const answer = await save(['owner', 'nobody'])
    expect([codeOf(answer), placesOf(answer)]).toEqual(['422 validation_error', ['definition.run_by.1']])
  })
})

test('the list finds what a group, a person or a text has to do with, decided or not, from either end', async () => {
  await group('ledger', 'viewer')
  await rule({ approvers: [{ group: 'ledger', count: 1 }] })
  const ids = [(await held()).id, (await held()).id]
  const [first, second] = ids
  await vote('viewer', first as string)
  const list = async (query: string, who: BootstrapName = 'owner') =>
    (await as(who, 'GET', `/approvals?${query}`)).body.data.flatMap(({ id }: { id: string }) =>
      ids.includes(id) ? [id] : [],
    )
  const { email } = server.identities.users.member
  expect({
    decided: await list('decided=true'),
    waits: await list('decided=false'),
    oldest: await list('order=oldest&group=ledger'),
    byViewer: await list(`decided_by=${idOf('viewer')}`),
    byAdmin: await list(`decided_by=${idOf('admin')}`),
    otherGroup: await list('group=other'),
    tool: await list('search=wRiT'),
    person: await list(`search=${email.slice(0, 5).toUpperCase()}&decided=true`),
    id: await list(`search=${second}`),
    wildcard: await list('search=W%25e'),
    nothing: await list('search=nothing-has-this'),
  }).toEqual({
    decided: [first],
    waits: [second],
    oldest: [first, second],
    byViewer: [first],
    byAdmin: [],
    otherGroup: [],
    tool: [second, first],
    person: [first],
    id: [second],
    wildcard: [],
    nothing: [],
  })
  const page = await as('owner', 'GET', '/approvals?order=oldest&limit=1&group=ledger')
  const next = `order=oldest&limit=1&group=ledger&cursor=${page.body.next_cursor}`
  expect([page.body.data[0].id, ...(await list(next))]).toEqual(ids)
})

import { beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { newId } from '../../../src/contract/ids.ts'
import type { BootstrapName } from '../../../src/governance/people/bootstrap.ts'
import { addKey, addOrganization, addPerson, sessionCookie } from '../fixtures.ts'
import type { Answer, TestServer } from '../server.ts'
import { codeOf, useServer } from '../use-server.ts'

let server: TestServer
const { as, ours, personOf } = useServer((started) => (server = started))
let other: { userId: string; key: string }
const asOther = (method: string, path: string, body?: unknown) => server.call(other.key, method, path, body)
// Settings about calls are as loose as they can be: they do not count for changes.
beforeAll(async () => {
  other = await addPerson(server.context, server.identities.organization_id, 'owner')
  await ours('owner', 'PATCH', '/governance', {
    approvals_enabled: true,
    allow_self_approval: true,
    approval_threshold: 3,
    loosening: 'second_person',
  })
})
beforeEach(async () => {
  const { db } = server.context
  await db.updateTable('approvals').set({ status: 'cancelled' }).where('kind', '=', 'change').execute()
})

/** For a tool that no other rule names. */
const hold = () => ({ verdict: 'require_approval', tools: [`mcp__s__${newId('rule').toLowerCase()}`] })
/** The id of a new rule. */
const saved = async (body: object = hold(), path = '/rules'): Promise<string> => {
  const { status, body: made } = await ours('admin', 'POST', path, { name: newId('rule'), ...body })
  expect(status).toBe(201)
  return made.id
}
const shadow = (id: string, who: BootstrapName = 'admin'): Promise<Answer> =>
  ours(who, 'PATCH', `/rules/${id}`, { status: 'shadow' })
const held = async (asked: Promise<Answer>): Promise<string> => {
  const { status, body } = await asked
  expect([status, body]).toMatchObject([202, { change: { status: 'pending' } }])
  return body.change.id
}
const decide = (who: BootstrapName, id: string, how = 'approve'): Promise<Answer> =>
  as(who, 'POST', `/approvals/${id}/${how}`, {})
const statusOf = async (rule: string): Promise<string> =>
  (await ours('admin', 'GET', `/rules/${rule}`)).body.status
const newest = async (count: number): Promise<Record<string, unknown>[]> =>
  (await ours('owner', 'GET', '/governance/audit')).body.events.slice(0, count)
const setRole = (who: BootstrapName, role: 'admin' | 'member') =>
  ours('owner', 'PATCH', `/members/${personOf(who).userId}`, { role })

test('a change that loosens a rule waits, and another admin lets it happen', async () => {
  const given = hold()
  const rule = await saved(given)
  const { status, body } = await shadow(rule)
  expect([status, body.change.why]).toEqual([
    202,
    [expect.stringContaining('no other active rule surely holds all calls')],
  ])
  expect(await statusOf(rule)).toBe('active')
  const { id } = body.change
  const seen = (await as('approver', 'GET', `/approvals/${id}`)).body
  expect(seen).toMatchObject({
    kind: 'change',
    status: 'pending',
    summary: expect.stringMatching(/^Change the rule `/),
    requester_email: 'admin@countersign.test',
    approvers: [{ role: 'admin', count: 1 }],
    params: {
      before: { ...given, status: 'active' },
      after: { ...given, status: 'shadow' },
      example: { call: { tool: given.tools[0] }, before: 'require_approval', after: 'allow' },
    },
    detail: { votes_missing: 1, vote_refused: null },
  })
  expect((await as('approver', 'GET', '/approvals?kind=change&mine=true')).body.data).toHaveLength(1)
  // The same request again, for example because the answer was lost.
  expect(await held(shadow(rule))).toBe(id)
  expect((await decide('approver', id)).body).toMatchObject({ status: 'approved' })
  expect(await statusOf(rule)).toBe('shadow')
  const people = {
    requested_by: personOf('admin').userId,
    approved_by: personOf('approver').userId,
    approval_id: id,
  }
  expect(await newest(2)).toMatchObject([
    {
      event_type: 'rule.updated',
      actor: { id: people.requested_by },
      metadata: { rule_id: rule, ...people },
    },
    { event_type: 'approval.granted', actor: { id: people.approved_by } },
  ])
  const versions = (await ours('admin', 'GET', `/rules/${rule}/versions`)).body.data
  expect(versions[0]).toMatchObject({ version: 2, change: 'updated', created_by: people.requested_by })
})

describe('what waits, and what holds at once', () => {
  test.each<[string, (rule: string) => Promise<Answer>, number]>([
    ['a rule that denies now', (rule) => ours('admin', 'PATCH', `/rules/${rule}`, { verdict: 'deny' }), 200],
    ['another name', (rule) => ours('admin', 'PATCH', `/rules/${rule}`, { name: newId('rule') }), 200],
    ['fewer tools', (rule) => ours('admin', 'PUT', `/rules/${rule}`, { name: newId('rule'), ...hold() }), 202],
    ['a deletion', (rule) => ours('admin', 'DELETE', `/rules/${rule}`), 202],
    ['a first version that is the same', (rule) => ours('admin', 'POST', `/rules/${rule}/versions/1/restore`, {}), 200],
    ['stricter settings', () => ours('owner', 'PATCH', '/governance', { approval_threshold: 4, restricted_labels: ['confidential', 'pii', 'x'] }), 200],
    ['values for everybody', () => ours('owner', 'PATCH', '/governance', { run_values: 'everyone' }), 202],
    ['the end of this protection', () => ours('owner', 'PATCH', '/governance', { loosening: 'free' }), 202],
  ])('%s', async (_, ask, status) => {
    expect((await ask(await saved())).status).toBe(status)
  }) // prettier-ignore

  test('restoring a version that was looser', async () => {
    const rule = await saved()
    await ours('admin', 'PATCH', `/rules/${rule}`, { verdict: 'deny' })
    const id = await held(ours('admin', 'POST', `/rules/${rule}/versions/1/restore`, {}))
    await decide('owner', id)
    const [version] = (await ours('admin', 'GET', `/rules/${rule}/versions`)).body.data
    expect(version).toMatchObject({ version: 3, restored_from: 1 })
  })

  test('a label rule that is deleted', async () => {
    const rule = await saved({ tools: ['file_read'], add_labels: ['secret'] }, '/label-rules')
    const id = await held(ours('admin', 'DELETE', `/label-rules/${rule}`))
    expect((await decide('approver', id)).status).toBe(200)
    expect((await ours('admin', 'GET', `/label-rules/${rule}`)).status).toBe(404)
  })
})

const pageOf = async (path: string, userId: string): Promise<string> => {
  const cookie = await sessionCookie(server.context, userId)
  return (await fetch(`${new URL(server.base).origin}/console${path}`, { headers: { cookie } })).text()
}

test('the page of a change shows it in words, line by line and with an example, and its requester can withdraw it', async () => {
  const rule = await saved()
  const id = await held(shadow(rule))
  const page = (who: BootstrapName) => pageOf(`/approvals/${id}`, personOf(who).userId)
  const seen = await page('approver')
  for (const words of ['What would change', 'as it is now', 'after the change', 'Why it needs a second person', 'A call that would be decided less strictly', 'value="approve"']) expect(seen).toContain(words) // prettier-ignore
  const own = await page('admin')
  expect(own).toContain('value="withdraw"')
  expect(own).not.toContain('value="approve"')
})

test('who is asked later stands in the reason, on the page of the change and on those of the rule', async () => {
  const group = newId('group').toLowerCase()
  await ours('owner', 'POST', '/groups', { name: group })
  const rule = await saved({ ...hold(), remind_after_seconds: 1_800 })
  const escalate = [{ after_seconds: 3_600, to: { group } }]
  const { body } = await ours('admin', 'PATCH', `/rules/${rule}`, { escalate })
  const words = `1 admin or owner (after 1 hour also a member of \`${group}\`)`
  expect(body.change.why).toEqual([`an approval by ${words} may be less than one by 1 admin or owner`])
  const seen = (await as('approver', 'GET', `/approvals/${body.change.id}`)).body
  expect(seen.params.example.terms).toEqual({
    before: expect.stringMatching(/^\d admins or owners$/),
    after: expect.stringContaining(`(after 1 hour also a member of \`${group}\`)`),
  })
  const later = 'after 1 hour also a member of '
  const page = await pageOf(`/approvals/${body.change.id}`, personOf('approver').userId)
  expect(page.split(later).length).toBeGreaterThan(3)
  await decide('approver', body.change.id)
  for (const path of ['/rules', `/rules/${rule}`]) {
    const shown = await pageOf(path, personOf('member').userId)
    expect([path, shown]).toEqual([path, expect.stringContaining(later)])
    expect(shown).not.toContain('after_seconds&quot;')
  }
})

describe('policies and groups', () => {
  const tool = () => `mcp__s__${newId('rule').toLowerCase()}`
  const approved = async (asked: Promise<Answer>): Promise<number> => {
    const id = await held(asked)
    // The only owner asked, so an owner more decides.
    return (await asOther('POST', `/approvals/${id}/approve`, {})).status
  }

  test('a tool policy: a block and a lower limit hold at once, the way back waits', async () => {
    const name = tool()
    expect((await ours('owner', 'POST', '/tool-policies', { tool_name: name, allowed: false })).status).toBe(
      201,
    )
    const path = `/tool-policies/${name}`
    expect(await approved(ours('owner', 'PATCH', path, { allowed: null }))).toBe(200)
    expect((await ours('owner', 'PATCH', path, { restrictions: { read_only: true } })).body).toMatchObject({
      allowed: null,
    })
    expect((await ours('owner', 'PATCH', path, { restrictions: {} })).status).toBe(202)
    expect((await ours('owner', 'POST', `${path}/versions/1/restore`, {})).body).toMatchObject({
      allowed: false,
    })
    expect(await approved(ours('owner', 'DELETE', path))).toBe(200)
    expect((await ours('owner', 'PATCH', path, { allowed: false })).status).toBe(404)
  })

  test('an override: what allows a tool waits, and so does the end of a block', async () => {
    const override = { tool_name: tool(), role: 'member' }
    expect(
      (await ours('owner', 'POST', '/role-policy-overrides', { ...override, allowed: false })).status,
    ).toBe(201)
    const path = `/role-policy-overrides/${override.tool_name}?role=member`
    expect(await approved(ours('owner', 'DELETE', path))).toBe(200)
    expect(
      await approved(ours('owner', 'POST', '/role-policy-overrides', { ...override, allowed: true })),
    ).toBe(200)
    expect((await ours('owner', 'DELETE', path)).status).toBe(204)
  })

  test('a group: who comes to a named one waits, who goes does not', async () => {
    const name = newId('group').toLowerCase()
    const { body: made } = await ours('owner', 'POST', '/groups', {
      name,
      members: [personOf('viewer').userId],
    })
    const member = `/groups/${made.id}/members/${personOf('member').userId}`
    expect((await ours('owner', 'PUT', member)).status).toBe(200)
    expect((await ours('owner', 'DELETE', member)).status).toBe(204)
    await saved({ ...hold(), approver: { group: name } })
    const id = await held(ours('owner', 'PUT', member))
    expect((await as('owner', 'GET', `/approvals/${id}`)).body.risk.reasons).toEqual([expect.stringContaining('would let another person act or decide')]) // prettier-ignore
    const page = await pageOf(`/approvals/${id}`, other.userId)
    expect(page).toMatch(/Add .*member@countersign\.test.* to the group/)
    await asOther('POST', `/approvals/${id}/approve`, {})
    expect((await ours('owner', 'GET', `/groups/${made.id}`)).body.member_count).toBe(2)
    expect((await newest(1))[0]).toMatchObject({ event_type: 'group.member_added', metadata: { requested_by: personOf('owner').userId, approval_id: id } }) // prettier-ignore
    expect((await ours('owner', 'DELETE', member)).status).toBe(204)
    // The page has all reasons, and names an approval by its tool.
    const names = Array.from({ length: 6 }, () => newId('rule'))
    for (const each of names) await saved({ ...hold(), name: each, approver: { group: name } })
    const tool_name = tool()
    await saved({
      verdict: 'require_approval',
      tools: [tool_name, `${tool_name}_later`],
      approver: { group: name },
    })
    const ask = (name: string) =>
      server.call(server.identities.agent_key, 'POST', '/authorize', { agent: { name: 'a', kind: 'hook' }, session_id: 's', tool_name: name, tool_input: {} }) // prettier-ignore
    await ask(tool_name)
    const { body: many } = await ours('owner', 'PUT', member)
    expect(many.change.why).toHaveLength(6)
    const reasons = (await as('owner', 'GET', `/approvals/${many.change.id}`)).body.params.why
    for (const each of names) expect(reasons).toContain(`the rule \`${each}\` would let another person act or decide`) // prettier-ignore
    expect(reasons).toContain(`the waiting approval of \`${tool_name}\` would let another person act or decide`) // prettier-ignore
    // A call that came meanwhile does not end the change.
    await ask(`${tool_name}_later`)
    expect((await asOther('POST', `/approvals/${many.change.id}/approve`, {})).body.status).toBe('approved')
    // Whom a block of the group restricts may not leave it at once.
    const blocked = newId('group').toLowerCase()
    const { body: second } = await ours('owner', 'POST', '/groups', { name: blocked, members: [personOf('member').userId] }) // prettier-ignore
    await ours('owner', 'POST', '/tool-policies', { tool_name: tool(), role: blocked, allowed: false })
    expect((await ours('owner', 'DELETE', `/groups/${second.id}/members/${personOf('member').userId}`)).status).toBe(202) // prettier-ignore
    expect((await ours('owner', 'PUT', `/groups/${second.id}/members/${personOf('viewer').userId}`)).status).toBe(200) // prettier-ignore
  })
})

describe('a change is decided', () => {
  test('by nobody who asked for it, whatever their key or the settings are, and by nobody below its role', async () => {
    const id = await held(shadow(await saved()))
    expect(codeOf(await decide('admin', id))).toBe('403 self_approval')
    const { secret: second } = await addKey(server.context, server.identities.organization_id, personOf('admin').userId, ['approvals:*']) // prettier-ignore
    expect(codeOf(await server.call(second, 'POST', `/approvals/${id}/approve`, {}))).toBe(
      '403 self_approval',
    )
    expect(codeOf(await decide('member', id))).toBe('403 not_an_approver')
    expect((await as('admin', 'GET', `/approvals?kind=change&mine=true`)).body.data).toEqual([])
    // One other person is enough, whatever the threshold for calls is.
    expect((await decide('owner', id)).body).toMatchObject({ status: 'approved', approvals_needed: 1 })
  })

  test('by an owner, if only owners may make it', async () => {
    const id = await held(ours('owner', 'PATCH', '/governance', { run_values: 'everyone' }))
    expect(codeOf(await decide('admin', id))).toBe('403 not_an_approver')
  })

  test('once, if two people approve at the same time', async () => {
    const rule = await saved()
    const id = await held(shadow(rule))
    const answers = await Promise.all([decide('approver', id), decide('owner', id)])
    expect(answers.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([200, 409])
    const versions = (await ours('admin', 'GET', `/rules/${rule}/versions`)).body.data
    expect(versions).toHaveLength(2)
  })

  test('not once what it changes was changed meanwhile', async () => {
    const rule = await saved()
    const id = await held(shadow(rule))
    await ours('admin', 'PATCH', `/rules/${rule}`, { description: 'other' })
    const answer = await decide('approver', id)
    expect([codeOf(answer), answer.body.error.message]).toEqual(['409 conflict', 'what it would change was changed meanwhile: ask for the change again']) // prettier-ignore
    expect((await as('admin', 'GET', `/approvals/${id}`)).body).toMatchObject({
      status: 'cancelled',
      votes: [],
    })
    expect(await newest(1)).toMatchObject([{ event_type: 'approval.withdrawn', metadata: { because: expect.any(String) } }]) // prettier-ignore
    expect(await statusOf(rule)).toBe('active')
  })

  test('not if its requester has lost the role', async () => {
    const rule = await saved()
    const id = await held(shadow(rule))
    await setRole('admin', 'member')
    try {
      expect((await decide('approver', id)).body.error.message).toMatch(
        /^the person who asked for it has no longer/,
      )
    } finally {
      await setRole('admin', 'admin')
    }
    expect(await statusOf(rule)).toBe('active')
  })

  test('not if it is withdrawn, which only its requester can do', async () => {
    const id = await held(shadow(await saved()))
    expect(codeOf(await decide('approver', id, 'withdraw'))).toBe('403 not_an_approver')
    expect((await decide('admin', id, 'withdraw')).body).toMatchObject({ status: 'cancelled' })
    expect(codeOf(await decide('approver', id))).toBe('409 approval_already_decided')
  })

  test('and rejected by one vote, which changes nothing', async () => {
    const rule = await saved()
    const id = await held(shadow(rule))
    expect((await decide('approver', id, 'reject')).body).toMatchObject({ status: 'rejected' })
    expect(await statusOf(rule)).toBe('active')
  })
})

test('at most 50 changes wait in an organization', async () => {
  const rule = await saved()
  const ask = (at: number) =>
    ours('admin', 'PATCH', `/rules/${rule}`, { status: 'shadow', description: `${at}` })
  for (let at = 0; at < 50; at += 1) await held(ask(at))
  expect(codeOf(await ask(50))).toBe('409 conflict')
})

test('an organization with one owner cannot turn it on, however many admins it has', async () => {
  const { id, owner } = await addOrganization(server.context)
  await addPerson(server.context, id, 'admin')
  const turnOn = () =>
    server.call(owner.key, 'PATCH', `/organizations/${id}/governance`, { loosening: 'second_person' })
  const refused = await turnOn()
  expect([codeOf(refused), refused.body.error.message]).toEqual(['409 conflict', expect.stringMatching(/make a second owner first/)]) // prettier-ignore
  const second = await addPerson(server.context, id, 'owner')
  expect((await turnOn()).status).toBe(200)
  // The advice for calls would not help here.
  const change = await held(server.call(owner.key, 'PATCH', `/organizations/${id}/governance`, { loosening: 'free' })) // prettier-ignore
  // Neither of the two can go, however it is asked for.
  const member = `/organizations/${id}/members/${second.userId}`
  for (const asked of [
    server.call(second.key, 'DELETE', member),
    server.call(owner.key, 'DELETE', member),
    server.call(owner.key, 'PATCH', member, { role: 'admin' }),
  ]) {
    const answer = await asked
    expect([codeOf(answer), answer.body.error.message]).toEqual(['409 conflict', expect.stringMatching(/two owners must stay.*make another member an owner first/)]) // prettier-ignore
  }
  const third = await addPerson(server.context, id, 'owner')
  expect((await server.call(second.key, 'DELETE', member)).status).toBe(204)
  // As the company's directory does, which has the last word.
  await server.context.db.deleteFrom('memberships').where('user_id', '=', third.userId).execute()
  const { body } = await server.call(owner.key, 'POST', `/approvals/${change}/approve`, {})
  expect(body.error.message).toMatch(/add a person with this role$/)
})

import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { startTestServer, type TestServer } from './server.ts'

let server: TestServer
let organization: string
beforeAll(async () => {
  server = await startTestServer()
  organization = `/organizations/${server.identities.organization_id}`
})
afterAll(() => server.close())

const ask = (who: keyof TestServer['identities']['users'], method: string, path: string, body?: unknown) =>
  server.call(server.identities.users[who].api_key, method, `${organization}${path}`, body)
const trial = async (call: object, rules?: object[]) => {
  const answer = await ask('member', 'POST', '/rules/test', { call, ...(rules ? { rules } : {}) })
  expect(answer.status).toBe(200)
  return answer.body
}

const outside = {
  name: 'no internal data outside',
  verdict: 'deny',
  side_effects: ['egress'],
  labels: { any_of: ['internal'] },
  params: [{ param: 'to', operator: 'domain_not_in', value: ['acme.com'] }],
}
const mail = { tool: 'mail_send', params: { to: 'b@evil.net' }, labels: ['internal'], role: 'member' }

test('if drafts are given, only they are asked, and nothing is saved or recorded', async () => {
  const before = (await ask('admin', 'GET', '/governance/audit')).body.total
  const shadow = { ...outside, name: 'tried', verdict: 'require_approval', status: 'shadow' }
  expect(await trial(mail, [shadow, outside])).toEqual({
    decision: 'deny',
    reason: 'no internal data outside',
    explanation:
      'Rule `no internal data outside` denies `mail_send` because it sends data out, the data is labelled internal and `to` is outside `acme.com`.',
    rule_id: 'draft_1',
    rule_name: 'no internal data outside',
    matched_rules: [
      { id: 'draft_0', name: 'tried', verdict: 'require_approval', shadow: true },
      { id: 'draft_1', name: 'no internal data outside', verdict: 'deny', shadow: false },
    ],
    side_effect: 'egress',
    labels: ['internal'],
    approval: null,
  })
  expect(await trial({ ...mail, params: { to: 'a@acme.com' } }, [outside])).toMatchObject({
    decision: 'allow',
    reason: 'no rule matched',
    rule_name: null,
  })
  expect((await ask('member', 'GET', '/rules')).body.data).toEqual([])
  expect((await ask('admin', 'GET', '/governance/audit')).body.total).toBe(before)
})

test('without drafts the saved rules answer, from the moment they are saved', async () => {
  expect((await trial(mail)).decision).toBe('allow')
  const { id } = (await ask('admin', 'POST', '/rules', outside)).body
  expect(await trial(mail)).toMatchObject({ decision: 'deny', rule_id: id })
  await ask('admin', 'PATCH', `/rules/${id}`, { status: 'shadow' })
  expect(await trial(mail)).toMatchObject({
    decision: 'allow',
    matched_rules: [{ id, name: outside.name, verdict: 'deny', shadow: true }],
  })
  await ask('admin', 'DELETE', `/rules/${id}`)
  expect(await trial(mail)).toMatchObject({ decision: 'allow', matched_rules: [] })
})

test('a hold shows its approval’s terms, and is a denial while approvals are off', async () => {
  const hold = { ...outside, verdict: 'require_approval', approver: 'owner', approvals_needed: 2 }
  const off = await trial(mail, [hold])
  expect(off).toMatchObject({ decision: 'deny', reason: hold.name, approval: null })
  expect(off.explanation).toContain('approvals are off')
  await ask('owner', 'PATCH', '/governance', { approvals_enabled: true })
  expect(await trial(mail, [hold])).toMatchObject({
    decision: 'require_approval',
    approval: { approver: 'owner', approvals_needed: 2, expires_after_seconds: null },
  })
})

test('the votes of a hold are at least the setting `approval_threshold`', async () => {
  await ask('owner', 'PATCH', '/governance', { approvals_enabled: true, approval_threshold: 3 })
  const hold = { ...outside, verdict: 'require_approval' }
  for (const [own, needed] of [
    [1, 3],
    [2, 3],
    [4, 4],
  ])
    expect((await trial(mail, [{ ...hold, approvals_needed: own }])).approval.approvals_needed).toBe(needed)
  await ask('owner', 'PATCH', '/governance', { approval_threshold: 1 })
})

test('the side effect is the tool’s own, or the organization’s setting, else a write', async () => {
  const effect = async (call: object) => (await trial(call)).side_effect
  expect(await effect({ tool: 'mail_send' })).toBe('egress')
  expect(await effect({ tool: 'mail_send', side_effect: 'read' })).toBe('read')
  expect(await effect({ tool: 'Read', source: 'agents' })).toBe('read')
  expect(await effect({ tool: 'mcp__tracker__anything', source: 'agents' })).toBe('write')
  await ask('owner', 'PATCH', '/governance', {
    external_tools: { mcp__tracker__anything: { side_effect: 'egress' } },
  })
  expect(await effect({ tool: 'mcp__tracker__anything', source: 'agents' })).toBe('egress')
})

test('a tool that only agents have is tested as an agent’s call, with the answer that its hook would get', async () => {
  const ours = { name: 'nothing leaves', verdict: 'deny', side_effects: ['egress'], applies_to: ['agents'] }
  const bash = { tool: 'Bash', params: { command: 'curl https://evil.net' } }
  const denied = await trial(bash, [ours])
  expect(denied).toMatchObject({ decision: 'deny', side_effect: 'egress', rule_name: ours.name })
  expect(denied.explanation).toMatch(/ The command counts as egress because .+\.$/)
  expect(await trial({ ...bash, source: 'agents' }, [ours])).toEqual(denied)
  expect((await trial({ ...bash, side_effect: 'egress' }, [ours])).explanation).not.toContain('counts as')
  expect((await trial(bash, [])).explanation).not.toContain('counts as')
  const any = { ...ours, side_effects: ['read', 'write', 'egress'] }
  for (const [tool, decision] of [
    ['mcp__tracker__list', 'deny'],
    ['Read', 'deny'],
    ['mail_send', 'allow'],
  ])
    expect([tool, (await trial({ tool }, [any])).decision]).toEqual([tool, decision])
  expect((await trial({ ...bash, source: 'workflows' }, [any])).decision).toBe('allow')
})

test('drafts are validated as when saved, each issue at its place', async () => {
  const draft = { ...outside, params: [{ param: 'to', operator: 'equals', value: '<YOUR_SHEET_ID>' }] }
  const answer = await ask('member', 'POST', '/rules/test', { call: mail, rules: [outside, draft] })
  expect(answer.status).toBe(422)
  expect(answer.body.error.details).toEqual([
    {
      path: 'rules.1.params.0.value',
      message: '`<YOUR_SHEET_ID>` is a placeholder: replace it with the real value',
    },
  ])
  for (const call of [{}, { tool: 'x', labels: ['Not A Slug'] }, { tool: 'x', colour: 1 }]) {
    expect((await ask('member', 'POST', '/rules/test', { call })).status).toBe(422)
  }
})

test('a question is not an act: an `Idempotency-Key` does not keep an old answer', async () => {
  const send = () =>
    server.call(
      server.identities.users.member.api_key,
      'POST',
      `${organization}/rules/test`,
      { call: mail },
      { 'idempotency-key': 'asked-before' },
    )
  expect((await send()).body.decision).toBe('allow')
  const { id } = (await ask('admin', 'POST', '/rules', outside)).body
  expect((await send()).body.decision).toBe('deny')
  await ask('admin', 'DELETE', `/rules/${id}`)
})

test('with a role, that role and the tool policies are asked before the rules', async () => {
  const policies = '/tool-policies'
  const restrictions = { allowed_domains: ['acme.com'] }
  await ask('owner', 'POST', policies, { tool_name: 'memory_set', allowed: false, role: 'member' })
  await ask('owner', 'POST', policies, { tool_name: 'mail_send', restrictions, role: 'member' })
  const set = { tool: 'memory_set', params: { key: 'k', value: 1 } }
  const as = async (role: string, call: object, rules?: object[]) => {
    const { status, body } = await ask('admin', 'POST', '/rules/test', { call: { ...call, role }, rules })
    expect(status).toBe(200)
    return [body.decision, body.reason]
  }
  expect(await as('member', set)).toEqual(['deny', 'tool blocked for role member'])
  expect(await as('member', set, [])).toEqual(['deny', 'tool blocked for role member'])
  expect(await as('admin', set)).toEqual(['allow', 'no rule matched'])
  expect(await trial(set)).toMatchObject({ decision: 'allow' })
  expect(await as('member', mail)).toEqual(['deny', 'outside the limits of role member'])
  expect(await as('admin', mail)).toEqual(['allow', 'no rule matched'])
  expect(await as('viewer', set)).toEqual(['deny', 'requester may not run tools'])
  expect(await as('viewer', { tool: 'WebFetch' })).toEqual(['deny', 'role may not ask'])
  for (const tool of ['memory_set', 'mail_send'])
    await ask('owner', 'DELETE', `${policies}/${tool}?role=member`)
})

test('nobody tries a call of a higher role than their own', async () => {
  const call = { ...mail, role: 'admin' }
  const { status, body } = await ask('member', 'POST', '/rules/test', { call })
  expect([status, body.error.code]).toEqual([403, 'insufficient_role'])
})

test('drafts that could not be saved together are not compiled', async () => {
  const value = Array.from({ length: 900 }, (_, index) => `a${index}.example`)
  const draft = { name: 'long', verdict: 'deny', params: [{ param: 'to', operator: 'domain_in', value }] }
  const test = (count: number) =>
    ask('member', 'POST', '/rules/test', { call: mail, rules: Array.from({ length: count }, () => draft) })
  expect((await test(50)).status).toBe(200)
  const { status, body } = await test(60)
  expect(status).toBe(422)
  expect(body.error.details).toEqual([
    { path: 'rules', message: 'rules may hold 50,000 values, labels and tools together: try fewer at once' },
  ])
})

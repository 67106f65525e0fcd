import { beforeAll, describe, expect, test } from '@jest/globals'
import { agentWorld, type AgentWorld } from '../agents/agent.ts'
import { addKey, everyScope } from '../fixtures.ts'
import type { TestServer } from '../server.ts'
import { codeOf, placesOf, useServer } from '../use-server.ts'

let server: TestServer
const { ours: ask } = useServer((started) => (server = started))

/** A new organization for the tests of a `describe`. */
let world: AgentWorld
const inNewWorld = (): void => {
  beforeAll(async () => {
    world = await agentWorld(server)
  })
}
/** Sends a request to a path below the rules of an organization. */
const rulesOf = (of: AgentWorld, method: string, path: string, body?: unknown, key = of.member.key) =>
  server.call(key, method, `/organizations/${of.organizationId}/rules/${path}`, body)

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

test('a parameter that is missing, null or of an object’s prototype does not match', async () => {
  const draft = { ...outside, params: [{ param: 'a', operator: 'equals', value: 'x' }] }
  const decided = async (params: string) => {
    const call = `{"tool": "mail_send", "labels": ["internal"], "params": ${params}}`
    return (
      await ask('member', 'POST', '/rules/test', `{"call": ${call}, "rules": [${JSON.stringify(draft)}]}`)
    ).body.decision
  }
  expect(await decided('{"a": "x"}')).toBe('deny')
  for (const params of ['{}', '{"toString": {"a": "x"}}', '{"a": null}'])
    expect([params, await decided(params)]).toEqual([params, 'allow'])
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
  const { organization_id: id, users } = server.identities
  const path = `/organizations/${id}/rules/test`
  const kept = { 'idempotency-key': 'asked-before' }
  const send = () => server.call(users.member.api_key, 'POST', path, { call: mail }, kept)
  expect((await send()).body.decision).toBe('allow')
  const { id: rule } = (await ask('admin', 'POST', '/rules', outside)).body
  expect((await send()).body.decision).toBe('deny')
  await ask('admin', 'DELETE', `/rules/${rule}`)
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
  expect(codeOf(await ask('member', 'POST', '/rules/test', { call }))).toBe('403 insufficient_role')
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

describe('a backtest', () => {
  inNewWorld()

  const backtest = (body: unknown, key = world.admin.key) => rulesOf(world, 'POST', 'backtest', body, key)
  const fetches = { name: 'no fetch', verdict: 'deny', tools: ['WebFetch'] }

  test('a backtest says how drafts would have decided the calls of the organization, and records nothing', async () => {
    const agent = world.agent()
    await agent.ask('WebFetch', { url: 'https://evil.net' })
    const recorded = async () => (await world.change('GET', '/governance/audit')).body.total
    const before = await recorded()
    const { status, body } = await backtest({ rules: [fetches] })
    expect(status).toBe(200)
    expect(body).toMatchObject({
      examined: 1,
      changed: 1,
      not_replayable: [],
      by_change: { 'allow->deny': 1 },
      samples: [{ tool: 'WebFetch', to: { verdict: 'deny', rule_name: 'no fetch' } }],
      limit_reached: null,
    })
    expect(await recorded()).toBe(before)
    expect((await backtest({ rules: [fetches], until: '2020-01-01' })).body).toEqual({
      examined: 0,
      changed: 0,
      not_replayable: [],
      by_change: {},
      samples: [],
      limit_reached: null,
      oldest: null,
    })
    expect((await backtest({ rules: [fetches], since: body.oldest })).body.examined).toBe(1)
    expect((await backtest({ rules: [fetches], until: body.oldest })).body.examined).toBe(0)
  })

  test('it looks at one organization alone', async () => {
    const other = await agentWorld(server)
    const own = await rulesOf(other, 'POST', 'backtest', { rules: [fetches] }, other.admin.key)
    expect(own.body.examined).toBe(0)
    expect((await backtest({ rules: [fetches] }, other.admin.key)).status).toBe(404)
  })

  test('a member may not ask, because the counts would show parameters of calls', async () => {
    expect(codeOf(await backtest({ rules: [fetches] }, world.member.key))).toBe('403 insufficient_role')
  })

  test.each(['runs:read', 'approvals:read', 'agents:read'])(
    'a key without `%s` may not ask, because counts and samples show what this scope protects',
    async (scope) => {
      const without = everyScope.filter((each) => each !== scope)
      const { secret } = await addKey(server.context, world.organizationId, world.admin.userId, without)
      const { status, body } = await backtest({ rules: [fetches] }, secret)
      expect([status, body.error]).toEqual([
        403,
        {
          code: 'missing_scope',
          message: expect.stringContaining(`\`${scope}\``),
          details: [{ path: scope, message: `needs the scope \`${scope}\`` }],
        },
      ])
    },
  )

  describe('a request that is not valid is refused', () => {
    const times = <T>(length: number, item: T) => Array.from({ length }, () => item)
    const value = Array.from({ length: 1_000 }, (_, index) => `v${index}`)
    const long = { name: 'r', verdict: 'deny', params: [{ param: 'to', operator: 'in', value }] }
    test.each([
      ['no rules', {}, 'rules'],
      [
        'a draft that could not be saved',
        { rules: [{ ...fetches, tools: ['mail_sendd'] }] },
        'rules.0.tools.0',
      ],
      [
        'a period that ends before it starts',
        { rules: [], since: '2026-02-01', until: '2026-01-01' },
        'until',
      ],
      ['a time that is none', { rules: [], since: 'yesterday' }, 'since'],
      ['an unknown field', { rules: [], limit: 5 }, 'limit'],
      ['too many drafts', { rules: times(1_001, fetches) }, 'rules'],
      ['too many values', { rules: times(51, long) }, 'rules'],
    ])('%s', async (_, body, place) => {
      const answer = await backtest(body)
      expect([answer.status, ...placesOf(answer)]).toEqual([422, place])
    })
  })
})

describe('a difference', () => {
  inNewWorld()

  const diff = (body: unknown) => rulesOf(world, 'POST', 'diff', body)
  const outside = (...domains: string[]) => ({
    name: 'mail stays inside',
    verdict: 'deny',
    tools: ['mail_send'],
    applies_to: ['workflows'],
    params: [{ param: 'to', operator: 'domain_not_in', value: domains }],
  })

  test('drafts are compared with the saved rules, and each change has a call that `rules/test` takes', async () => {
    const saved = (await world.change('POST', '/rules', outside('acme.com'))).body.id
    const { status, body } = await diff({ from: 'active', to: [outside('acme.com', 'partner.example')] })
    expect(status).toBe(200)
    expect(body).toMatchObject({
      changes: [
        {
          change: 'deny->allow',
          example_call: {
            source: 'workflows',
            tool: 'mail_send',
            side_effect: 'egress',
            params: { to: 'someone@partner.example' },
            labels: [],
          },
          approval: { from: null, to: null },
          rules: [{ set: 'from', id: saved, name: 'mail stays inside', verdict: 'deny' }],
        },
      ],
      limit_reached: null,
    })
    const [{ example_call: call }] = body.changes
    expect((await rulesOf(world, 'POST', 'test', { call })).body.decision).toBe('deny')
  })

  test('two lists of drafts are compared without the saved rules', async () => {
    const { body } = await diff({ from: [], to: [outside('acme.com')] })
    expect(body.changes).toMatchObject([
      {
        change: 'allow->deny',
        rules: [{ set: 'to', id: 'draft_0', name: 'mail stays inside', verdict: 'deny' }],
      },
    ])
    expect((await diff({ from: [outside('acme.com')], to: [outside('acme.com')] })).body.changes).toEqual([])
  })

  test('a change of the terms of an approval is shown with the terms of both sides', async () => {
    await world.change('PATCH', '/governance', { approvals_enabled: true })
    const hold = { name: 'mail is approved', verdict: 'require_approval', tools: ['mail_send'] }
    const terms = { approver: 'owner', approvals_needed: 3, expires_after_seconds: 60 }
    const { body } = await diff({ from: [{ ...hold, ...terms }], to: [hold] })
    expect(body.changes).toMatchObject([
      {
        change: 'require_approval->require_approval',
        approval: {
          from: terms,
          to: { approver: 'admin', approvals_needed: 1, expires_after_seconds: null },
        },
        rules: [{ set: 'from' }, { set: 'to' }],
      },
    ])
  })

  test('votes below the setting `approval_threshold` are no change', async () => {
    await world.change('PATCH', '/governance', { approvals_enabled: true, approval_threshold: 3 })
    const hold = { name: 'mail is approved', verdict: 'require_approval', tools: ['mail_send'] }
    expect((await diff({ from: [hold], to: [{ ...hold, approvals_needed: 2 }] })).body.changes).toEqual([])
    expect((await diff({ from: [hold], to: [{ ...hold, approvals_needed: 4 }] })).body.changes).toMatchObject(
      [{ approval: { from: { approvals_needed: 3 }, to: { approvals_needed: 4 } } }],
    )
    await world.change('PATCH', '/governance', { approval_threshold: 1 })
  })

  test('the setting `external_tools` says which side effect an agent’s tool has', async () => {
    const sent = [{ name: 'r', verdict: 'deny', tools: ['Read'], side_effects: ['egress'] }]
    expect((await diff({ from: [], to: sent })).body.changes).toEqual([])
    await world.change('PATCH', '/governance', { external_tools: { Read: { side_effect: 'egress' } } })
    expect((await diff({ from: [], to: sent })).body.changes).toMatchObject([
      { example_call: { source: 'agents', tool: 'Read', side_effect: 'egress' } },
    ])
  })

  test('another organization’s rules are not compared', async () => {
    const other = await agentWorld(server)
    const question = { from: 'active', to: [] }
    const { body } = await rulesOf(other, 'POST', 'diff', question)
    expect(body).toEqual({ changes: [], tried: 0, limit_reached: null })
    expect((await rulesOf(other, 'POST', 'diff', question, world.member.key)).status).toBe(404)
  })

  test('at most 50 changes are shown', async () => {
    const to = Array.from({ length: 60 }, (_, index) => ({ name: `r${index}`, verdict: 'deny', tools: [`mcp__s${index}__t`] })) // prettier-ignore
    const { body } = await diff({ from: [], to })
    expect(body.changes).toHaveLength(50)
    expect(body.limit_reached).toBe('changes')
  })

  describe('a request that is not valid is refused', () => {
    const bad = { ...outside('acme.com'), tools: ['mail_sendd'] }
    test.each([
      ['no `to`', { from: 'active' }, 'to'],
      ['the saved rules as `to`', { from: [], to: 'active' }, 'to'],
      ['an unknown word', { from: 'saved', to: [] }, 'from'],
      ['a draft that could not be saved', { from: 'active', to: [bad] }, 'to.0.tools.0'],
      ['another one', { from: [bad], to: [] }, 'from.0.tools.0'],
      [
        'too many drafts',
        { from: 'active', to: Array.from({ length: 1_001 }, () => outside('a.com')) },
        'to',
      ],
    ])('%s', async (_, body, place) => {
      const answer = await diff(body)
      expect([answer.status, ...placesOf(answer)]).toEqual([422, place])
    })
  })
})

describe('an analysis', () => {
  inNewWorld()

  const analysis = (of = world, key = of.member.key) => rulesOf(of, 'GET', 'analysis', undefined, key)

  test('`analysis` is no id of a rule, and an organization without rules has no findings', async () => {
    const { status, body } = await analysis()
    expect([status, body]).toEqual([200, { findings: [], limit_reached: null }])
  })

  test('a rule that another rule covers is found, with a call that both match', async () => {
    const save = async (rule: object) => (await world.change('POST', '/rules', rule)).body.id as string
    const allowed = await save({ name: 'letters', verdict: 'allow', tools: ['mail_send'], status: 'shadow' })
    const denied = await save({ name: 'no mail', verdict: 'deny', tools: ['mail_*'] })
    const { body } = await analysis()
    expect(body).toEqual({
      findings: [
        {
          kind: 'never_decides',
          rules: [{ id: allowed, name: 'letters', verdict: 'allow', shadow: true }],
          covered_by: { id: denied, name: 'no mail', verdict: 'deny', shadow: false },
          example_call: {
            source: 'workflows',
            tool: 'mail_send',
            side_effect: 'egress',
            params: {},
            labels: [],
          },
          message:
            'Rule `letters` would never decide a call if it was active: rule `no mail` matches every call that it matches, and is at least as strict.',
        },
      ],
      limit_reached: null,
    })
    const tried = await rulesOf(world, 'POST', 'test', { call: body.findings[0].example_call })
    expect(tried.body.matched_rules.map(({ id }: { id: string }) => id)).toEqual([allowed, denied])
  })

  test('a rule with the same conditions is named beside the rule without effect', async () => {
    const other = await agentWorld(server)
    for (const [name, verdict] of [
      ['a', 'require_approval'],
      ['b', 'require_approval'],
      ['c', 'deny'],
    ])
      // prettier-ignore
      await other.change('POST', '/rules', { name, verdict, match_all: true })
    const { findings } = (await analysis(other)).body
    expect(
      findings.map(({ kind, rules }: { kind: string; rules: { name: string }[] }) => [
        kind,
        rules.map(({ name }) => name),
      ]),
    ).toEqual([
      // prettier-ignore
      ['contradicts', ['a', 'c']],
      ['duplicate', ['b', 'a']],
    ])
    expect((await analysis(world, other.member.key)).status).toBe(404)
  })

  test('2,000 rules of which each pair must be compared are analyzed within the limits', async () => {
    const many = await agentWorld(server)
    const rules = Array.from({ length: 2_000 }, (_, index) => ({
      id: `rule_many_${String(index).padStart(4, '0')}`,
      organization_id: many.organizationId,
      name: `rule ${index}`,
      body: JSON.stringify({
        name: `rule ${index}`,
        verdict: 'deny',
        status: 'active',
        params: Array.from({ length: 10 }, (_, at) => ({
          param: `p${at}`,
          operator: 'equals',
          value: `${index}`,
        })),
      }),
      created_by: many.owner.userId,
    }))
    await server.context.db.insertInto('rules').values(rules).execute()
    await many.change('PATCH', '/governance', { approval_threshold: 2 })
    const { status, body } = await analysis(many)
    expect(status).toBe(200)
    expect(body.findings).toEqual([])
    // On a slow machine, the time may be over first.
    expect(['comparisons', 'time']).toContain(body.limit_reached)
  })
})

import { afterAll, afterEach, beforeAll, describe, expect, it, test } from '@jest/globals'
import { catalog } from '../../../src/tools/index.ts'
import type { ToolDeclaration } from '../../../src/tools/kit/tool.ts'
import { addOrganization, aLabelRule, aRule } from '../fixtures.ts'
import { startTestServer, type TestServer } from '../server.ts'

/* Saving rules and label rules, as callers see it: routes, codes and messages. */

let server: TestServer
let organization: string
let counter = 0
beforeAll(async () => {
  server = await startTestServer()
  organization = `/organizations/${server.identities.organization_id}`
})
afterAll(() => server.close())

const ask = (method: string, path: string, body?: unknown) =>
  server.call(server.identities.users.admin.api_key, method, `${organization}${path}`, body)
const named = (body: object) => ({ ...body, name: `rule ${(counter += 1)}` })
/** Expects that the body is refused, and returns the issues. */
async function refused(path: string, body: object): Promise<{ path: string; message: string }[]> {
  const answer = await ask('POST', path, body)
  expect([answer.status, answer.body.error.code]).toEqual([422, 'validation_error'])
  return answer.body.error.details
}
const withParam = (condition: object) =>
  named({ ...aRule, params: [{ param: 'to', operator: 'equals', value: 'x', ...condition }] })

describe.each([
  ['rules', aRule, { verdict: 'allow' }],
  ['label-rules', aLabelRule, { add_labels: ['pii', 'secret'] }],
])('/%s', (path, fields, change) => {
  it('“`POST|GET …`, `GET|PUT|PATCH|DELETE …/{rule}`”', async () => {
    const body = named(fields)
    const made = await ask('POST', `/${path}`, body)
    expect(made.status).toBe(201)
    expect(made.body).toMatchObject({ ...body, status: 'active' })
    const one = `/${path}/${made.body.id}`
    expect((await ask('GET', one)).body).toEqual(made.body)
    expect((await ask('GET', `/${path}`)).body.data).toContainEqual(made.body)
    expect((await ask('PATCH', one, change)).body).toMatchObject({ ...body, ...change })
    expect((await ask('PUT', one, body)).body).toMatchObject(body)
    expect((await ask('DELETE', one)).status).toBe(204)
    expect((await ask('GET', one)).status).toBe(404)
  })

  it('names are unique in an organization', async () => {
    const [first, second] = [named(fields), named(fields)]
    await ask('POST', `/${path}`, first)
    const { id } = (await ask('POST', `/${path}`, second)).body
    for (const [method, at, body] of [
      ['POST', `/${path}`, first],
      ['PUT', `/${path}/${id}`, first],
      ['PATCH', `/${path}/${id}`, { name: first.name }],
    ] as const) {
      const answer = await ask(method, at, body)
      expect([answer.status, answer.body.error.code]).toEqual([422, 'validation_error'])
      expect(answer.body.error.details).toEqual([{ path: 'name', message: answer.body.error.message }])
      expect(answer.body.error.message).toContain(`\`${first.name}\``)
    }
    const { id: other, owner } = await addOrganization(server.context)
    expect((await server.call(owner.key, 'POST', `/organizations/${other}/${path}`, first)).status).toBe(201)
  })

  it('a placeholder is rejected with the message to replace it, on create, replace and change', async () => {
    const params = (value: unknown, operator = 'equals') => [{ param: 'path', operator, value }]
    const { id } = (await ask('POST', `/${path}`, named(fields))).body
    for (const value of ['<YOUR_SHEET_ID>', ' <your-domain> ', '<SHEET_ID>'])
      for (const [method, at, body] of [
        ['POST', `/${path}`, named({ ...fields, params: params(value) })],
        ['PUT', `/${path}/${id}`, named({ ...fields, params: params(['x', value], 'in') })],
        ['PATCH', `/${path}/${id}`, { params: params([value], 'domain_in') }],
        ['PATCH', `/${path}/${id}`, { tools: [value] }],
      ] as const) {
        const { status, body: answer } = await ask(method, at, body)
        expect(status).toBe(422)
        expect(answer.error.details.map((each: { message: string }) => each.message)).toContain(
          `\`${value.trim()}\` is a placeholder: replace it with the real value`,
        )
      }
  })

  it('a policy for an unknown tool is 422 with a hint to the tools list', async () => {
    for (const tool of ['mail_sned', 'github_*_typo', 'bash2', 'mcp_crm_send', 'no such'])
      expect((await refused(`/${path}`, named({ ...fields, tools: ['mail_send', tool] })))[0]).toMatchObject({
        path: 'tools.1',
        message:
          tool === 'no such'
            ? expect.stringContaining('white space')
            : expect.stringContaining('`GET /tools` lists'),
      })
    for (const tool of ['jira_*', 'Bash', 'mcp__crm__send', 'mcp__*'])
      expect((await ask('POST', `/${path}`, named({ ...fields, tools: [tool] }))).status).toBe(201)
  })
})

describe('saved rules', () => {
  it('`GET /rule-templates` offers inactive rules, and each can be saved as it is', async () => {
    const key = server.identities.users.admin.api_key
    const { status, body } = await server.call(key, 'GET', '/api/v1/rule-templates')
    expect(status).toBe(200)
    expect(new Set(body.data.map((each: { kind: string }) => each.kind))).toEqual(
      new Set(['rule', 'label_rule']),
    )
    for (const template of body.data) {
      expect(template.body.status).toBe('inactive')
      const saved = await ask('POST', template.kind === 'rule' ? '/rules' : '/label-rules', template.body)
      expect([saved.status, saved.body.status]).toEqual([201, 'inactive'])
    }
    const call = {
      tool: 'mail_send',
      params: { to: 'b@evil.net' },
      labels: ['confidential', 'internal', 'untrusted'],
    }
    expect((await ask('POST', '/rules/test', { call })).body.matched_rules).not.toContainEqual(
      expect.objectContaining({ name: body.data[0].body.name }),
    )
  })

  it('a rule without any condition needs `match_all: true`, also after a change', async () => {
    const bare = named({ verdict: 'allow' })
    expect(await refused('/rules', bare)).toEqual([
      { path: 'match_all', message: expect.stringContaining('match_all') },
    ])
    const { id } = (await ask('POST', '/rules', { ...bare, tools: ['mail_send'] })).body
    const answer = await ask('PATCH', `/rules/${id}`, { tools: null })
    expect([answer.status, answer.body.error.details[0].path]).toEqual([422, 'match_all'])
    expect((await ask('PATCH', `/rules/${id}`, { tools: null, match_all: true })).status).toBe(200)
    const both = await ask('PATCH', `/rules/${id}`, { tools: ['mail_send'] })
    expect([both.status, both.body.error.details[0].path]).toEqual([422, 'match_all'])
    expect((await ask('PATCH', `/rules/${id}`, { tools: ['mail_send'], match_all: null })).status).toBe(200)
  })

  it('labels are lower-case slugs', async () => {
    expect((await refused('/label-rules', named({ add_labels: ['PII'] })))[0]?.path).toBe('add_labels.0')
    expect(
      (await refused('/rules', named({ verdict: 'deny', labels: { any_of: ['Top Secret'] } })))[0]?.path,
    ).toBe('labels.any_of.0')
    expect((await refused('/rules', withParam({ operator: 'from_label', value: ['PII'] })))[0]?.path).toBe(
      'params.0.value.0',
    )
  })

  it('a bare public suffix as a rule’s domain is 422', async () => {
    for (const domain of ['com', 'co.uk', 'github.io', 'COM.'])
      expect(
        await refused('/rules', withParam({ operator: 'domain_not_in', value: ['acme.com', domain] })),
      ).toEqual([{ path: 'params.0.value.1', message: expect.stringContaining('public suffix') }])
  })

  it('a rule that compares with `me` in a mail gets a message with the alternative', async () => {
    expect(await refused('/rules', withParam({ value: 'me' }))).toEqual([
      { path: 'params.0.value', message: expect.stringContaining('`domain_in`') },
    ])
  })

  it('unknown operators and values, hostile ones among them, are named and never saved', async () => {
    const before = (await ask('GET', '/rules')).body.data.length
    for (const condition of [
      { operator: 'matches' },
      { operator: '__proto__' },
      { operator: 'not_equals' },
      { value: null },
      { value: { toString: 'x' } },
      { operator: 'in', value: [] },
      { operator: 'exists', value: 'true' },
      { param: '' },
      { param: 'a..b' },
      { param: '__proto__.a' },
      { param: 'a.__proto__' },
      { colour: 'red' },
    ])
      for (const issue of await refused('/rules', withParam(condition)))
        expect(issue.path).toMatch(/^params\.0/)
    for (const value of ['a\u0000', '\ud800'])
      expect((await ask('POST', '/rules', withParam({ value }))).status).toBe(400)
    expect((await ask('GET', '/rules')).body.data).toHaveLength(before)
  })
})

describe('`POST .../rules/test`', () => {
  it('testing a rule returns the decision with its explanation', async () => {
    const draft = {
      name: 'draft',
      verdict: 'deny',
      params: [{ param: 'a', operator: 'equals', value: 'x' }],
    }
    const trial = async (params: string) =>
      (
        await ask(
          'POST',
          '/rules/test',
          `{"call": {"tool": "mcp__a__b", "params": ${params}}, "rules": [${JSON.stringify(draft)}]}`,
        )
      ).body
    expect(await trial('{"a": "x"}')).toMatchObject({
      decision: 'deny',
      reason: 'draft',
      explanation: 'Rule `draft` denies `mcp__a__b` because `a` is `x`.',
      matched_rules: [{ id: 'draft_0', name: 'draft', verdict: 'deny', shadow: false }],
    })
    for (const params of ['{}', '{"toString": {"a": "x"}}', '{"a": null}'])
      expect(await trial(params)).toMatchObject({
        decision: 'allow',
        reason: 'no rule matched',
        rule_name: null,
      })
  })
})

describe('lists without an order of time', () => {
  /** All pages of `path`, each with at most `limit` items. */
  async function pages(path: string, limit: number): Promise<unknown[][]> {
    const found: unknown[][] = []
    let cursor: string | null = ''
    while (cursor !== null) {
      const after: string = cursor === '' ? '' : `&cursor=${cursor}`
      const key = server.identities.users.admin.api_key
      const { status, body } = await server.call(key, 'GET', `/api/v1${path}?limit=${limit}${after}`)
      expect(status).toBe(200)
      found.push(body.data)
      cursor = body.next_cursor
    }
    return found
  }

  it('`GET /rule-templates` has pages', async () => {
    const [whole, split] = [await pages('/rule-templates', 200), await pages('/rule-templates', 2)]
    expect(whole).toHaveLength(1)
    expect(split.length).toBeGreaterThan(2)
    expect(split.flat()).toEqual(whole.flat())
  })

  it('`GET …/tool-policies` has pages, newest first', async () => {
    const { id, owner } = await addOrganization(server.context)
    const path = `/organizations/${id}/tool-policies`
    const wanted = ['file_read ', 'mail_send ', 'mail_send admin', 'mail_send member', 'memory_get ', 'memory_set owner'] // prettier-ignore
    for (const each of wanted.toReversed()) {
      const [tool_name, role] = each.split(' ')
      const body = { tool_name, allowed: false, ...(role === '' ? {} : { role }) }
      expect(await server.call(owner.key, 'POST', path, body)).toMatchObject({ status: 201 })
    }
    const found: string[] = []
    let cursor: string | null = ''
    while (cursor !== null) {
      const query: string = `?limit=2${cursor === '' ? '' : `&cursor=${cursor}`}`
      const { body } = await server.call(owner.key, 'GET', `${path}${query}`)
      found.push(...body.data.map((each: { tool_name: string; role: string | null }) => `${each.tool_name} ${each.role ?? ''}`)) // prettier-ignore
      cursor = body.next_cursor
    }
    expect(found).toEqual(wanted)
    const wrong = await server.call(owner.key, 'GET', `${path}?cursor=eHh4`)
    expect([wrong.status, wrong.body.error.code]).toEqual([422, 'validation_error'])
  })

  it('`PATCH …/tool-policies/{tool}` takes the role in the body or the query, and both must agree', async () => {
    const { id, owner } = await addOrganization(server.context)
    const path = `/organizations/${id}/tool-policies`
    for (const role of [undefined, 'member'])
      await server.call(owner.key, 'POST', path, { tool_name: 'mail_send', allowed: true, role })
    const change = async (query: string, body: object): Promise<unknown[]> => {
      const answer = await server.call(owner.key, 'PATCH', `${path}/mail_send${query}`, body)
      return [answer.status, answer.body.role]
    }
    expect(await change('', { allowed: false })).toEqual([200, null])
    expect(await change('', { allowed: false, role: 'member' })).toEqual([200, 'member'])
    expect(await change('?role=member', { allowed: false })).toEqual([200, 'member'])
    expect(await change('?role=member', { allowed: false, role: 'member' })).toEqual([200, 'member'])
    expect(await change('?role=member', { allowed: false, role: 'admin' })).toEqual([422, undefined])
  })
})

describe('overrides of roles', () => {
  let server: TestServer
  let organization: string
  beforeAll(async () => {
    server = await startTestServer({ env: { SMTP_URL: 'smtp://127.0.0.1:9' } })
    organization = `/organizations/${server.identities.organization_id}`
  })
  afterAll(() => server.close())

  type Who = keyof TestServer['identities']['users']
  const ask = (who: Who, method: string, path: string, body?: unknown) =>
    server.call(server.identities.users[who].api_key, method, path, body)
  const owner = (method: string, path: string, body?: unknown) =>
    ask('owner', method, `${organization}${path}`, body)
  const overrides = '/role-policy-overrides'
  const save = (tool_name: string, role: string, allowed: boolean) =>
    owner('POST', overrides, { tool_name, role, allowed })
  /** The decision about a call of the member's agent. */
  const decision = async (tool_name = 'Bash') => {
    const question = { agent: { name: 'a', kind: 'hook' }, session_id: 's', tool_name, tool_input: { command: 'ls' } } // prettier-ignore
    return (await server.call(server.identities.agent_key, 'POST', '/authorize', question)).body
  }

  describe('overrides of roles', () => {
    afterEach(async () => {
      for (const { tool_name, role } of (await owner('GET', `${overrides}?limit=200`)).body.data)
        expect((await owner('DELETE', `${overrides}/${tool_name}?role=${role}`)).status).toBe(204)
      await owner('PATCH', '/governance', { default_tool_access: 'allow' })
    })

    test('are saved, listed with the members of their role, and deleted', async () => {
      const made = await save('Bash', 'admin', false)
      expect(made.status).toBe(201)
      expect(made.body).toMatchObject({ tool_name: 'Bash', role: 'admin', allowed: false, members: 2 })
      const custom = await save('Bash', 'release-manager', true)
      expect([custom.status, custom.body.members]).toEqual([201, 0])
      await save('Agent', 'viewer', true)
      const first = await owner('GET', `${overrides}?limit=2`)
      const second = await owner(
        'GET',
        `${overrides}?limit=2&cursor=${encodeURIComponent(first.body.next_cursor)}`,
      )
      expect([...first.body.data, ...second.body.data]).toMatchObject([
        { tool_name: 'Agent', role: 'viewer', members: 1 },
        custom.body,
        made.body,
      ])
      expect((await owner('DELETE', `${overrides}/Bash?role=release-manager`)).status).toBe(204)
      expect((await owner('DELETE', `${overrides}/Bash?role=release-manager`)).status).toBe(404)
      expect((await ask('admin', 'GET', `${organization}${overrides}`)).body.data).toHaveLength(2)
    })

    test('hold from the next decision on, and end with their deletion', async () => {
      expect((await decision()).decision).toBe('allow')
      await save('Bash', 'member', false)
      expect(await decision()).toMatchObject({ decision: 'deny', reason: 'tool blocked for role member' })
      expect((await decision('Read')).decision).toBe('allow')
      await owner('DELETE', `${overrides}/Bash?role=member`)
      expect((await decision()).decision).toBe('allow')
    })

    test('of a name that no member has hold nobody', async () => {
      await save('Bash', 'contractor', false)
      expect((await decision()).decision).toBe('allow')
    })

    test('open a tool for one role where the default is deny, and never lift a block', async () => {
      await owner('PATCH', '/governance', { default_tool_access: 'deny' })
      expect((await decision()).reason).toBe('tool not allowed by any policy')
      await save('Bash', 'viewer', true)
      expect((await decision()).decision).toBe('deny')
      await save('Bash', 'member', true)
      expect((await decision()).decision).toBe('allow')
      await owner('POST', '/tool-policies', { tool_name: 'Bash', allowed: false })
      expect((await decision()).reason).toBe('tool blocked by the organization')
      await owner('DELETE', '/tool-policies/Bash')
    })

    test('refuse a run with a blocked tool before anything happens, and its preview says so', async () => {
      const definition = { steps: [{ id: 's', tool: 'memory_get', params: { key: 'k' } }] }
      const { id } = (await ask('member', 'POST', '/workflows', { name: 'w', definition })).body
      await save('memory_get', 'member', false)
      const run = await ask('member', 'POST', `/workflows/${id}/execute?wait=0`, {})
      expect([run.status, run.body.error.code]).toEqual([403, 'run_denied'])
      const preview = (who: Who) => ask(who, 'POST', `/workflows/${id}/authorization-preview`, {})
      expect((await preview('member')).body).toMatchObject({
        executable: false,
        steps: [
          { verdict: 'deny', role_policy: { certainty: 'definite', reason: 'tool blocked for role member' } },
        ],
      })
      // A viewer may use the tool, but a member wrote the step.
      expect((await preview('viewer')).body.executable).toBe(false)
    })

    test('are audited', async () => {
      await save('Bash', 'auditor', true)
      await owner('DELETE', `${overrides}/Bash?role=auditor`)
      for (const event of ['role_override.created', 'role_override.deleted']) {
        const { events } = (await owner('GET', `/governance/audit?event_type=${event}`)).body
        expect(events[0].metadata).toMatchObject({ tool_name: 'Bash', role: 'auditor', allowed: true })
      }
    })

    const body = { tool_name: 'Bash', role: 'member', allowed: false }
    test.each<[string, object, string]>([
      ['an unknown tool', { ...body, tool_name: 'Bsah' }, 'tool_name'],
      ['a glob', { ...body, tool_name: 'B*' }, 'tool_name'],
      ['a role in capitals', { ...body, role: 'Member' }, 'role'],
      ['a look-alike role', { ...body, role: 'mеmber' }, 'role'],
      ['a role with white space', { ...body, role: 'member ' }, 'role'],
      ['an empty role', { ...body, role: '' }, 'role'],
      ['a long role', { ...body, role: 'x'.repeat(65) }, 'role'],
      ['a list of roles', { ...body, role: ['member'] }, 'role'],
      ['`allowed: null`', { ...body, allowed: null }, 'allowed'],
      ['no `allowed`', { tool_name: 'Bash', role: 'member' }, 'allowed'],
      ['limits', { ...body, restrictions: { read_only: true } }, 'restrictions'],
    ])('%s is 422 with its path, and nothing is saved', async (_, wrong, path) => {
      const answer = await owner('POST', overrides, wrong)
      expect([answer.status, answer.body.error.code]).toEqual([422, 'validation_error'])
      expect(answer.body.error.details.map((each: { path: string }) => each.path)).toContain(path)
      expect((await owner('GET', overrides)).body.data).toEqual([])
    })

    test('a second one for a tool and role is a conflict; DELETE needs the role', async () => {
      await save('Bash', 'member', false)
      const again = await save('Bash', 'member', true)
      expect([again.status, again.body.error.code]).toEqual([409, 'conflict'])
      expect(again.body.error.message).toContain(`\`DELETE ${organization}${overrides}/Bash?role=member\``)
      expect((await decision()).decision).toBe('deny')
      const answer = await owner('DELETE', `${overrides}/Bash`)
      expect([answer.status, answer.body.error.details[0].path]).toEqual([422, 'role'])
    })
  })

  describe('limits of a tool policy', () => {
    const many = (value: (n: number) => string) => Array.from({ length: 10_000 }, (__, n) => value(n))
    test.each<[string, string, object, string]>([
      [
        'an empty list of repositories',
        'github_comment',
        { allowed_repos: [] },
        'restrictions.allowed_repos',
      ],
      [
        'a regular expression',
        'github_comment',
        { allowed_repos: ['acme/.*'] },
        'restrictions.allowed_repos.0',
      ],
      ['an owner alone', 'github_comment', { allowed_repos: ['acme'] }, 'restrictions.allowed_repos.0'],
      [
        'a link',
        'github_comment',
        { allowed_repos: ['https://github.com/a/b'] },
        'restrictions.allowed_repos.0',
      ],
      ['every repository', 'github_comment', { allowed_repos: ['*/*'] }, 'restrictions.allowed_repos.0'],
      ['`..`', 'github_comment', { allowed_repos: ['acme/..'] }, 'restrictions.allowed_repos.0'],
      [
        '10,000 repositories',
        'github_comment',
        { allowed_repos: many((n) => `a/r${n}`) },
        'restrictions.allowed_repos',
      ],
      ['a text for a list', 'github_comment', { allowed_repos: 'acme/app' }, 'restrictions.allowed_repos'],
      [
        'an empty list of channels',
        'slack_send_message',
        { allowed_channels: [] },
        'restrictions.allowed_channels',
      ],
      [
        'a name without `#`',
        'slack_send_message',
        { allowed_channels: ['general'] },
        'restrictions.allowed_channels.0',
      ],
      [
        'a channel in capitals',
        'slack_send_message',
        { allowed_channels: ['#General'] },
        'restrictions.allowed_channels.0',
      ],
      [
        'a glob of channels',
        'slack_send_message',
        { allowed_channels: ['#team-*'] },
        'restrictions.allowed_channels.0',
      ],
      [
        '10,000 channels',
        'slack_send_message',
        { allowed_channels: many((n) => `#c${n}`) },
        'restrictions.allowed_channels',
      ],
      ['a bare public suffix', 'mail_send', { allowed_domains: ['co.uk'] }, 'restrictions.allowed_domains.0'],
      [
        '10,000 domains',
        'mail_send',
        { allowed_domains: many((n) => `a${n}.example`) },
        'restrictions.allowed_domains',
      ],
      ['a length of zero', 'mail_send', { max_message_length: 0 }, 'restrictions.max_message_length'],
      ['half a character', 'mail_send', { max_message_length: 1.5 }, 'restrictions.max_message_length'],
      ['`read_only` as text', 'mail_send', { read_only: 'true' }, 'restrictions.read_only'],
      ['an unknown limit', 'mail_send', { allowed_people: ['a'] }, 'restrictions.allowed_people'],
      ['a limit of another tool', 'mail_send', { allowed_repos: ['acme/app'] }, 'restrictions.allowed_repos'],
      ['`read_only` of a tool that only reads', 'file_read', { read_only: true }, 'restrictions.read_only'],
    ])('%s is 422 with its path, and nothing is saved', async (_, tool_name, restrictions, path) => {
      const answer = await owner('POST', '/tool-policies', { tool_name, restrictions })
      expect([answer.status, answer.body.error.code]).toEqual([422, 'validation_error'])
      expect(answer.body.error.details.map((each: { path: string }) => each.path)).toContain(path)
      expect((await owner('GET', '/tool-policies')).body.data).toEqual([])
    })
  })

  test('tool-constraints has every tool with the limits of its declaration', async () => {
    const { status, body } = await ask('admin', 'GET', '/governance/tool-constraints')
    expect(status).toBe(200)
    const tools = Object.values(catalog) as ToolDeclaration[]
    expect(body.data.map((each: { tool_name: string }) => each.tool_name)).toEqual(
      tools.map(({ name }) => name).sort(),
    )
    for (const { tool_name, constraints, limits } of body.data) {
      const tool = tools.find(({ name }) => name === tool_name) as ToolDeclaration
      expect(constraints.toSorted()).toEqual(Object.keys(tool.constraints).sort())
      expect((await ask('viewer', 'GET', `/tools/${tool_name}`)).body.constraints.toSorted()).toEqual(constraints.toSorted()) // prettier-ignore
      for (const [name, params] of Object.entries(tool.constraints))
        expect(limits[name].params).toEqual(Object.keys(params))
    }
    const search = body.data.find((each: { tool_name: string }) => each.tool_name === 'github_search_code')
    expect(search.limits.allowed_repos).toMatchObject({
      params: ['repo', 'query'],
      schema: { type: 'array', minItems: 1, maxItems: 1000 },
    })
    expect((await ask('member', 'GET', '/governance/tool-constraints')).status).toBe(403)
  })
})

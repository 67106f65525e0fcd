import { afterEach, describe, expect, it, test } from '@jest/globals'
import { catalog } from '../../../src/tools/index.ts'
import type { ToolDeclaration } from '../../../src/tools/kit/tool.ts'
import type { BootstrapName } from '../../../src/governance/people/bootstrap.ts'
import { addOrganization, aLabelRule, aRule } from '../fixtures.ts'
import type { TestServer } from '../server.ts'
import { codeOf, placesOf, useServer } from '../use-server.ts'

/* Saving rules, label rules and policies of tools, as callers see it: routes, codes and messages. */

let server: TestServer
const { as, ours } = useServer((started) => (server = started), { SMTP_URL: 'smtp://127.0.0.1:9' })

const ask = (method: string, path: string, body?: unknown) => ours('admin', method, path, body)
let counter = 0
const named = (body: object) => ({ ...body, name: `rule ${(counter += 1)}` })
const invalid = '422 validation_error'
/** Expects that the body is refused, and returns the issues. */
async function refused(path: string, body: object): Promise<{ path: string; message: string }[]> {
  const answer = await ask('POST', path, body)
  expect(codeOf(answer)).toBe(invalid)
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
      expect(codeOf(answer)).toBe(invalid)
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
    for (const tool of ['jira_*', 'WebFetch', 'mcp__crm__send', 'mcp__*'])
      expect((await ask('POST', `/${path}`, named({ ...fields, tools: [tool] }))).status).toBe(201)
  })
})

describe('saved rules', () => {
  it('`GET /rule-templates` offers inactive rules, and each can be saved as it is', async () => {
    const { status, body } = await as('admin', 'GET', '/api/v1/rule-templates')
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
    for (const [path, body, place] of [
      ['/label-rules', named({ add_labels: ['PII'] }), 'add_labels.0'],
      ['/rules', named({ verdict: 'deny', labels: { any_of: ['Top Secret'] } }), 'labels.any_of.0'],
      ['/rules', withParam({ operator: 'from_label', value: ['PII'] }), 'params.0.value.0'],
    ] as const)
      expect((await refused(path, body))[0]?.path).toBe(place)
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

describe('lists without an order of time', () => {
  /** All pages of `path`, each with at most `limit` items. */
  async function pages(path: string, limit: number, key = server.identities.users.admin.api_key) {
    const found: object[][] = []
    for (let after: string | null = ''; after !== null;) {
      const { status, body } = await server.call(key, 'GET', `${path}?limit=${limit}${after}`)
      expect(status).toBe(200)
      found.push(body.data)
      after = body.next_cursor === null ? null : `&cursor=${body.next_cursor}`
    }
    return found
  }

  it('`GET /rule-templates` has pages', async () => {
    const [whole, split] = [
      await pages('/api/v1/rule-templates', 200),
      await pages('/api/v1/rule-templates', 2),
    ]
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
    const found = (await pages(path, 2, owner.key)).flat() as { tool_name: string; role: string | null }[]
    expect(found.map(({ tool_name, role }) => `${tool_name} ${role ?? ''}`)).toEqual(wanted)
    expect(codeOf(await server.call(owner.key, 'GET', `${path}?cursor=eHh4`))).toBe(invalid)
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

describe('policies', () => {
  const owner = (method: string, path: string, body?: unknown) => ours('owner', method, path, body)
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
      const cursor = encodeURIComponent(first.body.next_cursor)
      const second = await owner('GET', `${overrides}?limit=2&cursor=${cursor}`)
      expect([...first.body.data, ...second.body.data]).toMatchObject([
        { tool_name: 'Agent', role: 'viewer', members: 1 },
        custom.body,
        made.body,
      ])
      expect((await owner('DELETE', `${overrides}/Bash?role=release-manager`)).status).toBe(204)
      expect((await owner('DELETE', `${overrides}/Bash?role=release-manager`)).status).toBe(404)
      expect((await ours('admin', 'GET', overrides)).body.data).toHaveLength(2)
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
      const { id } = (await as('member', 'POST', '/workflows', { name: 'w', definition })).body
      await save('memory_get', 'member', false)
      expect(codeOf(await as('member', 'POST', `/workflows/${id}/execute?wait=0`, {}))).toBe('403 run_denied')
      const preview = (who: BootstrapName) => as(who, 'POST', `/workflows/${id}/authorization-preview`, {})
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
      expect(codeOf(answer)).toBe(invalid)
      expect(placesOf(answer)).toContain(path)
      expect((await owner('GET', overrides)).body.data).toEqual([])
    })

    test('a second one for a tool and role is a conflict; DELETE needs the role', async () => {
      await save('Bash', 'member', false)
      const again = await save('Bash', 'member', true)
      expect(codeOf(again)).toBe('409 conflict')
      expect(again.body.error.message).toContain(
        `\`DELETE /organizations/${server.identities.organization_id}${overrides}/Bash?role=member\``,
      )
      expect((await decision()).decision).toBe('deny')
      const answer = await owner('DELETE', `${overrides}/Bash`)
      expect([answer.status, answer.body.error.details[0].path]).toEqual([422, 'role'])
    })
  })

  describe('limits of a tool policy', () => {
    const many = (value: (n: number) => string) => Array.from({ length: 10_000 }, (__, n) => value(n))
    test.each<[string, string, string, unknown]>([
      ['an empty list of repositories', 'github_comment', 'allowed_repos', []],
      ['a regular expression', 'github_comment', 'allowed_repos.0', ['acme/.*']],
      ['an owner alone', 'github_comment', 'allowed_repos.0', ['acme']],
      ['a link', 'github_comment', 'allowed_repos.0', ['https://github.com/a/b']],
      ['every repository', 'github_comment', 'allowed_repos.0', ['*/*']],
      ['`..`', 'github_comment', 'allowed_repos.0', ['acme/..']],
      ['10,000 repositories', 'github_comment', 'allowed_repos', many((n) => `a/r${n}`)],
      ['a text for a list', 'github_comment', 'allowed_repos', 'acme/app'],
      ['an empty list of channels', 'slack_send_message', 'allowed_channels', []],
      ['a name without `#`', 'slack_send_message', 'allowed_channels.0', ['general']],
      ['a channel in capitals', 'slack_send_message', 'allowed_channels.0', ['#General']],
      ['a glob of channels', 'slack_send_message', 'allowed_channels.0', ['#team-*']],
      ['10,000 channels', 'slack_send_message', 'allowed_channels', many((n) => `#c${n}`)],
      ['a bare public suffix', 'mail_send', 'allowed_domains.0', ['co.uk']],
      ['10,000 domains', 'mail_send', 'allowed_domains', many((n) => `a${n}.example`)],
      ['a length of zero', 'mail_send', 'max_message_length', 0],
      ['half a character', 'mail_send', 'max_message_length', 1.5],
      ['`read_only` as text', 'mail_send', 'read_only', 'true'],
      ['an unknown limit', 'mail_send', 'allowed_people', ['a']],
      ['a limit of another tool', 'mail_send', 'allowed_repos', ['acme/app']],
      ['`read_only` of a tool that only reads', 'file_read', 'read_only', true],
    ])('%s is 422 with its path, and nothing is saved', async (_, tool_name, path, value) => {
      const restrictions = { [path.replace('.0', '')]: value }
      const answer = await owner('POST', '/tool-policies', { tool_name, restrictions })
      expect(codeOf(answer)).toBe(invalid)
      expect(placesOf(answer)).toContain(`restrictions.${path}`)
      expect((await owner('GET', '/tool-policies')).body.data).toEqual([])
    })
  })

  test('tool-constraints has every tool with the limits of its declaration', async () => {
    const { status, body } = await as('admin', 'GET', '/governance/tool-constraints')
    expect(status).toBe(200)
    const tools = Object.values(catalog) as ToolDeclaration[]
    expect(body.data.map((each: { tool_name: string }) => each.tool_name)).toEqual(
      tools.map(({ name }) => name).sort(),
    )
    for (const { tool_name, constraints, limits } of body.data) {
      const tool = tools.find(({ name }) => name === tool_name) as ToolDeclaration
      expect(constraints.toSorted()).toEqual(Object.keys(tool.constraints).sort())
      expect((await as('viewer', 'GET', `/tools/${tool_name}`)).body.constraints.toSorted()).toEqual(constraints.toSorted()) // prettier-ignore
      for (const [name, params] of Object.entries(tool.constraints))
        expect(limits[name].params).toEqual(Object.keys(params))
    }
    const search = body.data.find((each: { tool_name: string }) => each.tool_name === 'github_search_code')
    expect(search.limits.allowed_repos).toMatchObject({
      params: ['repo', 'query'],
      schema: { type: 'array', minItems: 1, maxItems: 1000 },
    })
    expect((await as('member', 'GET', '/governance/tool-constraints')).status).toBe(403)
  })
})

import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals'
import { catalog } from '../../src/catalog/index.ts'
import type { ToolDeclaration } from '../../src/catalog/tool.ts'
import { startTestServer, type TestServer } from './server.ts'

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
    ['an empty list of repositories', 'github_comment', { allowed_repos: [] }, 'restrictions.allowed_repos'],
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

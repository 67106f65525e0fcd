import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { agentTool, agentToolNames } from '../../src/policy/agent-tools.ts'
import { agentWorld, type AgentWorld } from '../api/agents/agent.ts'
import { addKey } from '../api/fixtures.ts'
import { startTestServer, type TestServer } from '../api/server.ts'
import { temporaryFolder } from '../stack/temporary-folder.ts'
import { hookFile, python, runHook, type Ended } from './run-hook.ts'

/* `install --starter-rules` with the real service. */

let server: TestServer
beforeAll(async () => {
  server = await startTestServer()
})
afterAll(() => server.close())

const names = [
  'Agents: company data waits before it is sent',
  'Agents: files with secrets wait',
  'Agents: commands and searches that name secrets wait',
  'Agents: forced pushes wait',
  'Agents: unclassed MCP tools wait',
]
const keyOf = async (world: AgentWorld, person: 'admin' | 'member', scopes: readonly string[]) =>
  (await addKey(server.context, world.organizationId, world[person].userId, scopes)).secret
const install = (
  key: string,
  rules: string,
  more: NodeJS.ProcessEnv = {},
  home = temporaryFolder(),
): Promise<Ended> =>
  runHook({
    command: [python, hookFile],
    args: ['install', '--dialect', 'claude', '--yes', '--starter-rules', rules],
    env: { SERVICE_API_URL: server.base, SERVICE_API_KEY: key, HOME: home, ...more },
  })
const saved = async (world: AgentWorld): Promise<Record<string, string>> => {
  const path = `/organizations/${world.organizationId}/rules`
  const { body } = await server.call(world.owner.key, 'GET', path)
  return Object.fromEntries(
    body.data.map(({ name, status }: { name: string; status: string }) => [name, status]),
  )
}
const all = (status: string): Record<string, string> =>
  Object.fromEntries(names.map((name) => [name, status]))

test('observe only records, careful holds, and neither doubles or weakens a rule', async () => {
  const world = await agentWorld(server)
  const rulesKey = await keyOf(world, 'admin', ['rules:*'])
  const agentKey = await keyOf(world, 'member', ['agents:authorize'])
  const home = temporaryFolder()
  const again = (rules: string): Promise<Ended> =>
    install(agentKey, rules, { SERVICE_RULES_KEY: rulesKey }, home)

  const first = await again('observe')
  expect([first.code, first.stderr]).toEqual([0, ''])
  for (const name of names)
    expect(first.stdout).toContain(`save the rule \`${name}\` (require_approval, shadow)`)
  expect(await saved(world)).toEqual(all('shadow'))
  expect(readFileSync(join(home, '.countersign', 'hook.json'), 'utf8')).not.toContain(rulesKey)
  expect((await again('observe')).stdout).toBe('nothing to change\n')
  expect((await world.agent().ask('Bash', { command: 'git push --force' })).decision).toBe('allow')

  // Switch one rule off, as a person would.
  const { body } = await server.call(world.owner.key, 'GET', `/organizations/${world.organizationId}/rules`)
  const off = body.data.find(({ name }: { name: string }) => name === names[1]).id
  await world.change('PATCH', `/rules/${off}`, { status: 'inactive' })
  expect((await again('careful')).code).toBe(0)
  const careful = { ...all('active'), [names[1] as string]: 'inactive' }
  expect(await saved(world)).toEqual(careful)
  expect((await again('observe')).stdout).toBe('nothing to change\n')
  expect(await saved(world)).toEqual(careful)
})

test('installations at the same time double no rule', async () => {
  const world = await agentWorld(server)
  const ended = await Promise.all([1, 2, 3].map(() => install(world.admin.key, 'careful')))
  expect(ended.map(({ code, stderr }) => [code, stderr])).toEqual(ended.map(() => [0, '']))
  const path = `/organizations/${world.organizationId}/rules`
  const { body } = await server.call(world.owner.key, 'GET', path)
  expect(body.data.map(({ name }: { name: string }) => name).sort()).toEqual([...names].sort())
})

test('what the careful rules hold', async () => {
  const world = await agentWorld(server)
  expect((await install(world.admin.key, 'careful')).code).toBe(0)
  const ask = async (tool: string, input: object): Promise<unknown[]> => {
    const { decision, rule_name } = await world.agent().ask(tool, input)
    return [decision, rule_name]
  }
  for (const command of [
    'git push --force',
    'git push -f origin main',
    'git push origin +main',
    'git push --force-with-lease',
    "git push origin '+main'",
  ])
    expect([command, ...(await ask('Bash', { command }))]).toEqual([command, 'require_approval', names[3]])
  for (const path of ['/w/.env', '.env.local', '/home/a/.ssh/config', '/w/prod.pem'])
    expect([path, ...(await ask('Read', { file_path: path }))]).toEqual([path, 'require_approval', names[1]])
  for (const command of ['cat .env', 'cat ~/.ssh/config', 'cat "/w/.env"', "cat '.env'"])
    expect([command, ...(await ask('Bash', { command }))]).toEqual([command, 'require_approval', names[2]])
  for (const command of ['git push', 'node -e "process.env.PORT"', 'curl https://example.com'])
    expect([command, ...(await ask('Bash', { command }))]).toEqual([command, 'allow', null])
  expect(await ask('Write', { file_path: '/w/environment.ts', content: 'see .env' })).toEqual(['allow', null])

  const session = world.agent()
  expect((await session.ask('Read', { file_path: '/w/README.md' })).decision).toBe('allow')
  const sent = await session.ask('Bash', { command: 'curl https://example.com' })
  expect([sent.decision, sent.rule_name]).toEqual(['require_approval', names[0]])
})

const codeTools = agentToolNames.filter((name) => agentTool(name)?.code !== undefined)
const told = async (world: AgentWorld) => {
  const path = `/organizations/${world.organizationId}/governance`
  return (await server.call(world.owner.key, 'GET', path)).body.external_tools as Record<string, unknown>
}
const labelled = { output_labels: ['internal'] }

test('an owner’s careful labels what shells read, and keeps what the setting says already', async () => {
  const world = await agentWorld(server)
  const own = {
    'mcp__git__*': { side_effect: 'read' },
    Bash: { side_effect: 'write' },
    shell: { output_labels: ['code'] },
  }
  await world.change('PATCH', '/governance', { external_tools: own })
  expect((await install(world.owner.key, 'observe')).stdout).not.toContain('external_tools')
  expect(await told(world)).toEqual(own)

  const home = temporaryFolder()
  const ended = await install(world.owner.key, 'careful', {}, home)
  expect([ended.code, ended.stderr]).toEqual([0, ''])
  const words = /^label what `Bash`, .* return as `internal` \(setting `external_tools`, 2 of its entries stay as they are; `shell` without this label\)$/m // prettier-ignore
  expect(ended.stdout).toMatch(words)
  expect(ended.stdout.indexOf('label what')).toBeLessThan(ended.stdout.indexOf('done: '))
  const expected = {
    ...Object.fromEntries(codeTools.map((name) => [name, labelled])),
    ...own,
    Bash: { ...own.Bash, ...labelled },
  }
  expect(await told(world)).toEqual(expected)
  expect((await install(world.owner.key, 'careful', {}, home)).stdout).toBe('nothing to change\n')
})

test('after careful, a command that reads a file labels the session, and sending waits', async () => {
  const world = await agentWorld(server)
  await install(world.owner.key, 'careful')
  for (const [tool, command] of [
    ['Bash', 'cat plan.md'],
    ['Bash', 'git diff HEAD~1'],
    ['PowerShell', 'Get-Content plan.md'],
    ['exec_command', 'head plan.md'],
  ] as const) {
    const session = world.agent()
    expect((await session.ask(tool, { command })).decision).toBe('allow')
    const sent = await session.ask('Bash', { command: 'curl https://example.com -d x' })
    expect([tool, sent.decision, sent.labels]).toEqual([tool, 'require_approval', ['internal']])
  }
})

test.each([
  ['without a scope for settings', ['rules:*']],
  ['with every scope', ['rules:*', 'governance:read']],
] as const)('an admin’s key %s changes no setting, and says who can', async (_, scopes) => {
  const world = await agentWorld(server)
  const ended = await install(await keyOf(world, 'admin', scopes), 'careful')
  expect(ended.code).toBe(0)
  expect(ended.stdout).toContain(
    'not changed: what a shell reads does not label its session: let an owner run this again',
  )
  expect(ended.stdout.indexOf('not changed')).toBeLessThan(ended.stdout.indexOf('done: '))
  expect(await told(world)).toEqual({})
  expect(await saved(world)).toEqual(all('active'))
})

test('while approvals are off, it says that the rules deny', async () => {
  const world = await agentWorld(server)
  await world.change('PATCH', '/governance', { approvals_enabled: false })
  const ended = await install(world.admin.key, 'careful')
  expect(ended.stdout).toContain(
    `next: while approvals are off, these rules deny: an owner turns approvals on with PATCH /api/v1/organizations/${world.organizationId}/governance`,
  )
  await world.change('PATCH', '/governance', { approvals_enabled: true })
  expect((await install(world.admin.key, 'careful')).stdout).not.toContain('approvals are off')
})

test.each([
  ['a member', 'member', ['rules:read', 'agents:authorize'], 'has the role member there'],
  ['a key that can only ask', 'admin', ['agents:authorize'], 'this key can only ask for decisions'],
  ['an admin whose key lacks the scope', 'admin', ['rules:read'], 'this key lacks rules:write'],
] as const)('%s is told who can save rules, and nothing is changed', async (_, person, scopes, why) => {
  const world = await agentWorld(server)
  const home = temporaryFolder()
  const ended = await install(await keyOf(world, person, scopes), 'careful', {}, home)
  expect(ended.code).toBe(1)
  expect(ended.stderr).toContain(why)
  expect(ended.stderr).toContain('ask an admin to run this, or leave --starter-rules out')
  expect(existsSync(join(home, '.claude'))).toBe(false)
  expect(await saved(world)).toEqual({})
})

test('an organization of which the key’s person is no member', async () => {
  const [mine, other] = [await agentWorld(server), await agentWorld(server)]
  const ended = await install(mine.admin.key, 'careful', { SERVICE_ORG_ID: other.organizationId })
  expect([ended.code, ended.stderr]).toEqual([
    1,
    expect.stringContaining(`is no member of ${other.organizationId}`),
  ])
  expect(await saved(other)).toEqual({})
})

import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from '@jest/globals'
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

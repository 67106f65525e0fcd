import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { temporaryFolder } from '../stack/temporary-folder.ts'
import { hookFile, python, runHook, type Ended } from './run-hook.ts'
import { allowed, denied, reply, scriptedService, type ScriptedService } from './scripted-service.ts'

/* Tests `install` with the settings of every client: in a home folder, and below the root folder of a machine image. */

const organization = 'org_00000000000000000000000001'
let service: ScriptedService
let home: string
let env: NodeJS.ProcessEnv
beforeAll(async () => {
  service = await scriptedService(() => {})
})
beforeEach(() => {
  service.asked.length = 0
  service.script = (asked, socket) => {
    if (asked.path === '/api/v1/me') return reply(socket, 200, { scopes: { 'agents:authorize': true } })
    if (asked.path !== '/api/v1/authorize') return reply(socket, 404, {})
    const stranger = asked.body.includes('"organization_id":"org_0000')
    reply(socket, 200, stranger ? { ...denied, rule_name: null, reason: 'another organization' } : allowed)
  }
  home = temporaryFolder()
  env = { SERVICE_API_URL: service.url, SERVICE_API_KEY: 'csk_secret', HOME: home }
})
afterAll(() => service.close())

const run = (...args: string[]): Promise<Ended> => runHook({ command: [python, hookFile], args, env })
const install = (dialect: string, ...more: string[]): Promise<Ended> =>
  run('install', '--dialect', dialect, '--yes', ...more)
const files: Readonly<Record<string, string>> = {
  claude: '.claude/settings.json',
  codex: '.codex/hooks.json',
  gemini: '.gemini/settings.json',
  copilot: '.copilot/hooks/countersign.json',
  cursor: '.cursor/hooks.json',
}
const managed: Readonly<Record<string, string>> = {
  claude: '/etc/claude-code/managed-settings.json',
  codex: '/etc/codex/requirements.toml',
  gemini: '/etc/gemini-cli/settings.json',
  copilot: '/etc/github-copilot/policy.d/countersign.json',
  cursor: '/etc/cursor/hooks.json',
}
const clients = Object.keys(files)

type Entry = Record<string, unknown> & { hooks?: Record<string, unknown>[] }
type Settings = Record<string, unknown> & { hooks: Record<string, Entry[]> }
const read = (path: string): Settings => JSON.parse(readFileSync(path, 'utf8')) as Settings

/** The text of every file below a folder, except compiled Python. */
function tree(folder: string): Record<string, string> {
  const names = readdirSync(folder, { recursive: true, withFileTypes: true })
  const paths = names.filter((each) => each.isFile()).map((each) => join(each.parentPath, each.name))
  return Object.fromEntries(paths.map((path) => [path.slice(folder.length), readFileSync(path, 'utf8')]))
}

describe.each(clients)('%s', (client) => {
  const file = (): string => join(home, files[client] as string)

  test('writes the hook with its timeout and its fail-closed options', async () => {
    const ended = await install(client)
    expect(ended.code).toBe(0)
    const { hooks } = read(file())
    const [pre, post, end] = Object.values(hooks).map(([entry]) => entry?.hooks?.[0] ?? entry)
    const last = Object.values(hooks).at(-1)?.[0]
    const limit = (entry: Entry | undefined): unknown => entry?.['timeoutSec'] ?? entry?.['timeout']
    const unit = client === 'gemini' ? 1000 : 1
    expect([limit(pre), limit(post), limit(last?.hooks?.[0] ?? last)]).toEqual([
      90 * unit,
      15 * unit,
      2 * unit,
    ])
    expect(end).toBeDefined()
    const line = String(pre?.['bash'] ?? pre?.['command'])
    expect(line).toContain(
      `service_hook.py pre --dialect ${client} --timeout 90 --config ${home}/.countersign/hook.json`,
    )
    expect(pre?.['onFailure']).toBe(client === 'claude' ? 'block' : undefined)
    expect(pre?.['failClosed']).toBe(client === 'cursor' ? true : undefined)
    if (client === 'gemini') expect(read(file())['hooksConfig']).toEqual({ enabled: true })
  })

  test('shows the changes first, without the key', async () => {
    const ended = await install(client)
    expect(ended.stdout).toContain(`+++ ${file()}`)
    expect(ended.stdout).toContain('"api_key": "(not shown)"')
    expect(ended.stdout + ended.stderr).not.toContain('csk_secret')
  })

  test('stores the key where only its owner can read it', async () => {
    await install(client)
    const config = join(home, '.countersign', 'hook.json')
    expect(read(config)).toEqual({ api_url: service.url, api_key: 'csk_secret' })
    expect(statSync(config).mode & 0o777).toBe(0o600)
    expect(statSync(dirname(config)).mode & 0o777).toBe(0o700)
    expect(readFileSync(file(), 'utf8')).not.toContain('csk_secret')
  })

  test('a second run changes nothing', async () => {
    await install(client)
    const before = tree(home)
    expect((await install(client)).stdout).toBe('nothing to change\n')
    expect(tree(home)).toEqual(before)
  })

  test('after removal nothing of it is left', async () => {
    await install(client)
    expect((await install(client, '--uninstall')).code).toBe(0)
    expect(tree(home)).toEqual({})
  })

  test('the installed command blocks, and lets allowed calls pass', async () => {
    await install(client)
    const pre = Object.values(read(file()).hooks)[0]?.[0]
    const line = String(pre?.hooks?.[0]?.['command'] ?? pre?.['bash'] ?? pre?.['command'])
    const command = ['sh', '-c', line]
    const event = {
      session_id: 's',
      conversation_id: 's',
      sessionId: 's',
      tool_name: 'Bash',
      toolName: 'bash',
    }
    expect(await runHook({ command, env: {}, event })).toMatchObject({ code: 0, stderr: '' })
    expect(await runHook({ command, env: {}, event: 'nonsense' })).toMatchObject({ code: 2 })
    // Python exits with 1 after a syntax error, but no client treats 1 as a deny. The command must therefore turn it
    // into 2.
    writeFileSync(join(home, '.countersign', 'service_hook.py'), 'def main(:')
    const broken = await runHook({ command, env: {}, event })
    expect(broken.code).toBe(2)
    expect(broken.stderr).toContain('policy hook failed (rc=1); call refused')
  })

  test('managed: below the root of an image, without a key', async () => {
    const root = temporaryFolder()
    env = { ...env, SERVICE_ORG_ID: organization }
    expect((await install(client, '--managed', '--root', root)).code).toBe(0)
    const settings = readFileSync(join(root, managed[client] as string), 'utf8')
    // Claude Code's hook is started without a shell; see test/clients/attacks.
    expect(settings.replace(/",\s+"/g, ' ')).toContain('/opt/countersign/service_hook.py pre')
    expect(settings).not.toContain(root)
    expect(read(join(root, '/opt/countersign/hook.json'))).toEqual({
      api_url: service.url,
      organization_id: organization,
      api_key_file: '~/.countersign/key',
    })
    if (client === 'claude') {
      expect(JSON.parse(settings)).toMatchObject({
        requiredMinimumVersion: '2.1.295',
        allowManagedHooksOnly: true,
        disableSkillShellExecution: true,
      })
    }
    if (client === 'codex') expect(settings).toMatch(/^unified_exec = false {2}# countersign$/m)
    if (client === 'copilot') {
      const policy = read(join(root, '/etc/github-copilot/managed-settings.json'))
      expect(policy).toEqual({ allowManagedHooksOnly: true })
      // A shell would obey variables such as BASH_ENV.
      for (const [entry] of Object.values(read(join(root, managed[client] as string)).hooks)) {
        expect(entry).toEqual(
          expect.objectContaining({ exec: expect.stringMatching(/^\/.*python3/), args: expect.any(Array) }),
        )
        expect(entry).not.toHaveProperty('bash')
      }
    }
    if (client === 'gemini') {
      expect(JSON.parse(settings)).toMatchObject({
        hooksConfig: [],
        security: { environmentVariableRedaction: { enabled: true, allowed: [] } },
        hooks: {
          BeforeTool: [
            { sequential: true, hooks: [{ name: expect.stringMatching(/^countersign-\w{16}$/) }] },
          ],
        },
      })
    }
    expect((await install(client, '--managed', '--root', root)).stdout).toBe('nothing to change\n')
    expect((await install(client, '--managed', '--root', root, '--uninstall')).code).toBe(0)
    expect(tree(root)).toEqual({})
  })
})

test.each([
  ['claude', 'CLAUDE_CONFIG_DIR', 'settings.json'],
  ['codex', 'CODEX_HOME', 'hooks.json'],
  ['gemini', 'GEMINI_CLI_HOME', '.gemini/settings.json'],
  ['copilot', 'COPILOT_HOME', 'hooks/countersign.json'],
])('%s: the settings are in the folder that %s names', async (client, variable, file) => {
  env = { ...env, [variable]: join(home, 'other') }
  expect((await install(client)).code).toBe(0)
  expect(readFileSync(join(home, 'other', file), 'utf8')).toContain('service_hook.py')
  expect(existsSync(join(home, files[client] ?? ''))).toBe(false)
  const says = `${client}: the installed command blocks`
  expect((await run('doctor', '--dialect', client)).stdout).toContain(says)
  env = { ...env, [variable]: join(home, 'empty') }
  expect((await run('doctor', '--dialect', client)).stdout).toMatch(/\nNOT protected\n$/)
})

test('without --yes and nobody to ask nothing is written', async () => {
  const ended = await run('install', '--dialect', 'claude')
  expect(ended).toMatchObject({ code: 1 })
  expect(ended.stderr).toContain('--yes')
  expect(tree(home)).toEqual({})
})

test.each([
  ['no address', { SERVICE_API_URL: '' }, 'SERVICE_API_URL'],
  ['no key', { SERVICE_API_KEY: '' }, 'SERVICE_API_KEY'],
  ['http to another machine', { SERVICE_API_URL: 'http://c.example' }, 'https'],
])('%s: nothing is written', async (_name, wrong, says) => {
  env = { ...env, ...wrong }
  const ended = await install('claude')
  expect(ended.code).toBe(1)
  expect(ended.stderr).toContain(says)
  expect(tree(home)).toEqual({})
})

test('for everybody, the organization must be named', async () => {
  const root = temporaryFolder()
  const ended = await install('claude', '--managed', '--root', root)
  expect(ended.code).toBe(1)
  expect(ended.stderr).toContain('SERVICE_ORG_ID is not set: with --managed set it')
  expect(tree(root)).toEqual({})
})

test('two clients share the hook; removing the first leaves it for the other', async () => {
  await install('claude')
  await install('gemini')
  await install('claude', '--uninstall')
  expect(existsSync(join(home, '.countersign', 'service_hook.py'))).toBe(true)
  await install('gemini', '--uninstall')
  expect(tree(home)).toEqual({})
})

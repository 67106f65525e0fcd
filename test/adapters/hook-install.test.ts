import {
  existsSync,
  readdirSync,
  readFileSync,
  statSync,
  writeFileSync,
  chmodSync,
  mkdirSync,
  symlinkSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { beforeEach, describe, expect, test } from '@jest/globals'
import { temporaryFolder } from '../stack/temporary-folder.ts'
import { hookFile, python, runHook, type Ended } from './run-hook.ts'
import { allowed, denied, reply, type ScriptedService } from './scripted-service.ts'
import { useService } from './use-service.ts'

/* `install` for every client: in a home folder, and below the root folder of a machine image. */

const organization = 'org_00000000000000000000000001'
let service: ScriptedService
let home: string
let env: NodeJS.ProcessEnv
useService(
  (started) => (service = started),
  ({ path, body }, socket) => {
    if (path === '/api/v1/me') return reply(socket, 200, { scopes: { 'agents:authorize': true } })
    if (path !== '/api/v1/authorize') return reply(socket, 404, {})
    const stranger = body.includes('"organization_id":"org_0000')
    reply(socket, 200, stranger ? { ...denied, rule_name: null, reason: 'another organization' } : allowed)
  },
)
beforeEach(() => {
  home = temporaryFolder()
  env = { SERVICE_API_URL: service.url, SERVICE_API_KEY: 'csk_secret', HOME: home }
})

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

  test('writes the hook with its timeout and its fail-closed options, once, and its removal leaves nothing', async () => {
    const ended = await install(client)
    expect(ended.code).toBe(0)
    const { hooks } = read(file())
    const [pre, post, end] = Object.values(hooks).map(([entry]) => entry?.hooks?.[0] ?? entry)
    const last = Object.values(hooks).at(-1)?.[0]
    const limit = (entry: Entry | undefined): unknown => entry?.['timeoutSec'] ?? entry?.['timeout']
    const unit = client === 'gemini' ? 1000 : 1
    const limits = [limit(pre), limit(post), limit(last?.hooks?.[0] ?? last)]
    expect(limits).toEqual([90 * unit, 15 * unit, 2 * unit])
    expect(end).toBeDefined()
    const line = String(pre?.['bash'] ?? pre?.['command'])
    expect(line).toContain(
      `service_hook.py pre --dialect ${client} --timeout 90 --config ${home}/.countersign/hook.json`,
    )
    expect(pre?.['onFailure']).toBe(client === 'claude' ? 'block' : undefined)
    expect(pre?.['failClosed']).toBe(client === 'cursor' ? true : undefined)
    if (client === 'gemini') expect(read(file())['hooksConfig']).toEqual({ enabled: true })
    // The output shows the changes without the key. Only the owner can read where the key is.
    expect(ended.stdout).toContain(`+++ ${file()}`)
    expect(ended.stdout).toContain('"api_key": "(not shown)"')
    expect(ended.stdout + ended.stderr).not.toContain('csk_secret')
    const config = join(home, '.countersign', 'hook.json')
    expect(read(config)).toEqual({ api_url: service.url, api_key: 'csk_secret' })
    expect(statSync(config).mode & 0o777).toBe(0o600)
    expect(statSync(dirname(config)).mode & 0o777).toBe(0o700)
    expect(readFileSync(file(), 'utf8')).not.toContain('csk_secret')
    const before = tree(home)
    expect((await install(client)).stdout).toBe('nothing to change\n')
    expect(tree(home)).toEqual(before)
    expect((await install(client, '--uninstall')).code).toBe(0)
    expect(tree(home)).toEqual({})
  })

  test('the installed command blocks, and lets allowed calls pass', async () => {
    await install(client)
    const pre = Object.values(read(file()).hooks)[0]?.[0]
    const line = String(pre?.hooks?.[0]?.['command'] ?? pre?.['bash'] ?? pre?.['command'])
    const command = ['sh', '-c', line]
    const names = { tool_name: 'Bash', toolName: 'bash' }
    const event = { session_id: 's', conversation_id: 's', sessionId: 's', ...names }
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
        pluginConfigs: { 'cc-plugin-sec-default@builtin': { options: { allowManagedModsOnly: true } } },
      })
    }
    if (client === 'codex') expect(settings).toMatch(/^unified_exec = false {2}# countersign$/m)
    if (client === 'copilot') {
      const policy = read(join(root, '/etc/github-copilot/managed-settings.json'))
      expect(policy).toEqual({ allowManagedHooksOnly: true })
      // A shell would obey variables such as BASH_ENV.
      for (const [entry] of Object.values(read(join(root, managed[client] as string)).hooks)) {
        expect(entry).toMatchObject({ exec: expect.stringMatching(/^\/.*python3/), args: expect.any(Array) })
        expect(entry).not.toHaveProperty('bash')
      }
    }
    if (client === 'gemini') {
      const name = expect.stringMatching(/^countersign-\w{16}$/)
      expect(JSON.parse(settings)).toMatchObject({
        hooksConfig: [],
        security: { environmentVariableRedaction: { enabled: true, allowed: [] } },
        hooks: { BeforeTool: [{ sequential: true, hooks: [{ name }] }] },
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

describe('settings that Claude Code has already', () => {
  beforeEach(() => {
    env = { ...env, SERVICE_ORG_ID: organization }
  })
  const change = (...more: string[]): Promise<Ended> => install('claude', ...more)
  const place = (path: string, settings: unknown): string => {
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(path, typeof settings === 'string' ? settings : JSON.stringify(settings))
    return path
  }

  const mine = { matcher: 'Bash', hooks: [{ type: 'command', command: 'mine' }] }
  const settings = {
    model: 'opus',
    hooks: { PreToolUse: [mine], Stop: [mine] },
    permissions: { deny: ['Read(.env)'] },
    nothing: null,
  }
  const path = (): string => join(home, '.claude', 'settings.json')

  test('existing settings keep their order, hooks and permissions; a copy is kept', async () => {
    const text = JSON.stringify(settings)
    chmodSync(place(path(), text), 0o640)
    await change()
    const found = read(path())
    expect(Object.keys(found)).toEqual(Object.keys(settings))
    expect(found).toMatchObject({ ...settings, hooks: { Stop: [mine] } })
    expect(found.hooks['PreToolUse']?.[0]).toEqual(mine)
    expect(found.hooks['PreToolUse']).toHaveLength(2)
    expect(statSync(path()).mode & 0o777).toBe(0o640)
    expect(readFileSync(`${path()}.before-countersign`, 'utf8')).toBe(text)
  })

  test('an older entry of ours is replaced, not repeated', async () => {
    const old = { matcher: '*', hooks: [{ type: 'command', command: 'python3 /old/service_hook.py pre' }] }
    place(path(), { hooks: { PreToolUse: [old, mine] } })
    await change()
    expect(read(path()).hooks['PreToolUse']).toHaveLength(2)
    expect(readFileSync(path(), 'utf8')).not.toContain('/old/')
  })

  test('a hook that somebody added to our entry stays', async () => {
    const ours = { type: 'command', command: "sh -c 'python3 /old/service_hook.py pre'" }
    place(path(), { hooks: { PreToolUse: [{ matcher: 'Read', hooks: [ours, ...mine.hooks] }] } })
    await change()
    const [first, second, ...more] = read(path()).hooks['PreToolUse'] ?? []
    expect(more).toEqual([])
    expect(first).toEqual({ matcher: 'Read', hooks: mine.hooks })
    expect(second?.['matcher']).toBe('*')
    await change('--uninstall')
    expect(read(path()).hooks).toEqual({ PreToolUse: [{ matcher: 'Read', hooks: mine.hooks }] })
  })

  test('a weakened installation is repaired', async () => {
    await change()
    const whole = readFileSync(path(), 'utf8')
    writeFileSync(
      path(),
      whole.replace('"*"', '"Read"').replace('"block"', '"continue"').replace('90,', '9,'),
    )
    await change()
    expect(readFileSync(path(), 'utf8')).toBe(whole)
  })

  test('managed options return to their earlier values, unless somebody changed them meanwhile', async () => {
    const root = temporaryFolder()
    const file = join(root, managed['claude'] as string)
    place(file, { requiredMinimumVersion: '2.0.0', allowManagedHooksOnly: false, model: 'opus' })
    await change('--managed', '--root', root)
    place(file, { ...read(file), allowManagedHooksOnly: 'changed' })
    await change('--managed', '--root', root, '--uninstall')
    const left = { requiredMinimumVersion: '2.0.0', allowManagedHooksOnly: 'changed', model: 'opus' }
    expect(read(file)).toEqual(left)
  })

  test('a newer minimum version stays', async () => {
    const root = temporaryFolder()
    const file = place(join(root, managed['claude'] as string), { requiredMinimumVersion: '2.1.300' })
    await change('--managed', '--root', root)
    expect(read(file)).toMatchObject({ requiredMinimumVersion: '2.1.300' })
  })

  test.each([
    ['with comments', '{\n  // mine\n  "model": "opus"\n}'],
    ['that are half written', '{"model": '],
    ['that are a list', '[]'],
    ['with hooks that are a list', '{"hooks": []}'],
    ['with an event that is no list', '{"hooks": {"PreToolUse": {}}}'],
  ])('existing settings %s stay unchanged', async (_name, text) => {
    place(path(), text)
    const ended = await change()
    expect(ended.code).toBe(1)
    expect(ended.stderr).toContain('install: ')
    expect(readFileSync(path(), 'utf8')).toBe(text)
    expect(readdirSync(home, { recursive: true })).toEqual(['.claude', join('.claude', 'settings.json')])
  })

  test('settings behind a symbolic link are changed in place', async () => {
    const real = place(join(home, 'dotfiles', 'claude.json'), settings)
    mkdirSync(join(home, '.claude'))
    symlinkSync(real, path())
    await change()
    expect(read(real).hooks['PreToolUse']).toHaveLength(2)
  })
})

describe('values from the environment', () => {
  const run = (args: readonly string[], more: NodeJS.ProcessEnv = {}): Promise<Ended> =>
    runHook({ command: [python, hookFile], args: ['install', '--yes', ...args], env: { ...env, ...more } })
  const claude = ['--dialect', 'claude']
  const config = (): string => join(home, '.countersign', 'hook.json')
  const kept = () => read(config())
  const all = (): string[] => (readdirSync(home, { recursive: true }) as string[]).sort()

  describe('invalid values', () => {
    test.each([
      ['SERVICE_FAIL_MODE', 'closd', 'write `closed`'],
      ['SERVICE_FAIL_MODE', 'OPEN', 'or `open`'],
      ['SERVICE_APPROVAL_WAIT', '5 minutes', 'a number of seconds'],
      ['SERVICE_APPROVAL_WAIT', '-1', 'a number of seconds'],
      ['SERVICE_ORG_ID', 'org_...', "the organization's id"],
      ['SERVICE_ORG_ID', 'acme', "the organization's id"],
      ['SERVICE_ALLOW_HTTP', 'please', 'write 1'],
    ])('%s=%s is refused, and nothing is written', async (variable, value, says) => {
      const ended = await run(claude, { [variable]: value })
      expect(ended.code).toBe(1)
      expect(ended.stderr).toContain(`install: ${variable} is \`${value}\``)
      expect(ended.stderr).toContain(says)
      expect(all()).toEqual([])
    })

    test('an invalid value in hook.json is refused too, and the environment can replace it', async () => {
      await run(claude)
      writeFileSync(config(), JSON.stringify({ ...kept(), fail_mode: 'closd' }), { mode: 0o600 })
      expect((await run(claude)).stderr).toContain('SERVICE_FAIL_MODE is `closd`')
      expect((await run(claude, { SERVICE_FAIL_MODE: 'closed' })).code).toBe(0)
      expect(kept()).toMatchObject({ fail_mode: 'closed' })
    })
  })

  test('the output shows what an earlier install kept; an empty variable removes it', async () => {
    await run(claude, { SERVICE_APPROVAL_WAIT: '5', SERVICE_FAIL_MODE: 'open' })
    expect(kept()).toMatchObject({ approval_wait: '5', fail_mode: 'open' })
    const again = await run(claude)
    expect(again.code).toBe(0)
    expect(again.stdout).toContain('kept from an earlier install: approval_wait 5 (SERVICE_APPROVAL_WAIT)')
    expect(again.stdout).toContain('kept from an earlier install: fail_mode open (SERVICE_FAIL_MODE)')
    const reset = await run(claude, { SERVICE_APPROVAL_WAIT: '', SERVICE_FAIL_MODE: 'closed' })
    expect(reset.stdout).not.toContain('kept')
    expect(kept()).toEqual({ api_url: service.url, api_key: 'csk_secret', fail_mode: 'closed' })
  })

  test('the output says that another key replaces the first, and shows neither', async () => {
    const said = async (SERVICE_API_KEY: string): Promise<string> =>
      (await run(claude, { SERVICE_API_KEY })).stdout
    expect(await said('csk_first')).not.toContain('replaced')
    expect(await said('csk_first')).not.toContain('replaced')
    const replaced = await said('csk_second')
    expect(replaced).toContain('api_key: replaced (not shown)\n')
    expect(replaced).not.toMatch(/csk_|nothing to change/)
    expect(kept()).toMatchObject({ api_key: 'csk_second' })
  })

  test('the proxy and authorities of an earlier install stay, without showing the password, until they are set empty', async () => {
    const authority = join(home, 'authority.pem')
    writeFileSync(authority, '', { mode: 0o600 })
    const https = { SERVICE_API_URL: 'https://c.example' }
    const way = { HTTPS_PROXY: 'http://me:hidden@proxy.example:3128', SSL_CERT_FILE: authority }
    const first = await run(claude, { ...https, ...way })
    expect(first.stdout).toContain('+  "https_proxy": "(not shown)@proxy.example:3128"')
    expect(first.stdout).toContain(`+  "ca_file": "${authority}"`)
    const again = await run(claude, https)
    expect(again.stdout).toContain('https_proxy proxy.example:3128 (HTTPS_PROXY)')
    expect(again.stdout).toContain(`ca_file ${authority} (SSL_CERT_FILE)`)
    expect(again.stdout).not.toContain('hidden')
    expect(kept()).toMatchObject({ https_proxy: way.HTTPS_PROXY, ca_file: authority })
    await run(claude, { ...https, HTTPS_PROXY: '', SSL_CERT_FILE: '' })
    expect(Object.keys(kept()).sort()).toEqual(['api_key', 'api_url'])
  })

  test.each([
    [[...claude, '--root', '/image'], 'add --managed'],
    [[], '--dialect is needed'],
  ])('install %j: names the missing setting', async (args, says) => {
    const ended = await run(args, { SERVICE_API_KEY: '' })
    expect(ended.code).toBe(2)
    expect(ended.stderr).toContain(says)
    expect(ended.stderr).not.toContain('SERVICE_API_KEY')
  })

  describe('--uninstall', () => {
    const notes = (): string => join(home, '.countersign', 'ended-sessions')
    const note = (name: string): void => {
      mkdirSync(notes(), { recursive: true, mode: 0o700 })
      writeFileSync(join(notes(), name), 's')
    }

    test('without --dialect: all clients, and the notes of ended sessions', async () => {
      for (const client of [...clients, 'opencode']) await run(['--dialect', client])
      note('0123abcd-73')
      const ended = await run(['--uninstall'])
      expect(ended).toMatchObject({ code: 0, stderr: '' })
      expect(ended.stdout).toContain(`remove ${notes()}, with 1 session whose end could not be reported\n`)
      expect(all().filter((each) => /settings|hooks\.json|countersign/.test(each))).toEqual([])
      expect((await run(['--uninstall'])).stdout).toBe('nothing to change\n')
    })

    test('several notes are counted', async () => {
      await run(claude)
      note('0123abcd-73')
      note('0123abcd-74')
      const ended = await run(['--uninstall'])
      expect(ended.stdout).toContain(', with 2 sessions whose ends could not be reported\n')
    })

    test('other files beside the notes stay', async () => {
      await run(claude)
      note('mine')
      await run(['--uninstall'])
      const left = all().filter((each) => each.includes('ended-sessions/'))
      expect(left).toEqual(['.countersign/ended-sessions/mine'])
    })

    test('while another client is installed, its settings and notes stay, whatever the environment says now', async () => {
      await run(claude)
      await run(['--dialect', 'gemini'])
      note('0123abcd-73')
      const before = readFileSync(config(), 'utf8')
      await run([...claude, '--uninstall'], { SERVICE_API_URL: 'https://other.example', SERVICE_ORG_ID: 'x' })
      expect(readFileSync(config(), 'utf8')).toBe(before)
      expect(existsSync(join(notes(), '0123abcd-73'))).toBe(true)
    })

    test('an installation without a record is removed too, and unreadable settings stay unchanged', async () => {
      mkdirSync(join(home, '.cursor'))
      writeFileSync(join(home, '.cursor', 'hooks.json'), '{ // mine\n}')
      const pre = { matcher: '*', hooks: [{ command: "sh -c 'python3 /old/service_hook.py pre'" }] }
      mkdirSync(join(home, '.claude'))
      const file = join(home, '.claude', 'settings.json')
      writeFileSync(file, JSON.stringify({ model: 'opus', hooks: { PreToolUse: [pre] } }))
      expect((await run(['--uninstall'])).code).toBe(0)
      expect(JSON.parse(readFileSync(file, 'utf8'))).toEqual({ model: 'opus' })
    })

    test('is removed where it was installed, even if the client now looks elsewhere', async () => {
      const elsewhere = join(home, 'elsewhere')
      await run(claude, { CLAUDE_CONFIG_DIR: elsewhere })
      expect(existsSync(join(elsewhere, 'settings.json'))).toBe(true)
      await run(['--uninstall'])
      expect(existsSync(join(elsewhere, 'settings.json'))).toBe(false)
    })
  })
})

describe('the Python that managed settings name', () => {
  /* Every user must be able to run it, and only root to change it. */

  let root: string
  beforeEach(() => {
    root = temporaryFolder()
  })

  const own = { SERVICE_API_URL: 'http://127.0.0.1:1', SERVICE_ORG_ID: organization }
  const managedIn = (...more: string[]): Promise<Ended> => {
    const args = ['install', '--dialect', 'claude', '--managed', '--yes', '--root', root, ...more]
    return runHook({ command: [python, hookFile], args, env: own })
  }
  const settings = (): string => join(root, 'etc/claude-code/managed-settings.json')
  const named = (): string | undefined => /"command": "(\S+)"/.exec(readFileSync(settings(), 'utf8'))?.[1]

  /** Writes a program into the image, in folders that everybody can enter. */
  function program(path: string, mode = 0o755): void {
    const file = join(root, path)
    mkdirSync(dirname(file), { recursive: true, mode: 0o755 })
    writeFileSync(file, '')
    chmodSync(file, mode)
  }
  const link = (path: string, target: string): void => {
    mkdirSync(dirname(join(root, path)), { recursive: true, mode: 0o755 })
    symlinkSync(target, join(root, path))
  }
  const mode = (path: string, bits: number): void => chmodSync(join(root, path), bits)

  describe('names a Python', () => {
    const inOpt = 'opt/python/bin/python3'
    const both = (other: string): void => [other, 'usr/bin/python3'].forEach((path) => program(path))
    const forRoot = (): void => {
      program('usr/bin/python3', 0o700)
      program('usr/local/bin/python3')
    }
    const linked = (): void => {
      program('opt/python/bin/python3.12')
      link('usr/bin/python3', '../../opt/python/bin/python3.12')
    }
    test.each<[string, () => void, string[], string]>([
      ['the system’s own', () => program('usr/bin/python3'), [], '/usr/bin/python3'],
      ['prefers the system’s own', () => both('usr/local/bin/python3'), [], '/usr/bin/python3'],
      ['uses another if only root can run that one', forRoot, [], '/usr/local/bin/python3'],
      ['follows a link to a place that everybody can enter', linked, [], '/usr/bin/python3'],
      ['uses the one that --python names', () => both(inOpt), ['--python', `/${inOpt}`], `/${inOpt}`],
    ])('%s', async (_name, build, more, path) => {
      build()
      const ended = await managedIn(...more)
      expect(ended).toMatchObject({ code: 0, stderr: '' })
      expect(named()).toBe(path)
      expect(ended.stdout).not.toContain('the image has no')
    })

    test('the image has none yet, and the output says so', async () => {
      const ended = await managedIn()
      expect(named()).toBe('/usr/bin/python3')
      expect(ended.stdout).toContain('next: the image has no /usr/bin/python3 yet')
    })
  })

  describe('is refused, and nothing is written', () => {
    test.each<[string, () => void, string[], string]>([
      [
        'below a private folder, through links',
        () => {
          program('private/.pyenv/versions/3/bin/python3.13')
          link('private/.pyenv/versions/3/bin/python3', 'python3.13')
          link('usr/bin/python3', '/private/.pyenv/versions/3/bin/python3')
          mode('private', 0o700)
        },
        [],
        '`/usr/bin/python3` (by way of `/private`) cannot be entered by every user',
      ],
      [
        'below a private folder by its own path',
        () => {
          program('usr/bin/python3')
          program('private/bin/python3')
          mode('private', 0o750)
        },
        ['--python', '/private/bin/python3'],
        '(by way of `/private`) cannot be entered by every user',
      ],
      [
        'not executable for everybody',
        () => program('usr/bin/python3', 0o754),
        [],
        '`/usr/bin/python3` cannot be run by every user',
      ],
      [
        'in a folder that anybody may change',
        () => {
          program('opt/bin/python3')
          mode('opt/bin', 0o777)
        },
        ['--python', '/opt/bin/python3'],
        '(by way of `/opt/bin`) can be changed by others than root',
      ],
      ['changeable by anybody', () => program('usr/bin/python3', 0o775), [], 'changed by others than root'],
      ['a folder', () => program('usr/bin/python3/python'), [], 'is no program'],
      ['a link to nothing', () => link('usr/bin/python3', 'python3.12'), [], 'cannot be found'],
      ['a link to itself', () => link('usr/bin/python3', 'python3'), [], 'is a link to itself'],
      ['a relative path', () => program('usr/bin/python3'), ['--python', 'python3'], 'absolute path'],
    ])('%s', async (_name, build, more, says) => {
      build()
      const ended = await managedIn(...more)
      expect(ended.stderr).toContain(says)
      expect(ended.stderr).toContain('--python')
      expect(ended.code).toBe(1)
      expect(existsSync(settings())).toBe(false)
      expect(existsSync(join(root, 'opt/countersign'))).toBe(false)
    })
  })

  test('a user’s own Python must be able to run the hook', async () => {
    const ended = await install('claude', '--python', '/bin/false')
    expect(ended).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('`/bin/false` is not Python 3.8'),
    })
  })

  test('every user can read the written files, whatever root’s umask', async () => {
    program('usr/bin/python3')
    const args = [hookFile, 'install', '--dialect', 'claude', '--managed', '--yes', '--root', root]
    await runHook({ command: ['sh', '-c', 'umask 077; exec "$@"', 'sh', python, ...args], env: own })
    for (const path of ['etc', 'etc/claude-code', 'opt/countersign'])
      expect([path, statSync(join(root, path)).mode & 0o777]).toEqual([path, 0o755])
    expect(statSync(settings()).mode & 0o777).toBe(0o644)
  })
})

import { existsSync, mkdirSync, readFileSync, unlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { beforeEach, describe, expect, test } from '@jest/globals'
import { temporaryFolder } from '../stack/temporary-folder.ts'
import { hookFile, python, runHook, type Ended } from './run-hook.ts'
import { allowed, denied, reply, type ScriptedService } from './scripted-service.ts'
import { useService } from './use-service.ts'

/* opencode's plugin and settings. test/clients tests the two in opencode itself. */

let service: ScriptedService
let home: string
useService(
  (started) => (service = started),
  ({ path, body }, socket) => {
    const isDenied = body.includes('curl') || body.includes('"organization_id":"org_0000')
    reply(socket, 200, path === '/api/v1/authorize' && isDenied ? denied : { ...allowed, ok: true })
  },
)
beforeEach(() => {
  home = temporaryFolder()
})

const run = (words: readonly string[], more: NodeJS.ProcessEnv = {}, cwd?: string): Promise<Ended> => {
  const env = { HOME: home, SERVICE_API_URL: service.url, SERVICE_API_KEY: 'csk_test', ...more }
  return runHook({ command: [python, hookFile], args: words, env, ...(cwd !== undefined && { cwd }) })
}
const install = (...more: string[]): Promise<Ended> =>
  run(['install', '--dialect', 'opencode', '--yes', ...more])
const pluginFile = (): string => join(home, '.config', 'opencode', 'plugin', 'countersign.js')

describe('settings', () => {
  const organization = 'org_00000000000000000000000001'
  const managed = (root: string, ...more: string[]): Promise<Ended> =>
    run(['install', '--dialect', 'opencode', '--yes', '--managed', '--root', root, ...more], {
      SERVICE_ORG_ID: organization,
    })

  test('managed: the plugin is the last, and no model answers without it', async () => {
    const root = temporaryFolder()
    const file = join(root, 'etc/opencode/opencode.json')
    const text = '{"plugin": ["theirs"], "enabled_providers": ["anthropic"]}'
    mkdirSync(dirname(file), { recursive: true })
    writeFileSync(file, text)
    expect((await managed(root)).code).toBe(0)
    expect(JSON.parse(readFileSync(file, 'utf8'))).toMatchObject({
      plugin: ['theirs', ['file:///opt/countersign/service_hook.js', { enabled_providers: ['anthropic'] }]],
      enabled_providers: ['countersign-is-not-loaded'],
    })
    const plugin = readFileSync(join(root, 'opt/countersign/service_hook.js'), 'utf8')
    expect(plugin).toContain('"/opt/countersign/service_hook.py", "pre", "--dialect", "opencode"')
    expect(plugin).not.toContain('csk_')
    expect((await managed(root)).stdout).toBe('nothing to change\n')
    expect((await managed(root, '--uninstall')).code).toBe(0)
    expect(readFileSync(file, 'utf8')).toBe(text)
    expect(existsSync(join(root, 'opt'))).toBe(false)
  })

  test('managed: settings that opencode would read after ours are refused', async () => {
    const root = temporaryFolder()
    mkdirSync(join(root, 'etc/opencode'), { recursive: true })
    writeFileSync(join(root, 'etc/opencode/opencode.jsonc'), '{}')
    const ended = await managed(root)
    expect(ended).toMatchObject({ code: 1, stderr: expect.stringContaining('move it into opencode.json') })
  })

  test('of a user: in the folder that XDG_CONFIG_HOME names', async () => {
    const elsewhere = { XDG_CONFIG_HOME: join(home, 'elsewhere') }
    const ended = await run(['install', '--dialect', 'opencode', '--yes'], elsewhere)
    expect(ended.code).toBe(0)
    expect(existsSync(join(home, 'elsewhere/opencode/plugin/countersign.js'))).toBe(true)
  })
})

describe('doctor', () => {
  const doctor = (folder: string, env: NodeJS.ProcessEnv = {}): Promise<Ended> =>
    run(['doctor', '--dialect', 'opencode'], { PATH: '/nowhere', ...env }, folder)
  const inProject = (file: string, text: string): string => {
    const folder = temporaryFolder()
    mkdirSync(dirname(join(folder, file)), { recursive: true })
    writeFileSync(join(folder, file), text)
    return folder
  }

  test('without opencode on the PATH nothing fails', async () => {
    await install()
    const ended = await doctor(home)
    expect(ended.stdout).toContain('the installed command blocks an event that it cannot read')
    expect({ ...ended, last: ended.stdout.trim().split('\n').at(-1) }).toMatchObject({
      code: 0,
      last: 'not tried: see to the lines with ??',
    })
  })

  test.each([
    ['.opencode/plugin/own.ts', '', 'runs'],
    ['.opencode/tools/own.js', '', 'runs'],
    ['opencode.json', '{"plugin": ["x"]}', 'names plugins'],
    ['opencode.jsonc', '{ // mine\n"plugin": ["x"]}', 'names plugins'],
    ['.opencode/opencode.json', '{"plugin": ["x"]}', 'names plugins'],
    ['.opencode/command/look.md', 'see !`id`', 'runs the shell commands'],
    ['.opencode/skills/look/SKILL.md', 'see !`id`', 'runs the shell commands'],
    ['.claude/skills/look/SKILL.md', 'see !`id`', 'runs the shell commands'],
  ])('a project with %s fails, also in a folder below it', async (file, text, told) => {
    await install()
    const folder = inProject(file, text)
    mkdirSync(join(folder, 'below'))
    const ended = await doctor(join(folder, 'below'))
    expect(ended).toMatchObject({ code: 1, stdout: expect.stringContaining(told) })
  })

  test('a project without these passes', async () => {
    await install()
    const folder = inProject('opencode.json', '{"plugin": [], "model": "x"}')
    expect((await doctor(folder)).stdout).not.toContain('FAIL')
  })

  test('a changed plugin fails', async () => {
    await install()
    writeFileSync(pluginFile(), readFileSync(pluginFile(), 'utf8').replace('code === 0 &&', ''))
    expect((await doctor(home)).stdout).toContain('countersign.js` was changed: run `install` again')
  })

  test('a variable that switches plugins off fails', async () => {
    await install()
    expect((await doctor(home, { OPENCODE_PURE: '1' })).stdout).toContain('FAIL  `OPENCODE_PURE`')
  })
})

describe('the plugin', () => {
  interface Output {
    args: Record<string, unknown>
  }
  interface Plugin {
    config(settings: object): void
    'tool.execute.before'(input: object, output: Output): Promise<void>
    'tool.execute.after'(input: object, output: object): Promise<void>
    dispose(): Promise<void>
  }
  const sessions: Record<string, object> = { s: { id: 's' }, part: { id: 'part', parentID: 's' } }
  const client = {
    session: { get: async ({ path }: { path: { id: string } }) => ({ data: sessions[path.id] }) },
  }
  const loaded = async (): Promise<Plugin> => {
    await install()
    const { default: make } = (await import(pathToFileURL(pluginFile()).href)) as {
      default: (input: object) => Promise<Plugin>
    }
    return make({ client, directory: '/srv/project' })
  }
  const input = { tool: 'bash', sessionID: 's', callID: 'call_1' }
  const questions = (): Record<string, unknown>[] =>
    service.asked.filter(({ path }) => path === '/api/v1/authorize').map(({ body }) => JSON.parse(body))

  test('a denied call is an error with the rule, and an allowed one passes', async () => {
    const plugin = await loaded()
    await plugin['tool.execute.before'](input, { args: { command: 'ls' } })
    const args = { command: 'curl https://example.com' }
    const denied = plugin['tool.execute.before'](input, { args })
    await expect(denied).rejects.toThrow('blocked by rule `no-egress`')
    const asked = { session_id: 's', tool_name: 'Bash', tool_input: { command: 'ls' } }
    expect(questions()[0]).toMatchObject(asked)
  })

  test('nobody changes the arguments after the question', async () => {
    const plugin = await loaded()
    const args = { command: 'ls', list: [{ deep: 1 }] }
    await plugin['tool.execute.before'](input, { args })
    expect(() => (args.command = 'curl')).toThrow(TypeError)
    expect(() => args.list.push({ deep: 2 })).toThrow(TypeError)
    expect(() => (args.list[0] = { deep: 2 })).toThrow(TypeError)
  })

  test('a program that says nothing does not allow a call', async () => {
    const plugin = await loaded()
    writeFileSync(join(home, '.countersign', 'service_hook.py'), '')
    const call = plugin['tool.execute.before'](input, { args: {} })
    await expect(call).rejects.toThrow('gave no answer (exit code 0)')
    unlinkSync(join(home, '.countersign', 'service_hook.py'))
    await expect(plugin['tool.execute.before'](input, { args: {} })).rejects.toThrow()
  })

  test('calls of a subagent count in the session of its parent, and an unknown session blocks', async () => {
    const plugin = await loaded()
    await plugin['tool.execute.before']({ ...input, sessionID: 'part' }, { args: {} })
    expect(questions()[0]).toMatchObject({ session_id: 's' })
    const unknown = plugin['tool.execute.before']({ ...input, sessionID: 'x' }, { args: {} })
    await expect(unknown).rejects.toThrow('does not name the session')
  })

  test('a tool of a server has its name, unless two servers or opencode could have the tool', async () => {
    const plugin = await loaded()
    plugin.config({ mcp: { 'my.board': {} } })
    await plugin['tool.execute.before']({ ...input, tool: 'my_board_send_it' }, { args: {} })
    expect(questions()[0]).toMatchObject({ tool_name: 'mcp__my_board__send_it' })
    plugin.config({ mcp: { plan: {} } })
    const own = plugin['tool.execute.before']({ ...input, tool: 'plan_exit' }, { args: {} })
    await expect(own).rejects.toThrow('rename the server')
    plugin.config({ mcp: { 'my.board': {}, my: {} } })
    const call = plugin['tool.execute.before']({ ...input, tool: 'my_board_send_it' }, { args: {} })
    await expect(call).rejects.toThrow('rename a server')
  })

  test('a shell that is none is left out of the settings', async () => {
    const plugin = await loaded()
    for (const shell of ['/bin/bash', 'zsh', './evil', '/tmp/bash', '/bin/python3']) {
      const settings: { shell?: string } = { shell }
      plugin.config(settings)
      expect(settings.shell).toBe(/^(\/bin\/bash|zsh)$/.test(shell) ? shell : undefined)
    }
  })

  test('finished calls and the end of the session are reported', async () => {
    const plugin = await loaded()
    const args = { command: 'ls' }
    await plugin['tool.execute.before'](input, { args })
    await plugin['tool.execute.after']({ ...input, args }, { output: 'secret', metadata: { exit: 3 } })
    await plugin.dispose()
    const [, after, end] = service.asked
    expect(after).toMatchObject({ path: '/api/v1/authorize/observe' })
    expect(JSON.parse(after?.body ?? '')).toMatchObject({ tool_use_id: 'call_1', outcome: 'error' })
    expect(after?.body).not.toContain('secret')
    expect(end).toMatchObject({ path: '/api/v1/authorize/sessions/end' })
  })
})

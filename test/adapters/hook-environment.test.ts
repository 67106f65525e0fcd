import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { until } from '../stack/until.ts'
import { temporaryFolder } from '../stack/temporary-folder.ts'
import { selfSigned } from '../support/self-signed.ts'
import { hookFile, python, runHook, type Ended } from './run-hook.ts'
import { allowed, reply, scriptedService, type ScriptedService } from './scripted-service.ts'

/*
 * A project's settings can change the environment of a session. If the hook has a settings file, the environment must
 * change neither which service is asked nor the conditions under which calls pass. Nothing else on the machine may
 * prevent a deny.
 */

let service: ScriptedService
let secure: ScriptedService
let home: string
/** The certificate authority of the service, in a file that nobody else can change. */
let authority: string
beforeAll(async () => {
  service = await scriptedService(() => {})
  secure = await scriptedService((_asked, socket) => reply(socket, 200, allowed), true)
})
beforeEach(() => {
  service.asked.length = 0
  secure.asked.length = 0
  service.script = (_asked, socket) => reply(socket, 200, allowed)
  home = temporaryFolder()
  authority = join(temporaryFolder(), 'authority.pem')
  writeFileSync(authority, readFileSync(selfSigned.certFile), { mode: 0o600 })
})
afterAll(() => Promise.all([service.close(), secure.close()]))

const event = {
  session_id: 's',
  hook_event_name: 'PreToolUse',
  tool_name: 'Bash',
  tool_input: { command: 'ls' },
}
const file = (settings: object): string => {
  const path = join(temporaryFolder(), 'hook.json')
  writeFileSync(path, JSON.stringify({ api_key: 'csk_file', ...settings }), { mode: 0o600 })
  return path
}
const pre = (settings: object, env: NodeJS.ProcessEnv): Promise<Ended> =>
  runHook({
    args: ['pre', '--dialect', 'claude', '--config', file(settings)],
    env: { HOME: home, ...env },
    event,
  })
const install = (dialect: string, env: NodeJS.ProcessEnv, ...more: string[]): Promise<Ended> =>
  runHook({
    command: [python, hookFile],
    args: ['install', '--dialect', dialect, '--yes', ...more],
    env: { HOME: home, SERVICE_API_URL: service.url, SERVICE_API_KEY: 'csk_x', ...env },
  })
const installed = (): Record<string, unknown> =>
  JSON.parse(readFileSync(join(home, '.countersign', 'hook.json'), 'utf8')) as Record<string, unknown>

describe('with a settings file the environment does not decide', () => {
  test('the organization', async () => {
    expect(await pre({ api_url: service.url }, { SERVICE_ORG_ID: 'org_other' })).toMatchObject({ code: 0 })
    expect(JSON.parse(service.asked[0]?.body ?? '')).not.toHaveProperty('organization_id')
  })

  test('the address to which the key of the file is sent', async () => {
    const ended = await pre({}, { SERVICE_API_URL: service.url })
    expect(ended).toMatchObject({ code: 2, stderr: expect.stringContaining('SERVICE_API_URL is not set') })
    expect(service.asked).toEqual([])
  })

  test('which authorities to trust; the file decides', async () => {
    const ended = await pre({ api_url: secure.url }, { SSL_CERT_FILE: authority })
    expect(ended).toMatchObject({ code: 2, stderr: expect.stringContaining('CERTIFICATE_VERIFY_FAILED') })
    expect(secure.asked).toEqual([])
    expect(await pre({ api_url: secure.url, ca_file: authority }, {})).toMatchObject({ code: 0 })
  })

  test('where secrets of the connection are written', async () => {
    const log = join(home, 'keys')
    const config = file({ api_url: secure.url, ca_file: authority })
    const ended = await runHook({
      // As if the hook was started by hand. With -I, Python ignores the variable.
      command: [python, hookFile, 'pre', '--dialect', 'claude', '--config', config],
      env: { HOME: home, SSLKEYLOGFILE: log },
      event,
    })
    expect(ended).toMatchObject({ code: 0 })
    expect(existsSync(log)).toBe(false)
  })

  test('the fail mode; the file decides', async () => {
    service.script = (_asked, socket) => reply(socket, 403, {})
    const settings = { api_url: 'https://service.invalid', approval_wait: 0 }
    expect(await pre(settings, { HTTPS_PROXY: service.url, https_proxy: service.url })).toMatchObject({
      code: 2,
    })
    expect(service.asked).toEqual([])
    expect(await pre({ ...settings, https_proxy: service.url }, {})).toMatchObject({ code: 2 })
    expect(service.asked[0]).toMatchObject({ method: 'CONNECT', path: 'service.invalid:443' })
  })
})

test('`install` keeps the connection settings of the environment, and shows no password', async () => {
  const way = { SSL_CERT_FILE: authority, HTTPS_PROXY: 'http://me:proxy-secret@proxy.example:3128' }
  const ended = await install('claude', { SERVICE_API_URL: 'https://service.invalid', ...way })
  expect(ended.code).toBe(0)
  expect(installed()).toMatchObject({ https_proxy: way.HTTPS_PROXY, ca_file: authority })
  expect(ended.stdout + ended.stderr).not.toContain('proxy-secret')
  const none = await install('gemini', { ...way, SERVICE_API_URL: 'https://service.invalid', NO_PROXY: '*' })
  expect(none.code).toBe(0)
})

test('a managed file, which everybody can read, contains no password', async () => {
  const root = temporaryFolder()
  const way = { SERVICE_API_URL: 'https://service.invalid', HTTPS_PROXY: 'http://me:x@proxy.example:3128' }
  const named = { ...way, SERVICE_ORG_ID: 'org_00000000000000000000000001' }
  const ended = await install('claude', named, '--managed', '--root', root)
  expect(ended).toMatchObject({ code: 1, stderr: expect.stringContaining('has a password') })
  expect(readdirSync(root)).toEqual([])
})

test('no program on PATH can replace the shell that blocks', async () => {
  await install('claude', {})
  const settings = JSON.parse(readFileSync(join(home, '.claude', 'settings.json'), 'utf8'))
  const line = settings.hooks.PreToolUse[0].hooks[0].command as string
  const bin = temporaryFolder()
  for (const name of ['sh', '[', 'echo', 'python3', 'case'])
    writeFileSync(join(bin, name), '#!/bin/sh\nexit 0\n', { mode: 0o755 })
  const env = { HOME: home, PATH: `${bin}:/usr/bin:/bin` }
  const ended = await runHook({ command: ['/bin/sh', '-c', line], env, event: 'nonsense' })
  expect(ended).toMatchObject({ code: 2, stderr: expect.stringContaining('not JSON') })
})

describe('HOME leads elsewhere:', () => {
  const old = new Date(Date.now() - 30 * 86_400_000)
  const aged = (path: string): string => {
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(path, 'mine')
    utimesSync(path, old, old)
    return path
  }

  test('other people’s files stay unchanged', async () => {
    const theirs = temporaryFolder()
    const kept = [aged(join(theirs, '00000000-61')), aged(join(theirs, 'thesis'))]
    mkdirSync(join(home, '.countersign'))
    symlinkSync(theirs, join(home, '.countersign', 'ended-sessions'))
    await pre({ api_url: service.url }, {})
    await runHook({ args: ['flush', '--config', file({ api_url: service.url })], env: { HOME: home } })
    expect(kept.filter((path) => !existsSync(path))).toEqual([])
  })

  test('files in our folder that are not notes stay unchanged', async () => {
    const folder = join(home, '.countersign', 'ended-sessions')
    const [kept, note] = [aged(join(folder, 'thesis')), aged(join(folder, '00000000-61'))]
    await pre({ api_url: service.url }, {})
    await until('the old note is gone', () => !existsSync(note))
    expect(existsSync(kept)).toBe(true)
  })
})

describe('`install`', () => {
  const clients = ['claude', 'codex', 'gemini', 'copilot', 'cursor', 'opencode']
  const files = (): string[] =>
    readdirSync(home, { recursive: true, withFileTypes: true })
      .filter((each) => each.isFile() && !each.name.endsWith('.pyc'))
      .map((each) => each.name)

  test('several at once: each writes a whole file or says to run `install` again; after removal nothing is left', async () => {
    let left = clients
    for (let turn = 0; left.length > 0; turn += 1) {
      expect(turn).toBeLessThan(clients.length)
      const ended = await Promise.all(left.map((client) => install(client, {})))
      for (const { code, stderr } of ended) if (code !== 0) expect(stderr).toContain('run `install` again')
      left = left.filter((_client, index) => ended[index]?.code !== 0)
    }
    for (const client of clients) expect((await install(client, {}, '--uninstall')).code).toBe(0)
    expect(files()).toEqual([])
  })

  test('after removal the settings are as before, byte for byte', async () => {
    const text = '{\n    "model": "opus",\n\t"permissions": {"deny": []}, "x": 1.50\n}\n\n'
    const path = join(home, '.claude', 'settings.json')
    mkdirSync(dirname(path))
    writeFileSync(path, text)
    await install('claude', {})
    expect(readFileSync(path, 'utf8')).not.toBe(text)
    await install('claude', {}, '--uninstall')
    expect(readFileSync(path, 'utf8')).toBe(text)
    expect(files()).toEqual(['settings.json'])
  })
})

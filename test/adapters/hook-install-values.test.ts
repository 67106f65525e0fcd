import { existsSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { temporaryFolder } from '../stack/temporary-folder.ts'
import { hookFile, python, runHook, type Ended } from './run-hook.ts'
import { scriptedService, type ScriptedService } from './scripted-service.ts'

/* The values that `install` takes from the environment and stores, and what `--uninstall` removes from all clients. */

let service: ScriptedService
let home: string
beforeAll(async () => {
  service = await scriptedService(() => {})
})
beforeEach(() => {
  home = temporaryFolder()
})
afterAll(() => service.close())

const run = (args: readonly string[], more: NodeJS.ProcessEnv = {}): Promise<Ended> => {
  const env = { SERVICE_API_URL: service.url, SERVICE_API_KEY: 'csk_secret', HOME: home, ...more }
  return runHook({ command: [python, hookFile], args: ['install', '--yes', ...args], env })
}
const claude = ['--dialect', 'claude']
const config = (): string => join(home, '.countersign', 'hook.json')
const kept = (): Record<string, unknown> =>
  JSON.parse(readFileSync(config(), 'utf8')) as Record<string, unknown>
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
    for (const client of ['claude', 'codex', 'gemini', 'copilot', 'cursor', 'opencode'])
      await run(['--dialect', client])
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
    expect(all().filter((each) => each.includes('ended-sessions/'))).toEqual([
      '.countersign/ended-sessions/mine',
    ])
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

import {
  chmodSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { beforeEach, expect, test } from '@jest/globals'
import { temporaryFolder } from '../stack/temporary-folder.ts'
import { hookFile, python, runHook, type Ended } from './run-hook.ts'

/* `install` and settings that Claude Code has already. The service is not asked. */

let home: string
beforeEach(() => {
  home = temporaryFolder()
})

const install = (...more: string[]): Promise<Ended> => {
  const own = { SERVICE_API_URL: 'http://127.0.0.1:1', SERVICE_API_KEY: 'csk_secret' }
  const env = { ...own, SERVICE_ORG_ID: 'org_00000000000000000000000001', HOME: home }
  const args = ['install', '--dialect', 'claude', '--yes', ...more]
  return runHook({ command: [python, hookFile], args, env })
}
/** The path of the managed settings below the root folder of a machine image. */
const managed = 'etc/claude-code/managed-settings.json'

type Entry = Record<string, unknown> & { hooks?: Record<string, unknown>[] }
type Settings = Record<string, unknown> & { hooks: Record<string, Entry[]> }
const read = (path: string): Settings => JSON.parse(readFileSync(path, 'utf8')) as Settings
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
  await install()
  const found = read(path())
  expect(Object.keys(found)).toEqual(Object.keys(settings))
  expect(found).toMatchObject({ ...settings, hooks: { Stop: [mine] } })
  expect(found.hooks['PreToolUse']?.[0]).toEqual(mine)
  expect(found.hooks['PreToolUse']).toHaveLength(2)
  expect(statSync(path()).mode & 0o777).toBe(0o640)
  expect(readFileSync(`${path()}.before-countersign`, 'utf8')).toBe(text)
})

test('existing settings are restored after removal, with later additions', async () => {
  place(path(), settings)
  await install()
  const grown = read(path())
  place(path(), { ...grown, added: 1 })
  await install('--uninstall')
  expect(read(path())).toEqual({ ...settings, added: 1 })
})

test('an older entry of ours is replaced, not repeated', async () => {
  const old = { matcher: '*', hooks: [{ type: 'command', command: 'python3 /old/service_hook.py pre' }] }
  place(path(), { hooks: { PreToolUse: [old, mine] } })
  await install()
  expect(read(path()).hooks['PreToolUse']).toHaveLength(2)
  expect(readFileSync(path(), 'utf8')).not.toContain('/old/')
})

test('a hook that somebody added to our entry stays', async () => {
  const ours = { type: 'command', command: "sh -c 'python3 /old/service_hook.py pre'" }
  place(path(), { hooks: { PreToolUse: [{ matcher: 'Read', hooks: [ours, ...mine.hooks] }] } })
  await install()
  const [first, second, ...more] = read(path()).hooks['PreToolUse'] ?? []
  expect(more).toEqual([])
  expect(first).toEqual({ matcher: 'Read', hooks: mine.hooks })
  expect(second?.['matcher']).toBe('*')
  await install('--uninstall')
  expect(read(path()).hooks).toEqual({ PreToolUse: [{ matcher: 'Read', hooks: mine.hooks }] })
})

test('a weakened installation is repaired', async () => {
  await install()
  const whole = readFileSync(path(), 'utf8')
  writeFileSync(path(), whole.replace('"*"', '"Read"').replace('"block"', '"continue"').replace('90,', '9,'))
  await install()
  expect(readFileSync(path(), 'utf8')).toBe(whole)
})

test('managed options return to their earlier values, unless somebody changed them meanwhile', async () => {
  const root = temporaryFolder()
  const file = join(root, managed)
  place(file, { requiredMinimumVersion: '2.0.0', allowManagedHooksOnly: false, model: 'opus' })
  await install('--managed', '--root', root)
  place(file, { ...read(file), allowManagedHooksOnly: 'changed' })
  await install('--managed', '--root', root, '--uninstall')
  expect(read(file)).toEqual({
    requiredMinimumVersion: '2.0.0',
    allowManagedHooksOnly: 'changed',
    model: 'opus',
  })
})

test('a newer minimum version stays', async () => {
  const root = temporaryFolder()
  const file = place(join(root, managed), { requiredMinimumVersion: '2.1.300' })
  await install('--managed', '--root', root)
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
  const ended = await install()
  expect(ended.code).toBe(1)
  expect(ended.stderr).toContain('install: ')
  expect(readFileSync(path(), 'utf8')).toBe(text)
  expect(readdirSync(home, { recursive: true })).toEqual(['.claude', join('.claude', 'settings.json')])
})

test('settings behind a symbolic link are changed in place', async () => {
  const real = place(join(home, 'dotfiles', 'claude.json'), settings)
  mkdirSync(join(home, '.claude'))
  symlinkSync(real, path())
  await install()
  expect(read(real).hooks['PreToolUse']).toHaveLength(2)
})

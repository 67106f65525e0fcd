import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, expect, test } from '@jest/globals'
import { temporaryFolder } from '../stack/temporary-folder.ts'
import { runHook, type Ended } from './run-hook.ts'
import { allowed, reply, scriptedService, type ScriptedService } from './scripted-service.ts'

/* An administrator names the organization, and a user keeps a key: a key of another organization brings no other rules. */

const own = 'org_00000000000000000000000001'
const another = 'org_00000000000000000000000002'
let service: ScriptedService
let home: string
let ofTheKey: string
beforeAll(async () => {
  service = await scriptedService(({ path }, socket) => {
    reply(socket, 200, path === '/api/v1/me' ? { organization_id: ofTheKey } : allowed)
  })
})
afterAll(() => service.close())
beforeEach(() => {
  home = temporaryFolder()
  service.asked.length = 0
  const key = join(home, 'key')
  writeFileSync(key, 'csk_test', { mode: 0o600 })
  const settings = { api_url: service.url, api_key_file: key, organization_id: own }
  writeFileSync(join(home, 'hook.json'), JSON.stringify(settings), { mode: 0o600 })
})

const pre = (): Promise<Ended> =>
  runHook({
    args: ['pre', '--dialect', 'claude', '--config', join(home, 'hook.json')],
    env: { HOME: home },
    event: {
      session_id: 's',
      hook_event_name: 'PreToolUse',
      tool_name: 'Bash',
      tool_input: { command: 'ls' },
    },
  })
const asked = (): string[] => service.asked.map(({ path }) => path)
const note = (): boolean => existsSync(join(home, '.countersign', 'key-checked'))

test('the key of another organization is refused before the call is sent', async () => {
  ofTheKey = another
  const { code, stderr } = await pre()
  expect(code).toBe(2)
  expect(stderr).toContain(`is not of the organization \`${own}\``)
  expect(asked()).toEqual(['/api/v1/me'])
  expect(note()).toBe(false)
})

test('whose the key is, is asked once', async () => {
  ofTheKey = own
  expect((await pre()).code).toBe(0)
  expect(note()).toBe(true)
  expect((await pre()).code).toBe(0)
  expect(asked()).toEqual(['/api/v1/me', '/api/v1/authorize', '/api/v1/authorize'])
})

import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { until } from '../stack/until.ts'
import { hookFile, startHook } from './run-hook.ts'
import { held, reply, scriptedService, type ScriptedService } from './scripted-service.ts'

/*
 * A killed client sends no signal to its hooks. Codex, for example, leaves a hook that waits for an approver running.
 */

let service: ScriptedService
beforeAll(async () => {
  service = await scriptedService(({ path }, socket) => {
    if (path === '/api/v1/authorize') reply(socket, 200, held)
    if (path.endsWith('/cancel')) reply(socket, 200, { status: 'cancelled' })
    // The approval is never decided.
  })
})
afterAll(() => service.close())

test.each([
  ['itself', undefined],
  ['behind a shell', ['sh', '-c', '"$@"; exit $?', 'sh', 'python3', '-I', '-S']],
])('a waiting hook %s whose client is gone withdraws its call and ends', async (_name, shell) => {
  service.asked.length = 0
  const { child, ended } = startHook({
    args: [...(shell === undefined ? [] : [hookFile]), 'pre', '--dialect', 'codex'],
    ...(shell === undefined ? {} : { command: shell }),
    env: { SERVICE_API_URL: service.url, SERVICE_API_KEY: 'csk_test' },
    event: { session_id: 's', turn_id: 't', tool_name: 'Bash', tool_input: { command: 'ls' } },
  })
  await until('it waits', () => service.asked.some(({ path }) => path.includes('wait=')))
  child.stdout?.destroy()
  expect((await ended).code).toBe(2)
  expect(service.asked.map(({ path }) => path)).toContain('/api/v1/authorize/approvals/apr_1/cancel')
})

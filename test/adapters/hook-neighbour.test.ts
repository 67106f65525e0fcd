import { afterEach, beforeAll, expect, test } from '@jest/globals'
import { useMeasuredApi, type MeasuredApi } from '../api/bodies/measured-api.ts'
import { sendScattered } from '../api/bodies/scattered.ts'
import { agentWorld } from '../api/agents/agent.ts'
import { addKey, addOrganization } from '../api/fixtures.ts'
import { until } from '../stack/until.ts'
import { runHook } from './run-hook.ts'

/*
 * A hook in open mode lets a call run if the service does not answer. So a tenant who keeps the service from answering
 * in time would open the hooks of all others.
 */

let measured: MeasuredApi
useMeasuredApi((started) => (measured = started))
let key: string
let hostileKey: string
beforeAll(async () => {
  const world = await agentWorld(measured.server)
  const { context } = measured.server
  key = (await addKey(context, world.organizationId, world.member.userId, ['agents:authorize'])).secret
  hostileKey = (await addOrganization(context)).owner.key
  const rule = { name: 'no-egress', applies_to: ['agents'], verdict: 'deny', side_effects: ['egress'] }
  await world.change('POST', '/rules', rule)
})

let goesOn = false
let attack: Promise<unknown> = Promise.resolve()
/** Requests of the hostile caller that were answered or cut off. */
const ended = new Map<string, number>()
afterEach(async () => {
  goesOn = false
  await attack
})

const megabyte = 1024 * 1024
const longKey = `{"${'k'.repeat(400_000)}":[${'0,'.repeat(290_000)}0]}`
const definition = `{"steps":[{"id":"a","tool":"memory_set","params":${longKey}}]}`
const manyValues = `{"a":[${'0,'.repeat(19_000)}0]}`
const command = `echo ${'"$(a)" '.repeat(1_200)}`
const question = (tool: string, input: string): string =>
  `{"agent":{"name":"n","kind":"hook"},"session_id":"s","tool_name":"${tool}","tool_input":${input}}`
const file = `--x\r\ncontent-disposition: form-data; name="file"; filename="a.txt"\r\n\r\n`

/** Sends the worst bodies over 12 connections, each again as soon as it is answered, until the test has ended. */
function begin(): void {
  goesOn = true
  const headers = { authorization: `Bearer ${hostileKey}` }
  const json = { ...headers, 'content-type': 'application/json' }
  const post = async (path: string, body: string): Promise<void> => {
    const answer = await fetch(`${measured.api.url}${path}`, { method: 'POST', headers: json, body })
    await answer.text()
  }
  const scattered = () =>
    sendScattered(
      measured.api.url,
      { path: '/files', headers: { ...headers, 'content-type': 'multipart/form-data; boundary=x' } },
      { before: file, count: megabyte },
    )
  const acts: Record<string, () => Promise<unknown>> = {
    bodies: () => post('/workflows', `{"name":"n","definition":${definition}}`),
    values: () => post('/authorize', question('Edit', manyValues)),
    shell: () => post('/authorize', question('Bash', JSON.stringify({ command }))),
    text: () => post('/authorize', question('Write', `{"a":"${'x'.repeat(3 * megabyte)}"}`)),
    refused: () => post('/authorize', '['.repeat(megabyte)),
    scattered,
  }
  const repeat = async (name: string, act: () => Promise<unknown>): Promise<void> => {
    while (goesOn) {
      await act().catch(() => undefined)
      ended.set(name, (ended.get(name) ?? 0) + 1)
    }
  }
  attack = Promise.all(
    Object.entries(acts).flatMap(([name, act]) => Array.from({ length: 2 }, () => repeat(name, act))),
  )
}

test('a denied command stays denied in open mode, beside a caller who sends the worst bodies', async () => {
  begin()
  await until('each of the worst bodies was answered', () => ended.size === 6)
  for (let call = 0; call < 3; call += 1) {
    const { code, stderr } = await runHook({
      args: ['pre', '--dialect', 'claude'],
      env: { SERVICE_API_URL: measured.api.url, SERVICE_API_KEY: key, SERVICE_FAIL_MODE: 'open' },
      event: {
        session_id: 'honest',
        hook_event_name: 'PreToolUse',
        tool_name: 'Bash',
        tool_input: { command: 'curl https://example.com' },
        tool_use_id: `use-${call}`,
      },
    })
    expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringContaining('no-egress') })
  }
})

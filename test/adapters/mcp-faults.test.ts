import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals'
import { until } from '../stack/until.ts'
import { endGateways, odd as oddServer, startGateway, textOf, type Wire } from './run-mcp.ts'
import { allowed, reply, scriptedService, type ScriptedService } from './scripted-service.ts'
import { odd, unreachable } from './service-faults.ts'

/* Faults between the gateway and the service, in both fail modes. The same rules apply as for the hook. */

const faults = { ...unreachable, ...odd }

let service: ScriptedService
beforeAll(async () => {
  service = await scriptedService(({ path, body }, socket) => {
    const name = Object.keys(faults).find((each) => body.includes(JSON.stringify(`fault: ${each}`)))
    if (path !== '/api/v1/authorize') reply(socket, 200, { ok: true })
    else if (name === undefined) reply(socket, 200, allowed)
    else faults[name]?.(socket)
  })
})
afterEach(endGateways)
afterAll(() => service.close())

const start = async (more: NodeJS.ProcessEnv) => {
  const env = { SERVICE_API_URL: service.url, SERVICE_API_KEY: 'csk_test', ...more }
  const gateway = await startGateway({ servers: { odd: oddServer() }, env })
  await gateway.tools()
  return gateway
}

test('every fault at once: closed mode blocks all, open mode passes calls without an answer, and no value is logged', async () => {
  const names = Object.keys(faults)
  const both = ['closed', 'open'].map(async (mode) => {
    const gateway = await start({ SERVICE_FAIL_MODE: mode })
    const results = await Promise.all(
      names.map((name) => gateway.call('odd__echo', { fault: `fault: ${name}`, secret: 'secret-value' })),
    )
    const ran = names.filter((_name, index) => results[index].isError !== true)
    expect({ mode, ran }).toEqual({ mode, ran: mode === 'open' ? Object.keys(unreachable) : [] })
    for (const [index, result] of results.entries()) {
      if (result.isError !== true) continue
      expect(textOf(result)).toMatch(/^countersign: /)
      expect(textOf(result)).not.toMatch(/secret-value|csk_test/)
      if (names[index] !== undefined && names[index] in unreachable)
        expect(textOf(result)).toContain('unreachable')
    }
    expect(gateway.stderr).not.toMatch(/secret-value|csk_test/)
    if (mode === 'open') expect(gateway.stderr).toContain('fail mode is open: not checked')
    // The gateway continues normally.
    expect((await gateway.call('odd__echo')).isError).toBeUndefined()
  })
  await Promise.all(both)
})

describe('settings that allow no question block in both modes, and the tools are still listed', () => {
  test.each<[string, NodeJS.ProcessEnv]>([
    ['no address', { SERVICE_API_URL: '' }],
    ['no key', { SERVICE_API_KEY: '' }],
    ['plain http to another machine', { SERVICE_API_URL: 'http://192.0.2.1' }],
    ['not a web address', { SERVICE_API_URL: 'ftp://127.0.0.1' }],
  ])('%s', async (_name, more) => {
    const gateway = await start({ SERVICE_FAIL_MODE: 'open', ...more })
    const result = await gateway.call('odd__echo')
    expect(result.isError).toBe(true)
    expect(textOf(result)).toMatch(/^countersign: SERVICE_API_/)
  })
})

test('after a lost answer the gateway asks again with the same words', async () => {
  const other = await scriptedService((_asked, socket, nth) =>
    nth === 1 ? socket.end() : reply(socket, 200, allowed),
  )
  try {
    const gateway = await start({ SERVICE_API_URL: other.url })
    expect((await gateway.call('odd__echo')).isError).toBeUndefined()
    const questions = (): Wire[] => other.asked.filter(({ path }) => path === '/api/v1/authorize')
    await until('it is reported', () => other.asked.length === 3)
    expect(new Set(questions().map(({ body }) => body)).size).toBe(1)
    expect(questions()).toHaveLength(2)
  } finally {
    await other.close()
  }
})

test('a redirect is not followed: the key goes to nobody else', async () => {
  const other = await scriptedService((_asked, socket) => reply(socket, 200, allowed))
  const from = await scriptedService((_asked, socket) =>
    reply(socket, 307, '', [`Location: ${other.url}/api/v1/authorize`]),
  )
  try {
    const gateway = await start({ SERVICE_API_URL: from.url, SERVICE_FAIL_MODE: 'open' })
    expect((await gateway.call('odd__echo')).isError).toBe(true)
    expect(other.asked).toEqual([])
  } finally {
    await Promise.all([other.close(), from.close()])
  }
})

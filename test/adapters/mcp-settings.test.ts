import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { temporaryFolder } from '../stack/temporary-folder.ts'
import { selfSigned } from '../support/self-signed.ts'
import { endGateways, odd, startGateway, textOf, type Gateway } from './run-mcp.ts'
import { allowed, reply, scriptedService, type ScriptedService } from './scripted-service.ts'

/* The settings of the gateway: its files, its options and the environment. */

let service: ScriptedService
beforeAll(async () => {
  service = await scriptedService(() => {})
})
beforeEach(() => {
  service.asked.length = 0
  service.script = (_asked, socket) => reply(socket, 200, allowed)
})
afterEach(endGateways)
afterAll(() => service.close())

const written = (name: string, text: string): string => {
  const path = join(temporaryFolder(), name)
  writeFileSync(path, text, { mode: 0o600 })
  return path
}
/** Starts a gateway with the server `odd`, with a settings file and an environment. */
const beside = async (settings: object, env: NodeJS.ProcessEnv): Promise<Gateway> => {
  const file = written('hook.json', JSON.stringify({ api_key: 'csk_file', ...settings }))
  const gateway = await startGateway({ servers: { odd: odd() }, args: ['--settings', file], env })
  await gateway.tools()
  return gateway
}

test.each<[string, string, readonly string[]]>([
  ['no JSON', '{', []],
  ['no servers', '{}', []],
  ['an unknown option', '{"mcpServers": {}}', ['--verbose']],
  ['a gateway name that no tool may have', '{"mcpServers": {}}', ['--name', 'a__b']],
])('%s: it does not start, and says why', async (_name, config, args) => {
  const gateway = await startGateway({ config, args, bare: true })
  expect(await gateway.ended).toBe(2)
  expect(gateway.stderr).toMatch(/^countersign: .+\n$/)
})

test('the settings file of the hook is used, and wins over the environment', async () => {
  const env = { SERVICE_API_URL: 'http://127.0.0.1:1', SERVICE_API_KEY: 'csk_env' }
  const gateway = await beside({ api_url: service.url }, env)
  expect((await gateway.call('odd__echo')).isError).toBeUndefined()
  expect(service.asked[0]?.headers['authorization']).toBe('Bearer csk_file')
})

test('with a settings file the environment does not open the gateway', async () => {
  const loose = { SERVICE_FAIL_MODE: 'open', SERVICE_ALLOW_HTTP: '1', SERVICE_ORG_ID: 'org_other' }
  const gateway = await beside({ api_url: 'http://127.0.0.1:1' }, loose)
  const result = await gateway.call('odd__echo')
  expect(result.isError).toBe(true)
  expect(textOf(result)).toContain('unreachable')
})

describe('if there is a settings file, the file alone names', () => {
  let secure: ScriptedService
  beforeAll(async () => {
    secure = await scriptedService((_asked, socket) => reply(socket, 200, allowed), true)
  })
  afterAll(() => secure.close())

  test('the trusted authorities', async () => {
    const authority = written('authority.pem', readFileSync(selfSigned.certFile, 'utf8'))
    const deaf = await beside({ api_url: secure.url }, { SSL_CERT_FILE: authority })
    expect(textOf(await deaf.call('odd__echo'))).toContain('CERTIFICATE_VERIFY_FAILED')
    expect(secure.asked).toEqual([])
    const told = await beside({ api_url: secure.url, ca_file: authority }, {})
    expect((await told.call('odd__echo')).isError).toBeUndefined()
  })

  test('the proxy', async () => {
    service.script = (_asked, socket) => reply(socket, 403, {})
    const settings = { api_url: 'https://service.invalid' }
    const deaf = await beside(settings, { HTTPS_PROXY: service.url, https_proxy: service.url })
    expect((await deaf.call('odd__echo')).isError).toBe(true)
    expect(service.asked).toEqual([])
    const told = await beside({ ...settings, https_proxy: service.url }, {})
    expect((await told.call('odd__echo')).isError).toBe(true)
    expect(service.asked[0]).toMatchObject({ method: 'CONNECT', path: 'service.invalid:443' })
  })
})

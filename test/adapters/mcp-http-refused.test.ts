import { chmodSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import { temporaryFolder } from '../stack/temporary-folder.ts'
import { until } from '../stack/until.ts'
import { selfSigned } from '../support/self-signed.ts'
import { isCall, names, useHttpServers, type HttpServers } from './http-gateway.ts'
import { stream } from './http-upstream.ts'
import { odd, startGateway, textOf } from './run-mcp.ts'

/* Servers over streamable HTTP whose answers or addresses are refused. */

let service: HttpServers['service']
let server: HttpServers['server']
let secure: HttpServers['secure']
let start: HttpServers['start']
let calls: HttpServers['calls']
useHttpServers((started) => ({ service, server, secure, start, calls } = started))

describe('answers that are refused', () => {
  test.each<[string, number, Record<string, string>, string]>([
    ['wrong credentials', 401, { 'www-authenticate': 'Bearer' }, "refuses the gateway's credentials (401)"],
    [
      'a redirect',
      307,
      { location: 'http://127.0.0.1:1/' },
      'answers with a redirect (307), which is refused',
    ],
    ['another coding', 200, { 'content-encoding': 'gzip' }, 'answers in the coding `gzip`'],
    ['another type', 200, { 'content-type': 'text/html' }, 'answered with `text/html`'],
    ['an error', 500, {}, 'answers 500'],
  ])('%s', async (_name, status, headers, told) => {
    server.script = (asked, response) => {
      if (!isCall(asked)) return false
      response.writeHead(status, headers).end('{}')
      return true
    }
    const gateway = await start({})
    await gateway.tools()
    const result = await gateway.call('web__echo')
    expect([result.isError, textOf(result)]).toEqual([true, expect.stringContaining(told)])
    expect(calls()).toHaveLength(1)
  })

  test.each([401, 302])('%d at the start is not tried again', async (status) => {
    server.script = (_asked, response) => {
      response.writeHead(status, { location: `${server.url}/other` }).end()
      return true
    }
    const gateway = await start({})
    expect(await names(gateway)).toEqual([])
    await until('it is said', () => gateway.stderr.includes('server `web` '))
    expect(server.asked).toHaveLength(1)
  })

  test('an answer over the limit of 64 MiB', async () => {
    server.script = (asked, response) => {
      if (!isCall(asked)) return false
      response.writeHead(200, stream)
      const part = Buffer.alloc(1 << 20, 'x')
      response.on('error', () => {})
      const more = (): void => {
        while (!response.destroyed && response.write(part));
        if (!response.destroyed) response.once('drain', more)
      }
      response.write('data: ')
      more()
      return true
    }
    const gateway = await start({})
    await gateway.tools()
    expect(textOf(await gateway.call('web__echo'))).toContain('more than 67108864 bytes')
    expect(textOf(await gateway.call('web__echo').catch(() => ({})))).toContain('more than')
  })
})

describe('addresses', () => {
  test('TLS: the certificate is checked, and `caFile` names own authorities', async () => {
    const trusting = await start({ url: secure.url, caFile: selfSigned.certFile })
    expect(await names(trusting)).toEqual(['web__echo'])
    // The gateway asks for the stream of its session in the background. This request must not be counted below.
    await until('its stream is asked for', () => secure.asked.some(({ verb }) => verb === 'GET'))
    secure.asked.length = 0
    const wary = await start({ url: secure.url })
    await until('it is said', () => wary.stderr.includes('cannot be reached over HTTP'))
    expect(wary.stderr).toMatch(/self.signed certificate/)
    expect(secure.asked).toEqual([])
    const other = await start({
      url: secure.url.replace('localhost', '127.0.0.2'),
      caFile: selfSigned.certFile,
    })
    await until('it is said', () => other.stderr.includes('cannot be reached over HTTP'))
    expect(secure.asked).toEqual([])
  })

  test.each<[string, object, string]>([
    ['plain http to another machine', { url: 'http://mcp.example/' }, 'plain http to another machine'],
    ['a password', { url: 'https://a:b@mcp.example/' }, 'must have no user'],
    ['no address', { url: 'ftp://mcp.example' }, 'must be an address'],
    ['the older transport', { type: 'sse' }, '`type` is `sse`'],
    ['a program too', { command: 'x' }, 'leave one out'],
    ['the service’s key', { headers: { 'X-Key': '${SERVICE_API_KEY}' } }, "asks for the service's key"],
    ['the service’s key as text', { headers: { 'X-Key': 'csk_test' } }, "have the service's key"],
    ['a variable that is not set', { headers: { 'X-Key': '${BOARD_TOKEN}' } }, '`BOARD_TOKEN` is not set'],
    ['a header of the gateway', { headers: { 'Mcp-Session-Id': '1' } }, '`Mcp-Session-Id` cannot be set'],
    ['two lines in a header', { headers: { 'X-A': 'a\r\nX-B: b' } }, 'characters that no header may have'],
  ])('%s is refused, and the other servers work', async (_name, entry, told) => {
    const gateway = await startGateway({
      servers: { web: { type: 'http', url: server.url, ...entry }, odd: odd() },
      env: { SERVICE_API_URL: service.url, SERVICE_API_KEY: 'csk_test' },
    })
    expect(await names(gateway)).toEqual(['odd__echo'])
    await until('it is said', () => gateway.stderr.includes(told))
    expect(server.asked).toEqual([])
  })

  test('a file of authorities that others can change is refused', async () => {
    const file = join(temporaryFolder(), 'ca.pem')
    writeFileSync(file, '', { mode: 0o666 })
    chmodSync(file, 0o666)
    const gateway = await start({ url: secure.url, caFile: file })
    await until('it is said', () => gateway.stderr.includes('can be changed by other users'))
    expect(secure.asked).toEqual([])
  })
})

import { once } from 'node:events'
import type { RequestListener, Server } from 'node:http'
import { connect } from 'node:net'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { createHttpServer } from '../../src/api/http-server.ts'
import { errorAnswer } from '../../src/api/schemas/common.ts'
import { listen } from './server.ts'

/** Answers a GET. For a POST, the application sends the head of its answer first and then reads the request. */
const app: RequestListener = (request, response) => {
  if (request.method === 'POST') response.writeHead(200).write('begun')
  else response.end('fine')
  request.on('error', () => {}).resume()
}

let server: Server
let port: number
beforeAll(async () => {
  server = createHttpServer(app)
  port = Number(new URL(await listen(server)).port)
})
afterAll(async () => {
  server.closeAllConnections()
  await new Promise((resolve) => server.close(resolve))
})

/** Sends these bytes, and returns everything received until the server closes the connection. */
async function raw(...parts: string[]): Promise<string> {
  const socket = connect(port, '127.0.0.1')
  let text = ''
  socket.setEncoding('utf8').on('data', (part: string) => (text += part))
  const closed = once(socket, 'close')
  for (const [index, part] of parts.entries()) {
    if (index > 0) await once(socket, 'data')
    socket.write(part)
  }
  await closed
  return text
}

const host = 'Host: localhost\r\n'
const cases: [string, string, number, string][] = [
  ['headers that are too large', `GET / HTTP/1.1\r\n${host}X-A: ${'a'.repeat(20_000)}\r\n\r\n`, 413, 'too_large'],
  ['an address that is too large', `GET /${'a'.repeat(20_000)} HTTP/1.1\r\n${host}\r\n`, 413, 'too_large'],
  ['a request that is not HTTP', 'nonsense\r\n\r\n', 400, 'bad_request'],
  ['a header with a NUL', `GET / HTTP/1.1\r\n${host}X-A: a\0b\r\n\r\n`, 400, 'bad_request'],
  ['two lengths', `GET / HTTP/1.1\r\n${host}Content-Length: 1\r\nContent-Length: 2\r\n\r\n`, 400, 'bad_request'],
  ['an unknown expectation', `GET / HTTP/1.1\r\n${host}Expect: tea\r\n\r\n`, 400, 'bad_request'],
  ['no host', 'GET / HTTP/1.1\r\n\r\n', 400, 'bad_request'],
  ['no host in HTTP/1.0', 'GET / HTTP/1.0\r\n\r\n', 400, 'bad_request'],
  ['two hosts', `GET / HTTP/1.1\r\n${host}HOST: evil.example\r\n\r\n`, 400, 'bad_request'],
] // prettier-ignore

describe('requests that Node refuses before the application sees them', () => {
  test.each(cases)('%s gets an answer in the usual form of errors', async (_, sent, status, code) => {
    const text = await raw(sent)
    const [head = '', body = ''] = text.split('\r\n\r\n')
    expect(head).toMatch(new RegExp(`^HTTP/1.1 ${status} [A-Z][A-Za-z ]+\r\n`))
    const headers = new Headers(
      head
        .split('\r\n')
        .slice(1)
        .map((line) => line.split(': ', 2) as [string, string]),
    )
    expect(headers.get('content-type')).toBe('application/json; charset=utf-8')
    expect(headers.get('connection')).toBe('close')
    expect(headers.get('content-length')).toBe(String(Buffer.byteLength(body)))
    const answer = errorAnswer.parse(JSON.parse(body))
    expect(answer.error.code).toBe(code)
    expect(headers.get('x-request-id')).toMatch(/^[0-9a-f-]{36}$/)
    expect(answer.meta.request_id).toBe(headers.get('x-request-id'))
  })

  test.each([`Expect: tea\r\n${host}`, ''])('a readable request id is kept (%j)', async (headers) => {
    const text = await raw(`GET / HTTP/1.1\r\nX-Request-Id: mine-1\r\n${headers}\r\n`)
    expect(text).toContain('X-Request-Id: mine-1\r\n')
    expect(text).toContain('"request_id":"mine-1"')
  })

  test('nothing is written into an answer that has begun', async () => {
    const text = await raw(
      `POST / HTTP/1.1\r\n${host}Transfer-Encoding: chunked\r\n\r\n`,
      'this is no chunk\r\n',
    )
    expect(text).toContain('begun')
    expect(text).not.toContain('bad_request')
  })

  test('a second unreadable request gets the same answer as a first one', async () => {
    const text = await raw(`GET / HTTP/1.1\r\n${host}\r\n`, 'nonsense\r\n\r\n')
    expect(text).toMatch(/^HTTP\/1.1 200 OK\r\n[^]*fine.*HTTP\/1.1 400 Bad Request\r\n/s)
    expect(text).toContain('"code":"bad_request"')
  })

  test('well-formed requests pass, including HTTP/1.0 and `100-continue`', async () => {
    const close = 'Connection: close\r\n\r\n'
    expect(await raw(`GET / HTTP/1.1\r\n${host}${close}`)).toContain('fine')
    expect(await raw(`GET / HTTP/1.0\r\n${host}${close}`)).toContain('fine')
    const continued = await raw(`GET / HTTP/1.1\r\n${host}Expect: 100-continue\r\n${close}`)
    expect(continued).toMatch(/^HTTP\/1.1 100 Continue\r\n[^]*fine/)
  })
})

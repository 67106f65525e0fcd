import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import type { Server } from 'node:http'
import { get } from 'node:https'
import { connect as connectPlain } from 'node:net'
import { join } from 'node:path'
import { connect, type SecureVersion } from 'node:tls'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { createHttpServer } from '../../src/api/http-server.ts'
import { readTlsKeyPair } from '../../src/api/tls.ts'
import { temporaryFolder } from '../stack/temporary-folder.ts'
import { selfSigned } from '../support/self-signed.ts'
import { listen } from './server.ts'

const pair = readTlsKeyPair(selfSigned)
const ca = pair.cert

describe('an API with a certificate', () => {
  let server: Server
  let port: number
  beforeAll(async () => {
    server = createHttpServer((_request, response) => response.end('fine'), pair)
    port = Number(new URL(await listen(server)).port)
  })
  afterAll(async () => {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  })

  const protocolUpTo = async (maxVersion: SecureVersion): Promise<string | null> => {
    // The client's minimum version is lowered too, so that it is the server that refuses the connection.
    const socket = connect({ port, host: '127.0.0.1', ca, minVersion: 'TLSv1', maxVersion })
    try {
      await once(socket, 'secureConnect')
      return socket.getProtocol()
    } finally {
      socket.destroy()
    }
  }

  test('answers over TLS 1.3', async () => {
    expect(await protocolUpTo('TLSv1.3')).toBe('TLSv1.3')
    const [response] = await once(get({ port, host: '127.0.0.1', ca }), 'response')
    expect(response.statusCode).toBe(200)
    response.resume()
  })

  test.each(['TLSv1.2', 'TLSv1.1'] as const)('refuses %s, and continues', async (version) => {
    await expect(protocolUpTo(version)).rejects.toMatchObject({
      code: expect.stringMatching(
        /^ERR_SSL_(TLSV1_ALERT_PROTOCOL_VERSION|NO_PROTOCOLS_AVAILABLE|UNSUPPORTED_PROTOCOL)$/,
      ),
    })
    expect(await protocolUpTo('TLSv1.3')).toBe('TLSv1.3')
  })

  test('sends nothing to a client that does not use TLS', async () => {
    const socket = connectPlain(port, '127.0.0.1')
    let heard = ''
    socket.setEncoding('latin1').on('data', (text: string) => (heard += text))
    socket.on('error', () => {})
    socket.write('GET / HTTP/1.1\r\nHost: localhost\r\n\r\n')
    await new Promise((resolve) => socket.once('close', resolve))
    expect(heard).not.toContain('HTTP')
  })

  test('answers a request that is not HTTP in the usual form of errors', async () => {
    const socket = connect({ port, host: '127.0.0.1', ca })
    let heard = ''
    socket.setEncoding('utf8').on('data', (text: string) => (heard += text))
    socket.write('nonsense\r\n\r\n')
    await once(socket, 'close')
    expect(heard).toMatch(/^HTTP\/1.1 400 [^]*"code":"bad_request"/)
  })
})

describe('the files of the key pair', () => {
  test('an unreadable file is named with its variable', () => {
    const missing = join(temporaryFolder(), 'missing.pem')
    expect(() => readTlsKeyPair({ ...selfSigned, certFile: missing })).toThrow(
      `TLS_CERT_FILE \`${missing}\` cannot be read (ENOENT)`,
    )
    expect(() => readTlsKeyPair({ ...selfSigned, keyFile: missing })).toThrow(
      `TLS_KEY_FILE \`${missing}\` cannot be read (ENOENT)`,
    )
  })

  test('a pair that is not a certificate with its key is refused, naming both files', () => {
    const other = join(temporaryFolder(), 'other.pem')
    writeFileSync(other, 'no PEM')
    for (const files of [
      { ...selfSigned, certFile: other },
      { ...selfSigned, keyFile: other },
    ])
      expect(() => readTlsKeyPair(files)).toThrow(
        `TLS_CERT_FILE \`${files.certFile}\` and TLS_KEY_FILE \`${files.keyFile}\` are not a PEM certificate with its key`,
      )
  })
})

import { createServer, request as httpRequest, type IncomingMessage } from 'node:http'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { Readable } from 'node:stream'
import { expect, test } from '@jest/globals'
import { readFileUpload } from '../../src/api/file-upload.ts'

test('a form that does not arrive in time is refused, so that it does not hold memory', async () => {
  const refused = Promise.withResolvers<unknown>()
  const server = createServer((request) => {
    readFileUpload(request, { admit: async () => {}, works: () => {} }, 20).then(
      refused.resolve,
      refused.resolve,
    )
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const sent = httpRequest({
    port: (server.address() as AddressInfo).port,
    method: 'POST',
    headers: { 'content-type': 'multipart/form-data; boundary=x', 'content-length': 1_000 },
  })
  try {
    sent.on('error', () => {})
    sent.write('--x\r\ncontent-disposition: form-data; name="file"; filename="a.txt"\r\n\r\nhello')
    expect(await refused.promise).toMatchObject({
      code: 'bad_request',
      message: expect.stringContaining('did not arrive within'),
    })
  } finally {
    sent.destroy()
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  }
})

const place = { admit: async () => {}, works: () => {} }

/** Reads these bytes as a form with the boundary `b`. */
function readForm(bytes: string): Promise<unknown> {
  const headers = { 'content-type': 'multipart/form-data; boundary=b' }
  const request = Object.assign(Readable.from([Buffer.from(bytes, 'latin1')]), { headers })
  return readFileUpload(request as unknown as IncomingMessage, place)
}

const part = (...headers: string[]): string => `--b\r\n${headers.join('\r\n')}\r\n\r\nhello\r\n--b--\r\n`

test.each([
  ['a field', part('content-disposition: form-data')],
  ['a field with a file before it', `--b\r\ncontent-disposition: form-data; name="file"; filename="a"\r\n\r\nx\r\n${part('content-disposition: form-data')}`], // prettier-ignore
  ['a file', part('content-disposition: form-data; filename="a.txt"')],
  ['a file by its type', part('content-disposition: form-data', 'content-type: application/octet-stream')],
])('%s without a name is refused, and ends no process', async (_, bytes) => {
  await expect(readForm(bytes)).rejects.toMatchObject({ code: 'validation_error', details: [{ path: '' }] })
})

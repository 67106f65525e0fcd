import { createServer, request as httpRequest } from 'node:http'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
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

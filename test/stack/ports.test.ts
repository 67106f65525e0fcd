import { createServer } from 'node:net'
import { once } from 'node:events'
import { expect, test } from '@jest/globals'
import { freePort, isFree, listens } from '../../src/stack/ports.ts'

test('a free port is not one that the system could give to an outgoing connection meanwhile', async () => {
  const ports = await Promise.all(Array.from({ length: 100 }, () => freePort()))
  for (const port of ports) {
    expect(port).toBeGreaterThanOrEqual(12_000)
    expect(port).toBeLessThan(32_000)
  }
})

test('a port with a listener is not free, and answers', async () => {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as { port: number }
  expect(await isFree(port)).toBe(false)
  expect(await listens(`127.0.0.1:${port}`)).toBe(true)
  await new Promise((resolve) => server.close(resolve))
  expect(await isFree(port)).toBe(true)
})

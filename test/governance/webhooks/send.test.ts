import { createServer, type Server } from 'node:http'
import type { AddressInfo, LookupFunction } from 'node:net'
import { afterEach, expect, test } from '@jest/globals'
import { sendMessage, signatureOf } from '../../../src/governance/webhooks/send.ts'
import { loopbackHosts, type NamedHost } from '../../../src/shared/outgoing/hosts.ts'
import { createOutgoing, type Outgoing } from '../../../src/shared/outgoing/outgoing.ts'

const opened: { close(): unknown }[] = []
afterEach(async () => {
  for (const each of opened.splice(0)) await each.close()
})

const secret = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'
const other = 'whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD'

test('signs as the published example of Standard Webhooks', () => {
  const at = new Date(1_614_265_330_000)
  const target = { url: 'https://example.com/', secret }
  expect(signatureOf(target, 'msg_p5jXN8AQM9LWM0D4loKWxJek', '{"test": 2432232314}', at)).toEqual({
    'webhook-id': 'msg_p5jXN8AQM9LWM0D4loKWxJek',
    'webhook-timestamp': '1614265330',
    'webhook-signature': 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
  })
})

test('signs with a former secret until its time, and not afterwards', () => {
  const until = '2026-01-01T00:00:00.000Z'
  const target = { url: 'https://example.com/', secret, former: { secret: other, until } }
  const signatures = (now: string) => signatureOf(target, 'msg_1', '{}', new Date(now))['webhook-signature'].split(' ') // prettier-ignore
  expect(signatures('2025-12-31T23:59:59.000Z')).toHaveLength(2)
  expect(signatures(until)).toHaveLength(1)
})

const out = (hosts: readonly NamedHost[], lookup?: LookupFunction): Outgoing => {
  const made = createOutgoing({ hosts, ...(lookup === undefined ? {} : { lookup }) })
  opened.push(made)
  return made
}
const send = (outgoing: Outgoing, url: string, milliseconds = 15_000) =>
  sendMessage(outgoing, { url, secret }, { id: 'msg_1', message: '{}' }, new AbortController().signal, milliseconds) // prettier-ignore

async function listen(
  answer: Parameters<typeof createServer>[1],
): Promise<{ url: string; requests: number[] }> {
  const requests: number[] = []
  const server: Server = createServer((request, response) => {
    requests.push(Date.now())
    answer?.(request, response)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  opened.push({ close: () => (server.closeAllConnections(), server.close()) })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`, requests }
}

test('gives up on an answer that does not begin in time', async () => {
  const { url } = await listen(() => {})
  expect(await send(out(loopbackHosts), url, 100)).toMatchObject({
    delivered: false,
    status: null,
    error: expect.stringContaining('did not answer in time'),
  })
})

test('a body that trickles for ever does not matter', async () => {
  const { url } = await listen((_request, response) => {
    response.writeHead(202)
    const timer = setInterval(() => response.write('.'), 20)
    response.on('close', () => clearInterval(timer))
  })
  expect(await send(out(loopbackHosts), url)).toMatchObject({ delivered: true, status: 202 })
})

/** A name resolution that returns these addresses for every name. */
const answering =
  (...addresses: string[]): LookupFunction =>
  (_name, options, done) => {
    const found = addresses.map((address) => ({ address, family: address.includes(':') ? 6 : 4 }))
    if (options.all === true) done(null, found)
    else done(null, found[0]?.address ?? '', found[0]?.family)
  }

test.each([
  ['127.0.0.1'],
  ['10.1.2.3'],
  ['169.254.169.254'],
  ['168.63.129.16'],
  ['::1'],
  ['::ffff:127.0.0.1'],
  ['fd00:ec2::254'],
  // One public address among the resolved addresses must not make the name acceptable.
  ['8.8.8.8', '192.168.0.1'],
])('refuses a name that leads to %s', async (...addresses) => {
  const { requests } = await listen((_request, response) => void response.end())
  const attempt = await send(out([], answering(...addresses)), 'https://hooks.example.com/')
  expect(attempt).toMatchObject({ delivered: false, status: null })
  expect(attempt.error).toContain('cannot be reached')
  expect(requests).toEqual([])
})

test('refuses plain http and loopback unless the operator names the host', async () => {
  const { url, requests } = await listen((_request, response) => void response.end())
  const { port } = new URL(url)
  expect((await send(out([]), url)).error).toContain('plain http')
  for (const spelling of ['127.0.0.1', '0x7f.1', '2130706433', '[::ffff:127.0.0.1]', 'localhost'])
    expect((await send(out([]), `https://${spelling}:${port}/`)).error).toContain('cannot be reached')
  expect(requests).toEqual([])
  expect(await send(out([{ host: '127.0.0.1', port: Number(port) }]), url)).toMatchObject({ delivered: true })
})

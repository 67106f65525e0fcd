import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo, LookupFunction } from 'node:net'
import { afterAll, beforeAll, beforeEach } from '@jest/globals'
import { loopbackHosts, type NamedHost } from '../../../src/shared/outgoing/hosts.ts'
import { createOutgoing, type Bounds, type Outgoing } from '../../../src/shared/outgoing/outgoing.ts'

/* A service on this machine, and requests to it. It runs during the tests of the file that calls `useLocalService`. */

export const service = {
  port: 0,
  base: '',
  seen: [] as IncomingMessage[],
  answer: (_request: IncomingMessage, _response: ServerResponse): void => undefined,
}
const open: Outgoing[] = []

const server = createServer((request, response) => {
  service.seen.push(request)
  request.resume()
  service.answer(request, response)
})

export function useLocalService(): void {
  beforeAll(async () => {
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    service.port = (server.address() as AddressInfo).port
    service.base = `http://127.0.0.1:${service.port}`
  })
  beforeEach(() => {
    service.seen = []
    service.answer = (_, response) => void response.end('fine')
  })
  afterAll(async () => {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
    await Promise.all(open.map((each) => each.close()))
  })
}

export function outgoing(hosts: readonly NamedHost[] = loopbackHosts, lookup?: LookupFunction): Outgoing {
  const made = createOutgoing({ hosts, ...(lookup === undefined ? {} : { lookup }) })
  open.push(made)
  return made
}

/** A `fetch` that goes only below `/api` of the service, unless `more` says otherwise. */
export const within = (more: Partial<Bounds> = {}, from = outgoing()) =>
  from.fetchWithin({ addresses: [`${service.base}/api`], milliseconds: 60_000, bytes: 1_000_000, ...more })

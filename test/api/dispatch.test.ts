import { expect, test } from '@jest/globals'
import type { AddressInfo } from 'node:net'
import { once } from 'node:events'
import express from 'express'
import { goneSignal } from '../../src/api/dispatch.ts'

test('the calls of one request share one signal, which aborts when the client goes', async () => {
  const draining = new AbortController()
  let added = 0
  const signals = new Set<AbortSignal>()
  const app = express().get('/', (_request, response) => {
    const before = response.listenerCount('close')
    for (let call = 0; call < 50; call += 1) signals.add(goneSignal(response, { draining: draining.signal }))
    added = response.listenerCount('close') - before
    response.flushHeaders()
  })
  const server = app.listen(0, '127.0.0.1')
  await once(server, 'listening')
  try {
    const client = new AbortController()
    const { port } = server.address() as AddressInfo
    await fetch(`http://127.0.0.1:${port}/`, { signal: client.signal })
    const [signal] = signals
    expect([signals.size, added, signal?.aborted]).toEqual([1, 1, false])
    const aborted = once(signal as AbortSignal, 'abort')
    client.abort()
    await aborted
  } finally {
    server.closeAllConnections()
    server.close()
  }
})

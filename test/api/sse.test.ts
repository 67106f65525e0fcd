import { createServer, type Server, type ServerResponse } from 'node:http'
import { afterEach, describe, expect, test } from '@jest/globals'
import type { Response } from 'express'
import { openStream, type Stream, type StreamOptions } from '../../src/api/sse.ts'
import { listen } from './server.ts'

let server: Server | null = null
afterEach(async () => {
  await new Promise((resolve) => (server === null ? resolve(null) : server.close(resolve)))
})

/**
 * A stream without pings, so that only its writes call `stillAllowed`. Also returns everything that its reader gets.
 */
async function stream(stillAllowed: StreamOptions['stillAllowed']) {
  const opened = Promise.withResolvers<{ at: Stream; response: ServerResponse }>()
  server = createServer((_, response) => {
    const express = Object.assign(response, {
      status: (code: number) => Object.assign(response, { statusCode: code }),
    }) as unknown as Response
    const signal = new AbortController().signal
    opened.resolve({ at: openStream(express, { pingMilliseconds: 2 ** 30, stillAllowed, signal }), response })
  })
  const base = await listen(server)
  const read = fetch(base).then((answer) => answer.text())
  return { ...(await opened.promise), read }
}

describe('a stream', () => {
  test('writes nothing more to a caller who may no longer read', async () => {
    let allowed = true
    const { at, read } = await stream(() => Promise.resolve(allowed))
    await at.write('data: 1\n\n')
    allowed = false
    await at.write('data: 2\n\n')
    expect(at.signal.aborted).toBe(true)
    allowed = true
    await at.write('data: 3\n\n')
    at.end()
    expect(await read).toBe('data: 1\n\n')
  })

  test('writes nothing while the check fails', async () => {
    const { at, read } = await stream(() => Promise.reject(new Error('the database is gone')))
    await expect(at.write('data: 1\n\n')).rejects.toThrow('the database is gone')
    at.end()
    expect(await read).toBe('')
  })
})

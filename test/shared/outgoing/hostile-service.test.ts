import { createServer, type AddressInfo, type LookupFunction } from 'node:net'
import { gzipSync } from 'node:zlib'
import { describe, expect, jest, test } from '@jest/globals'
import { outgoing, service, useLocalService, within } from './local-service.ts'

useLocalService()

describe('a hostile service', () => {
  test('an endless answer ends at the limit', async () => {
    service.answer = (_, response) => {
      const more = (): void => {
        while (response.write(Buffer.alloc(65_536))) if (response.destroyed) return
        response.once('drain', more)
      }
      more()
    }
    await expect(within({ bytes: 300_000 })(`${service.base}/api`)).rejects.toMatchObject({
      problem: 'answer_too_large',
      mayHaveArrived: true,
    })
  })

  test('a small packed answer that unpacks to a large one ends at the limit', async () => {
    const bomb = gzipSync(Buffer.alloc(20_000_000))
    service.answer = (_, response) => void response.setHeader('content-encoding', 'gzip').end(bomb)
    await expect(within()(`${service.base}/api`)).rejects.toMatchObject({ problem: 'answer_too_large' })
  })

  test('JSON with too many values is refused before anybody parses it, whatever type it claims', async () => {
    service.answer = (_, response) =>
      void response.setHeader('content-type', 'text/plain').end(` [${Array(300_000).fill('{}').join()}]`)
    await expect(within()(`${service.base}/api`)).rejects.toMatchObject({
      problem: 'answer_too_large',
      message: expect.stringContaining('200000 values'),
    })
  })

  test('large answers are read one after the other if there is room for one only, small ones at once', async () => {
    service.answer = ({ url }, response) =>
      void response.end('x'.repeat(url === '/api/small' ? 1_000 : 900_000))
    const turns: (() => void)[] = []
    const asked: number[] = []
    const reserve = async (bytes: number): Promise<{ release(): void }> => {
      asked.push(bytes)
      const { promise, resolve } = Promise.withResolvers<void>()
      turns.push(resolve)
      if (turns.length === 1) resolve()
      await promise
      return {
        release() {
          turns.shift()
          turns[0]?.()
        },
      }
    }
    const send = within({ reserve })
    const large = Promise.all(Array.from({ length: 4 }, () => send(`${service.base}/api`)))
    expect((await send(`${service.base}/api/small`)).status).toBe(200)
    await large
    expect([asked.length, turns.length]).toEqual([4, 0])
    expect(asked.every((bytes) => bytes >= 4 * 900_000)).toBe(true)
  })

  test('an answer for which no room becomes free ends with the time limit', async () => {
    service.answer = (_, response) => void response.end('x'.repeat(900_000))
    const reserve = (_: number, signal: AbortSignal) =>
      new Promise<never>((__, reject) =>
        signal.addEventListener('abort', () => reject(signal.reason as Error)),
      )
    await expect(within({ milliseconds: 300, reserve })(`${service.base}/api`)).rejects.toMatchObject({
      problem: 'timeout',
    })
  })

  test('an answer that does not come ends with the time limit', async () => {
    service.answer = () => {}
    await expect(within({ milliseconds: 100 })(`${service.base}/api`)).rejects.toMatchObject({
      problem: 'timeout',
      mayHaveArrived: true,
    })
  })

  test('an answer that trickles ends with the same time limit', async () => {
    service.answer = (_, response) => {
      const drip = setInterval(() => response.write('.'), 20)
      response.once('close', () => clearInterval(drip))
    }
    await expect(within({ milliseconds: 200 })(`${service.base}/api`)).rejects.toMatchObject({
      problem: 'timeout',
    })
  })

  test('a cut connection may have taken the request', async () => {
    service.answer = (request) => void request.socket.destroy()
    await expect(within()(`${service.base}/api`, { method: 'POST', body: 'x' })).rejects.toMatchObject({
      problem: 'connection_lost',
      mayHaveArrived: true,
    })
  })

  test('a refused connection has not', async () => {
    const unused = createServer()
    await new Promise<void>((resolve) => unused.listen(0, '127.0.0.1', resolve))
    const address = `http://127.0.0.1:${(unused.address() as AddressInfo).port}`
    await new Promise((resolve) => unused.close(resolve))
    await expect(within({ addresses: [address] })(address, { method: 'POST' })).rejects.toMatchObject({
      problem: 'unreachable',
      mayHaveArrived: false,
      message: expect.stringContaining('cannot be reached'),
    })
  })

  test('a connection that opens while this process stands still carries no request', async () => {
    const now = performance.now.bind(performance)
    let stood = 0
    const clock = jest.spyOn(performance, 'now').mockImplementation(() => now() + stood)
    const lookup: LookupFunction = (_, __, callback) => {
      stood = 20_000
      callback(null, [{ address: '127.0.0.1', family: 4 }])
    }
    const hosts = [{ host: 'still.example', port: service.port }]
    const url = `http://still.example:${service.port}/api`
    const fetch = within({ addresses: [url] }, outgoing(hosts, lookup))
    await expect(fetch(url)).rejects.toMatchObject({ problem: 'unreachable', mayHaveArrived: false })
    expect(service.seen).toEqual([])
    clock.mockRestore()
    await (await fetch(url)).text()
    expect(service.seen).toHaveLength(1)
  })

  test('cancelling ends the request in flight with the caller’s own reason', async () => {
    const control = new AbortController()
    service.answer = () => control.abort(new Error('cancelled'))
    await expect(within({ signal: control.signal })(`${service.base}/api`)).rejects.toThrow('cancelled')
  })
})

import { describe, expect, test } from '@jest/globals'
import { until } from '../stack/until.ts'
import { isCall, names, useHttpServers, type HttpServers } from './http-gateway.ts'
import { event, stream } from './http-upstream.ts'
import { startGateway, textOf } from './run-mcp.ts'

/* Answers of servers over streamable HTTP that come as a stream of events. */

let service: HttpServers['service']
let server: HttpServers['server']
let start: HttpServers['start']
let calls: HttpServers['calls']
useHttpServers((started) => ({ service, server, start, calls } = started))

describe('an answer as a stream of events', () => {
  test('messages before the answer: progress, and a question to the client with its answer', async () => {
    server.script = (asked, response) => {
      if (!isCall(asked)) return false
      const { id, params } = asked.message
      const progress = { progressToken: params['_meta'].progressToken, progress: 1 }
      response.writeHead(200, stream)
      response.write(event({ jsonrpc: '2.0', method: 'notifications/progress', params: progress }))
      response.write(event({ jsonrpc: '2.0', id: 'roots', method: 'roots/list' }))
      void until('the answer arrives', () =>
        server.asked.some(({ message }) => message?.id === 'roots'),
      ).then(() => response.end(event({ jsonrpc: '2.0', id, result: { content: [] } })))
      return true
    }
    const gateway = await startGateway({
      servers: { web: { type: 'http', url: server.url } },
      env: { SERVICE_API_URL: service.url, SERVICE_API_KEY: 'csk_test' },
      capabilities: { roots: {} },
    })
    await gateway.tools()
    const id = gateway.ask('tools/call', { name: 'web__echo', _meta: { progressToken: 'p' } })
    await until('the question arrives', () => gateway.told('roots/list').length === 1)
    gateway.send({ id: gateway.told('roots/list')[0].id, result: { roots: [] } })
    expect((await gateway.answer(id)).result).toEqual({ content: [] })
    expect(gateway.told('notifications/progress')[0].params).toEqual({ progressToken: 'p', progress: 1 })
  })

  test.each(['\n', '\r\n', '\r'])('lines that end with %j, a comment, and data in two lines', async (end) => {
    server.script = (asked, response) => {
      if (!isCall(asked)) return false
      const text = JSON.stringify(
        { jsonrpc: '2.0', id: asked.message.id, result: { content: ['x'] } },
        null,
        1,
      )
      const [first, ...rest] = text.split('\n')
      const lines = [
        ': hello',
        'event: ping',
        'data: no',
        '',
        `data: ${first}`,
        `data: ${rest.join('')}`,
        '',
        '',
      ]
      response.writeHead(200, stream).end(lines.join(end))
      return true
    }
    const gateway = await start({})
    await gateway.tools()
    expect(await gateway.call('web__echo')).toEqual({ content: ['x'] })
  })

  test('that ends early goes on after its last event, as often as it brings something new', async () => {
    let number: unknown
    let rests = 0
    server.script = (asked, response) => {
      if (isCall(asked)) {
        number = asked.message.id
        response.writeHead(200, stream).end(event(null, 'e-0', 'retry: 10\n'))
        return true
      }
      const last = asked.headers['last-event-id']
      if (asked.verb !== 'GET' || last === undefined) return false
      rests += 1
      expect(last).toBe(`e-${rests - 1}`)
      response.writeHead(200, stream)
      response.end(
        rests < 15
          ? event(null, `e-${rests}`)
          : event({ jsonrpc: '2.0', id: number, result: { content: ['late'] } }, 'e-end'),
      )
      return true
    }
    const gateway = await start({})
    await gateway.tools()
    expect(await gateway.call('web__echo')).toEqual({ content: ['late'] })
    expect(calls()).toHaveLength(1)
  })

  test.each([
    ['without an event that it could go on after', event({ jsonrpc: '2.0', method: 'x' })],
    ['and brings nothing new', event(null, 'same', 'retry: 1\n')],
  ])('that ends early %s: the call may have taken effect', async (_name, text) => {
    server.script = (asked, response) => {
      if (!isCall(asked) && asked.headers['last-event-id'] === undefined) return false
      response.writeHead(200, stream).end(text)
      return true
    }
    const gateway = await start({})
    await gateway.tools()
    expect(textOf(await gateway.call('web__echo'))).toBe(
      'countersign: server `web` ended its answer too early; whether the call took effect is not known',
    )
    expect(calls()).toHaveLength(1)
  })

  test('messages that belong to no request: a changed list is read again', async () => {
    let tell: (() => void) | undefined
    let tools = ['echo']
    server.script = (asked, response) => {
      if (asked.verb === 'GET') {
        response.writeHead(200, stream).flushHeaders()
        tell = () =>
          void response.write(event({ jsonrpc: '2.0', method: 'notifications/tools/list_changed' }))
        return true
      }
      if (asked.message?.method !== 'tools/list') return false
      const result = { tools: tools.map((name) => ({ name, inputSchema: { type: 'object' } })) }
      response.writeHead(200, { 'content-type': 'application/json' })
      response.end(JSON.stringify({ jsonrpc: '2.0', id: asked.message.id, result }))
      return true
    }
    const gateway = await start({})
    expect(await names(gateway)).toEqual(['web__echo'])
    await until('it listens', () => tell !== undefined)
    tools = ['echo', 'more']
    tell?.()
    await until('it is told', () => gateway.told('notifications/tools/list_changed').length === 1)
    expect(await names(gateway)).toEqual(['web__echo', 'web__more'])
  })
})

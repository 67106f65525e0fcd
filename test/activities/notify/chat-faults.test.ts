import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { revokeConnection } from '../../../src/governance/connections/connections.ts'
import type { Fault } from '../../support/fault-proxy.ts'
import { startChatHome, type ChatHome } from './chat-home.ts'

/* Messages while requests to a stand-in for Slack fail. */

let home: ChatHome
beforeAll(async () => {
  home = await startChatHome()
})
beforeEach(async () => {
  home.proxy.choose = () => 'pass'
  await home.settle()
})
afterAll(() => home?.close())

const rows = () => home.rows()
const copies = (approvalId: string) => home.copies(approvalId)

describe('if Slack fails', () => {
  /** The fault of the first request of each of these methods for each recipient. */
  const first = (method: string, fault: Fault): void => {
    let left = 3
    home.proxy.choose = (_, path) => (path === method && (left -= 1) >= 0 ? fault : 'pass')
  }
  const rateLimited = { status: 429, headers: { 'retry-after': '1' } }

  test.each([
    ['the answer is lost', 'lose answer'],
    ['the request is lost', 'cut'],
    ['502 comes back after it was carried out', 'fail after'],
    ['503 comes back', { status: 503 }],
    ['HTML comes back', 'garble'],
    ['the answer comes slowly', 'slow'],
    ['it asks to wait', rateLimited],
    ['it refuses', { status: 200, body: '{"ok":false,"error":"channel_not_found"}' }],
  ] as const)('%s: each has one message, and its end is shown', async (_, fault) => {
    first('/chat.postMessage', fault)
    const id = await home.hold()
    await home.settle()
    expect(await copies(id)).toHaveLength(3)
    first('/chat.update', fault)
    await home.engine.vote(id, 'approver')
    await home.settle()
    expect((await copies(id)).map((text) => text.startsWith('*Approved*'))).toEqual([true, true, true])
  })

  test('for good: it is tried twice, and the list says why', async () => {
    home.proxy.choose = (_, path) => (path === '/chat.postMessage' ? { status: 503 } : 'pass')
    const id = await home.hold()
    await home.settle()
    const failed = (await rows()).filter(({ subject }) => subject === id)
    expect(failed.map((row) => [row.state, row.attempts])).toEqual(Array.from({ length: 3 }, () => ['failed', 2]))
    home.proxy.choose = () => 'pass'
    await home.engine.vote(id, 'approver')
    await home.settle()
    expect(await copies(id)).toEqual([])
  }) // prettier-ignore

  test('the decision comes while a message is under way: its copy is edited', async () => {
    const id = await home.hold()
    const arrived = Promise.withResolvers<void>()
    const decided = Promise.withResolvers<void>()
    home.proxy.choose = async (_, path): Promise<Fault> => {
      if (path !== '/chat.postMessage') return 'pass'
      arrived.resolve()
      await decided.promise
      return 'pass'
    }
    await home.plan()
    const chat = home.send()
    await arrived.promise
    await home.engine.vote(id, 'approver')
    await home.plan()
    decided.resolve()
    await home.quiet()
    await chat.stop()
    const texts = await copies(id)
    expect(texts.length).toBeGreaterThan(0)
    for (const text of texts) expect(text).toMatch(/^\*Approved\*/)
  })

  test('a connection is revoked: nothing is sent, and no error is thrown', async () => {
    const id = await home.hold()
    await home.plan()
    const { engine } = home
    const own = engine.context.db.selectFrom('connections').select('id').where('status', '=', 'active')
    await revokeConnection(engine.context, engine.caller('owner'), (await own.executeTakeFirstOrThrow()).id)
    await home.settle()
    const failed = (await rows()).filter(({ subject }) => subject === id)
    expect(failed.map((row) => row.last_error)).toEqual(['tool_not_available', 'tool_not_available', 'tool_not_available'])
    await home.connectSlack()
  }) // prettier-ignore
})

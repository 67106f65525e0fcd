import { afterAll, beforeAll, beforeEach, expect, test } from '@jest/globals'
import { findCard } from '../../../src/activities/tools/trello/find-card.ts'
import { startFaultProxy, type FaultProxy } from '../../support/fault-proxy.ts'
import {
  listElsewhere,
  startTrello,
  trelloCredential,
  trelloWith,
  type TrelloEmulator,
} from '../../support/trello-emulator.ts'
import { rejection, toolCall } from './call.ts'
import { connectionTo, contextWith, runBody } from './connection.ts'

/* The look for a card whose answer was lost. The card may have left its board before the look. */

const { key, token } = trelloCredential
const authorization = `OAuth oauth_consumer_key="${key}", oauth_token="${token}"`

let trello: TrelloEmulator
let proxy: FaultProxy
beforeAll(async () => {
  trello = await startTrello(trelloWith(['To do', 'Done'], ['old']))
  proxy = await startFaultProxy(trello.url)
})
beforeEach(() => {
  proxy.choose = () => 'pass'
})
afterAll(() => Promise.all([proxy?.close(), trello?.close()]))

const context = () => contextWith(connectionTo('trello', trelloCredential, proxy.url))
let calls = 0
/** A call of its own, with the look for it. */
function newCall() {
  const params = { board: 'board001', list: 'To do', name: 'n' }
  const call = toolCall(params, { idempotencyKey: `call-${(calls += 1)}` })
  return {
    /** Makes the card. Returns its output. */
    make: async () =>
      ((await runBody('trello_create_card', call, context())) as { output: { id: string } }).output,
    find: () => findCard(call, context(), { sentSecondsAgo: 1 }),
  }
}
/** Sends a request past the proxy, as another program does. */
const ask = async (method: string, path: string, body?: object): Promise<void> => {
  const answer = await fetch(`${trello.url}${path}`, {
    method,
    headers: { authorization, 'content-type': 'application/json' },
    body: body === undefined ? null : JSON.stringify(body),
  })
  expect(answer.status).toBe(200)
}
const moveTo = (id: string, idList: string) => ask('PUT', `/1/cards/${id}`, { idList })
/** Trello answers with these actions of the board. */
const acting = (actions: readonly object[]): void => {
  proxy.choose = (_, path) =>
    path.startsWith('/1/boards/board001/actions') ? { status: 200, body: JSON.stringify(actions) } : 'pass'
}
const action = (type: string, id: string) => ({ type, data: { card: { id } } })

test('a card is found on its board, and one that was not made is absent', async () => {
  const { make, find } = newCall()
  expect(await find()).toEqual({ kind: 'absent' })
  const output = await make()
  expect(await find()).toEqual({ kind: 'done', output })
})

test('a card that was moved to another board is found', async () => {
  const { make, find } = newCall()
  const output = await make()
  await moveTo(output.id, listElsewhere.id)
  expect(await find()).toEqual({ kind: 'done', output })
})

test.each(['createCard', 'moveCardFromBoard'])(
  'a card that was moved is found by the action %s alone',
  async (type) => {
    const { make, find } = newCall()
    const output = await make()
    await moveTo(output.id, listElsewhere.id)
    acting([action(type, output.id)])
    expect(await find()).toEqual({ kind: 'done', output })
  },
)

test('a moved card of another call is not taken for the card of this call', async () => {
  const { id } = await newCall().make()
  await moveTo(id, listElsewhere.id)
  expect(await newCall().find()).toEqual({ kind: 'absent' })
})

test('a card that was deleted on its board is absent', async () => {
  const { make, find } = newCall()
  const { id } = await make()
  await ask('DELETE', `/1/cards/${id}`)
  expect(await find()).toEqual({ kind: 'absent' })
})

test.each([
  ['was deleted on another board', { status: 404 }],
  ['is on a board that the account may not see', { status: 401, body: 'unauthorized card permission' }],
])('a card that %s asks a person', async (_, answer) => {
  const { make, find } = newCall()
  const { id } = await make()
  await moveTo(id, listElsewhere.id)
  proxy.choose = (_, path) => (path.startsWith(`/1/cards/${id}`) ? answer : 'pass')
  expect(await find()).toEqual({ kind: 'unclear' })
})

test('a card that cannot be read hides no other card that left the board', async () => {
  const { make, find } = newCall()
  const output = await make()
  await moveTo(output.id, listElsewhere.id)
  acting([action('createCard', 'f'.repeat(24)), action('createCard', output.id)])
  expect(await find()).toEqual({ kind: 'done', output })
})

const idOf = (number: number) => number.toString(16).padStart(24, 'e')
test.each([
  ['a list left the board', [{ type: 'moveListFromBoard', data: { list: { id: idOf(0) } } }]],
  ['the list of actions is full', Array.from({ length: 1_000 }, () => action('deleteCard', idOf(0)))],
])('if %s, a person is asked', async (_, actions) => {
  acting(actions)
  expect(await newCall().find()).toEqual({ kind: 'unclear' })
})

test.each([
  [50, 'absent'],
  [51, 'unclear'],
])(
  'at most 50 cards are read one by one: of %d cards that left the board, the look says %s',
  async (count, kind) => {
    const { find } = newCall()
    const read: string[] = []
    const all = Array.from({ length: count }, (_, index) => action('createCard', idOf(index)))
    proxy.choose = (_, path) => {
      if (path.startsWith('/1/boards/board001/actions')) return { status: 200, body: JSON.stringify(all) }
      if (!path.startsWith('/1/cards/')) return 'pass'
      read.push(path)
      return { status: 200, body: JSON.stringify({ id: idOf(read.length), url: 'u', desc: 'other' }) }
    }
    expect(await find()).toEqual({ kind })
    expect(read).toHaveLength(50)
  },
)

test('an outage while a moved card is read is no answer', async () => {
  const { make, find } = newCall()
  const { id } = await make()
  await moveTo(id, listElsewhere.id)
  proxy.choose = (_, path) => (path.startsWith(`/1/cards/${id}`) ? { status: 503 } : 'pass')
  expect(await rejection(find())).toMatchObject({ code: 'trello_unavailable', retryable: true })
})

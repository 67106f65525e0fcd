import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { rejection, toolCall } from './call.ts'
import { connectionTo, contextWith, outputOf, runBody } from './connection.ts'
import { run as bodies } from '../../src/tools/trello/run.ts'
import type { ToolName } from '../../src/tools/index.ts'
import { type FaultProxy, startFaultProxy } from '../support/fault-proxy.ts'
import {
  listElsewhere,
  startTrello,
  trelloCredential,
  type TrelloEmulator,
  trelloWith,
} from '../support/trello-emulator.ts'

let trello: TrelloEmulator
let proxy: FaultProxy
/** Addresses of requests. */
const asked: string[] = []
beforeAll(async () => {
  trello = await startTrello(trelloWith(['To do', 'Done', 'Twice', 'Twice'], ['one', 'two']))
  proxy = await startFaultProxy(trello.url)
})
beforeEach(() => {
  asked.splice(0)
  proxy.choose = (_, path) => {
    asked.push(path)
    return 'pass'
  }
})
afterAll(() => Promise.all([proxy?.close(), trello?.close()]))

const context = () => contextWith(connectionTo('trello', trelloCredential, proxy.url))
const run = (name: ToolName, params: object): Promise<unknown> => outputOf(name, params, context())

const board = 'https://trello.com/b/board001/plans'
const one = {
  id: '000000000000000000000100',
  name: 'one',
  description: 'about one',
  list: 'To do',
  url: 'https://trello.com/c/c0000256/1-one',
}
const cardOf = (id: string) => trello.state().cards.find((each) => each.id === id)

const boards = ['board001', board, '000000000000000000000001']
test.each(boards)('cards of the board %s are listed', async (given) => {
  expect(await run('trello_list_cards', { board: given })).toEqual({ cards: [one, expect.anything()] })
  expect(await run('trello_list_cards', { board: given, list: 'Done' })).toEqual({ cards: [] })
})

const cards = ['c0000256', one.id, one.url, 'https://trello.com/c/c0000256']
test.each(cards)('the card %s is read', async (card) => {
  expect(await run('trello_get_card', { card })).toEqual(one)
})

test.each([
  ['https://evil.example/c/c0000256', 'invalid_params'],
  ['https://trello.com.evil.example/c/c0000256', 'invalid_params'],
  ['http://trello.com/c/c0000256', 'invalid_params'],
  [board, 'invalid_params'],
  ['../members/me', 'invalid_params'],
  ['c0000999', 'trello_not_found'],
])('%s names no card', async (card, code) => {
  expect(await rejection(run('trello_get_card', { card }))).toMatchObject({ code, retryable: false })
})

const askingOne = ['trello_get_card', 'trello_comment'] as const
test.each(askingOne)('%s does not take another card than the one asked for', async (name) => {
  const list = { name: 'To do' }
  const other = { id: one.id, shortLink: 'c0000256', name: 'one', desc: '', url: one.url, list }
  const body = JSON.stringify({ ...other, board: { id: one.id, name: 'Board' } })
  proxy.choose = (method, path) =>
    method === 'GET' && path.startsWith('/1/cards/c0000257') ? { status: 200, body } : 'pass'
  const params = { card: 'c0000257', ...(name === 'trello_comment' ? { text: 't' } : {}) }
  expect(await rejection(run(name, params))).toMatchObject({ code: 'trello_other_card', retryable: false })
  expect(trello.state().cards.flatMap(({ comments }) => comments)).toEqual([])
})

test.each([
  ['trello_list_cards', {}],
  ['trello_create_card', { list: 'To do', name: 'x' }],
] as const)('%s is led to no other board by a redirect, also within the host', async (name, params) => {
  const { length } = trello.state().cards
  proxy.choose = (_, path) => {
    asked.push(path)
    const isOther = path.includes('/board002/')
    return isOther ? { status: 302, headers: { location: path.replace('board002', 'board001') } } : 'pass'
  }
  const call = run(name, { board: 'https://trello.com/b/board002', ...params })
  expect(await rejection(call)).toMatchObject({ code: 'trello_redirected', retryable: false })
  expect(asked.filter((path) => path.includes('board001'))).toEqual([])
  expect(trello.state().cards).toHaveLength(length)
})

test('a card is created in the list with this name, and its mark is not read back', async () => {
  const description = 'x?key=1&token=2'
  const { id } = (await run('trello_create_card', { board, list: 'Done', name: 'new', description })) as {
    id: string
  }
  expect(cardOf(id)?.desc).toMatch(/^x\?key=1&token=2\n\ncountersign:call:[\da-f]{32}$/)
  expect(await run('trello_get_card', { card: id })).toMatchObject({ list: 'Done', description })
  // Proxies log addresses, so no address may contain the text or the credential.
  expect(asked.join()).not.toMatch(/x%3F|trello_key|trello_token/)
})

test.each([
  ['Nothing', 'trello_list_not_found'],
  ['Twice', 'invalid_params'],
])('a card is not created in the list %s', async (list, code) => {
  const { length } = trello.state().cards
  const wrong = rejection(run('trello_create_card', { board, list, name: 'n' }))
  expect(await wrong).toMatchObject({ code, retryable: false })
  expect(trello.state().cards).toHaveLength(length)
})

describe('a comment with a file', () => {
  const params = { card: one.url, text: 'see', attachment_name: 'plan.md', attachment_content: '# é' }
  const find = () => bodies.trello_comment.find(toolCall(params), context(), { sentSecondsAgo: 1 })
  const held = () => [cardOf(one.id)?.files.length, cardOf(one.id)?.comments.length]

  test('has both', async () => {
    const output = await run('trello_comment', params)
    expect(held()).toEqual([1, 1])
    expect(cardOf(one.id)?.files.at(-1)).toMatchObject({ name: 'plan.md', content: '# é' })
    expect(await find()).toEqual({ kind: 'done', output })
  })
})

test('approvers of a comment see its card', async () => {
  const { revision, fields } = await bodies.trello_comment.state(
    toolCall({ card: one.id, text: 't' }),
    context(),
  )
  expect(fields).toEqual({
    'name of the card': 'one',
    'list of the card': 'To do',
    'board of the card': 'Board',
    link: one.url,
  })
  const other = await bodies.trello_comment.state(toolCall({ card: 'c0000257', text: 't' }), context())
  expect(other.revision).not.toBe(revision)
})

test('an approval of a comment does not cover a card that was moved to a list of the same name on another board', async () => {
  const seen = () => bodies.trello_comment.state(toolCall({ card: one.id, text: 't' }), context())
  const { revision } = await seen()
  proxy.choose = () => {
    const board = { id: '000000000000000000000009', name: 'Board' }
    const card = { id: one.id, shortLink: 'c0000256', name: 'one', desc: '', url: one.url }
    return { status: 200, body: JSON.stringify({ ...card, list: { name: 'To do' }, board }) }
  }
  expect((await seen()).revision).not.toBe(revision)
})

describe('an approval of a new card', () => {
  const given = { board, list: 'To do', name: 'n' }
  const seen = (params = given) => bodies.trello_create_card.state(toolCall(params), context())
  const first = { id: '000000000000000000000010', name: 'To do' }
  /** Trello answers with this board and these lists. */
  const answering = (name: string, lists: readonly object[]): void => {
    const body = { id: '000000000000000000000001', name, url: board }
    proxy.choose = (_, path) => ({
      status: 200,
      body: JSON.stringify(path.includes('/lists') ? lists : body),
    })
  }

  test('shows the names of the board and the list, also if the call gives ids', async () => {
    const shown = { 'name of the board': 'Board', 'name of the list': 'To do', link: board }
    const { revision, fields } = await seen()
    expect(fields).toEqual(shown)
    const byIds = await seen({ ...given, board: '000000000000000000000001', list: first.id })
    expect(byIds).toEqual({ revision, fields: shown })
    expect((await seen({ ...given, list: 'Done' })).revision).not.toBe(revision)
  })

  test.each([
    ['a renamed board', 'Other', [first], given],
    ['another list of the same name', 'Board', [{ ...first, id: '000000000000000000000099' }], given],
    ['a renamed list', 'Board', [{ ...first, name: 'Public' }], { ...given, list: first.id }],
  ])('does not cover %s', async (_, name, lists, params) => {
    const { revision } = await seen(params)
    answering('Board', [first])
    expect((await seen(params)).revision).toBe(revision)
    answering(name, lists)
    expect((await seen(params)).revision).not.toBe(revision)
  })

  test.each([
    ['Nothing', 'trello_list_not_found'],
    ['Twice', 'invalid_params'],
  ])('cannot show the list %s', async (list, code) => {
    expect(await rejection(seen({ ...given, list }))).toMatchObject({ code })
  })
})

describe('the look for a card whose answer was lost, and that may have left its board', () => {
  const { key, token } = trelloCredential
  const authorization = `OAuth oauth_consumer_key="${key}", oauth_token="${token}"`

  let calls = 0
  /** A call of its own, with the look for it. */
  function newCall() {
    const params = { board: 'board001', list: 'To do', name: 'n' }
    const call = toolCall(params, { idempotencyKey: `call-${(calls += 1)}` })
    return {
      /** Makes the card. Returns its output. */
      make: async () =>
        ((await runBody('trello_create_card', call, context())) as { output: { id: string } }).output,
      find: () => bodies.trello_create_card.find(call, context(), { sentSecondsAgo: 1 }),
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

  const actionTypes = ['createCard', 'moveCardFromBoard']
  test.each(actionTypes)('a card that was moved is found by the action %s alone', async (type) => {
    const { make, find } = newCall()
    const output = await make()
    await moveTo(output.id, listElsewhere.id)
    acting([action(type, output.id)])
    expect(await find()).toEqual({ kind: 'done', output })
  })

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
})

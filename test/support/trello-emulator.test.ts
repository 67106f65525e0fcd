import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { createTrelloClient } from 'trello.js'
import { describe } from './atlassian/describe.ts'
import { describedIn } from './atlassian/described.ts'
import {
  listElsewhere,
  startTrello,
  trelloCredential,
  trelloWith,
  type TrelloEmulator,
} from './trello-emulator.ts'

/*
 * Tests the stand-in for Trello with trello.js. The client and the schemas of trello.js are generated from Trello's
 * OpenAPI description. The tests check paths, names of values and answers. They do not check how Trello handles the
 * values.
 */

test('the descriptions are those of the library', async () => {
  expect(describedIn('trello')).toEqual(await describe('trello'))
})

test.each([
  ['GET', '/1/cards/c0000256?list_fields=name', 'getCard: no query parameter list_fields'],
  ['GET', '/1/cards/c0000256/board', 'no operation GET /1/cards/c0000256/board'],
  ['POST', '/1/cards', 'createCard: no field colour'],
])('%s %s is refused: Trello describes no such request', async (method, path, issue) => {
  const { key, token } = trelloCredential
  const authorization = `OAuth oauth_consumer_key="${key}", oauth_token="${token}"`
  const body = method === 'GET' ? null : JSON.stringify({ name: 'n', colour: 'red' })
  const answer = await fetch(`${emulator.url}${path}`, { method, body, headers: { authorization } })
  expect([answer.status, await answer.text()]).toEqual([418, issue])
})

let emulator: TrelloEmulator
let client: ReturnType<typeof createTrelloClient>
beforeAll(async () => {
  emulator = await startTrello(trelloWith(['To do'], ['one']))
  const { key, token } = trelloCredential
  client = createTrelloClient({
    host: `${emulator.url}/1`,
    apiKey: key,
    apiToken: token,
    headers: { authorization: `OAuth oauth_consumer_key="${key}", oauth_token="${token}"` },
  })
})
afterAll(() => emulator?.close())

test('a card that the client creates is listed', async () => {
  const [list] = await client.boards.getBoardLists({ id: 'board001', filter: 'open' })
  const made = await client.cards.createCard({
    idList: list?.id ?? '',
    name: 'n',
    desc: 'd',
    pos: 'bottom',
  })
  const all = await client.boards.getBoardCards({ id: 'board001' })
  expect(all.find(({ id }) => id === made.id)).toMatchObject({ name: 'n', desc: 'd' })
  expect(await client.cards.getCard({ id: made.id, list: true })).toMatchObject({ id: made.id })
})

test('a comment that the client makes is listed', async () => {
  const made = await client.cards.createCardComment({ id: 'c0000256', text: 't' })
  const actions = await client.cards.getCardActions({ id: 'c0000256', filter: 'commentCard' })
  expect(actions.map(({ id }) => id)).toEqual([made.id])
})

test('a file that is uploaded is listed, and the upload is answered in the form of the list', async () => {
  const form = new FormData()
  form.append('name', 'a.txt')
  form.append('file', new Blob(['text']), 'a.txt')
  const { key, token } = trelloCredential
  const authorization = `OAuth oauth_consumer_key="${key}", oauth_token="${token}"`
  const path = `${emulator.url}/1/cards/c0000256/attachments`
  const answer = await fetch(path, { method: 'POST', body: form, headers: { authorization } })
  const made = (await answer.json()) as { id: string }
  const files = await client.cards.getCardAttachments({ id: 'c0000256' })
  expect(files).toEqual([expect.objectContaining({ id: made.id, name: 'a.txt' })])
  expect(Object.keys(made).toSorted()).toEqual(Object.keys(files[0] ?? {}).toSorted())
})

test('a card that the client moves to another board and deletes there is listed in the actions', async () => {
  const { id } = await client.cards.createCard({ idList: '000000000000000000000010', name: 'moves' })
  await client.cards.updateCard({ id, idList: listElsewhere.id, idBoard: listElsewhere.idBoard })
  const board = await client.boards.getBoardCards({ id: 'board001' })
  expect(board.map((each) => each.id)).not.toContain(id)
  await client.cards.deleteCard({ id })
  const typesAt = async (boardId: string) => {
    const actions = await client.boards.getBoardActions({ boardId, limit: 1000 })
    return actions.filter(({ data }) => data['card']?.id === id).map(({ type }) => type)
  }
  expect(await typesAt('board001')).toEqual(['moveCardFromBoard', 'createCard'])
  expect(await typesAt('board009')).toEqual(['deleteCard', 'moveCardToBoard'])
})

test('a board is shown', async () => {
  expect(await client.boards.getBoard({ id: 'board001' })).toMatchObject({ name: 'Board' })
})

test('all cards of a board and the account of the credential are shown', async () => {
  const all = await client.boards.getBoardCardsByFilter({ id: 'board001', filter: 'all' })
  expect(all.map(({ name }) => name)).toContain('one')
  expect(await client.members.getMember({ id: 'me' })).toMatchObject({ username: 'bot' })
})

import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { createTrelloClient } from 'trello.js'
import { startTrello, trelloCredential, trelloWith, type TrelloEmulator } from './trello-emulator.ts'

/*
 * The stand-in for Trello against the client and the schemas of trello.js, which are generated from Trello's OpenAPI
 * description. Paths, names of values and answers are checked, except the upload of files, which this client lacks. What
 * Trello does with the values is not checked.
 */

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

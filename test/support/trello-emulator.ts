import { createEmulator, defineEmulator } from 'emulate'
import { describedIn, issuesOf } from './atlassian/described.ts'
import type { Emulator } from './emulators.ts'

/*
 * A stand-in for the part of Trello that the tools use. Each request is checked against Trello's OpenAPI description
 * (`atlassian/described.ts`). `emulators.test.ts` sends requests with trello.js and checks the answers against
 * that library's schemas.
 */

export const trelloCredential = { key: 'trello_key', token: 'trello_token' } as const
const authorization = `OAuth oauth_consumer_key="${trelloCredential.key}", oauth_token="${trelloCredential.token}"`

interface TrelloFile {
  readonly id: string
  readonly name: string
  readonly date: string
  readonly content: string
}
interface TrelloComment {
  readonly id: string
  readonly text: string
  readonly date: string
}
export interface TrelloCard {
  readonly id: string
  readonly shortLink: string
  idList: string
  readonly name: string
  readonly desc: string
  readonly date: string
  readonly closed: boolean
  readonly comments: TrelloComment[]
  readonly files: TrelloFile[]
}
interface TrelloAction {
  readonly id: string
  readonly type: 'createCard' | 'deleteCard' | 'moveCardFromBoard' | 'moveCardToBoard'
  readonly date: string
  readonly idBoard: string
  readonly idCard: string
}
interface TrelloBoard {
  readonly id: string
  readonly shortLink: string
  readonly name: string
}
export interface TrelloState {
  readonly boards: readonly TrelloBoard[]
  readonly lists: { readonly id: string; readonly name: string; readonly idBoard: string }[]
  readonly cards: TrelloCard[]
  /** What happened on the boards. */
  readonly actions: TrelloAction[]
  last: number
}

const idOf = (number: number): string => number.toString(16).padStart(24, '0')

/** A list on the board `board009`. */
export const listElsewhere = { id: idOf(8), name: 'Elsewhere', idBoard: idOf(9) }

/**
 * Returns a state with two boards. The board `board001` has the lists `lists`, and all cards are in the first of these
 * lists. The board `board009` has only the list `listElsewhere`.
 */
export const trelloWith = (lists: readonly string[], cards: readonly string[] = []): TrelloState => ({
  boards: [
    { id: idOf(1), shortLink: 'board001', name: 'Board' },
    { id: listElsewhere.idBoard, shortLink: 'board009', name: 'Other board' },
  ],
  lists: [...lists.map((name, index) => ({ id: idOf(16 + index), name, idBoard: idOf(1) })), listElsewhere],
  actions: [],
  cards: cards.map((name, index) => cardOf(256 + index, idOf(16), name, `about ${name}`)),
  last: 4096,
})

function cardOf(number: number, idList: string, name: string, desc: string): TrelloCard {
  const shortLink = `c${String(number).padStart(7, '0')}`
  const date = new Date().toISOString()
  return { id: idOf(number), shortLink, idList, name, desc, date, closed: false, comments: [], files: [] }
}

const operations = describedIn('trello')
/**
 * The parameters of nested resources. Trello's OpenAPI description does not name these parameters. This page names
 * them:
 * https://developer.atlassian.com/cloud/trello/guides/rest-api/nested-resources/
 */
const nested = ['fields', 'filter', 'limit', 'since']
/** trello.js puts the credential into the query of the address. */
const credential = ['key', 'token']
const beyond = Object.fromEntries(
  operations.map(({ id }) => [id, id.startsWith('getBoardCards') ? [...nested, ...credential] : credential]),
)

const notFound = 'The requested resource was not found.'

const trello = defineEmulator<TrelloState>({
  name: 'trello',
  state: () => trelloWith([]),
  setup({ app, state }) {
    const boardAt = (id: string) => state.boards.find((each) => each.id === id || each.shortLink === id)
    const cardAt = (id: string) => state.cards.find((each) => each.id === id || each.shortLink === id)
    const boardOf = ({ idList }: TrelloCard): string =>
      state.lists.find(({ id }) => id === idList)?.idBoard ?? ''
    const note = (type: TrelloAction['type'], idBoard: string, { id: idCard }: TrelloCard): void => {
      state.actions.push({ id: idOf(next()), type, date: new Date().toISOString(), idBoard, idCard })
    }
    const shown = (card: TrelloCard) => {
      const { id, shortLink, idList, name, desc, closed, date: dateLastActivity } = card
      const url = `https://trello.com/c/${shortLink}/1-${encodeURIComponent(name)}`
      return { id, shortLink, idList, idBoard: boardOf(card), name, desc, closed, url, dateLastActivity }
    }
    const next = (): number => (state.last += 1)

    app.use('*', async (c, follow) => {
      if (c.req.header('authorization') !== authorization) return c.text('invalid token', 401)
      const issues = await issuesOf(operations, c.req.raw, beyond)
      // Trello would answer 400, but a test could mistake 400 for the refusal that it expects.
      return issues.length === 0 ? follow() : c.text(issues.join('; '), 418)
    })
    app.get('/1/members/me', (c) => c.json({ id: idOf(2), username: 'bot', fullName: 'Bot' }))
    app.get('/1/boards/:id', (c) => {
      const board = boardAt(c.req.param('id'))
      if (board === undefined) return c.text(notFound, 404)
      return c.json({ ...board, url: `https://trello.com/b/${board.shortLink}/plans`, closed: false })
    })
    app.get('/1/boards/:id/lists', (c) => {
      const board = boardAt(c.req.param('id'))
      if (board === undefined) return c.text(notFound, 404)
      const lists = state.lists.filter(({ idBoard }) => idBoard === board.id)
      return c.json(lists.map((each) => ({ ...each, closed: false, pos: 1 })))
    })
    app.get('/1/boards/:id/actions', (c) => {
      const board = boardAt(c.req.param('id'))
      if (board === undefined) return c.text(notFound, 404)
      const types = c.req.query('filter')?.split(',')
      const found = state.actions.filter(
        ({ type, date, idBoard }) =>
          idBoard === board.id && types?.includes(type) !== false && isSince(c.req.query('since'), date),
      )
      return c.json(found.toReversed().map(cardActionOf))
    })
    for (const path of ['/1/boards/:id/cards', '/1/boards/:id/cards/all'])
      app.get(path, (c) => {
        const board = boardAt(c.req.param('id'))
        if (board === undefined) return c.text(notFound, 404)
        const isAll = path.endsWith('/all')
        const found = state.cards.filter(
          (card) =>
            boardOf(card) === board.id && (isAll || !card.closed) && isSince(c.req.query('since'), card.date),
        )
        return c.json(found.map(shown))
      })
    app.get('/1/cards/:id', (c) => {
      const card = cardAt(c.req.param('id'))
      if (card === undefined) return c.text(notFound, 404)
      const list = state.lists.find(({ id }) => id === card.idList)
      const { id, name } = boardAt(boardOf(card)) ?? { id: '', name: '' }
      return c.json({
        ...shown(card),
        list: { ...list, closed: false, pos: 1 },
        ...(c.req.query('board') === 'true' ? { board: { id, name } } : {}),
      })
    })
    app.put('/1/cards/:id', async (c) => {
      const card = cardAt(c.req.param('id'))
      if (card === undefined) return c.text(notFound, 404)
      const { idList = '' } = await valuesOf(c.req)
      if (!state.lists.some(({ id }) => id === idList)) return c.text('invalid value for idList', 400)
      const before = boardOf(card)
      card.idList = idList
      if (boardOf(card) !== before) {
        note('moveCardFromBoard', before, card)
        note('moveCardToBoard', boardOf(card), card)
      }
      return c.json(shown(card))
    })
    app.delete('/1/cards/:id', (c) => {
      const card = cardAt(c.req.param('id'))
      if (card === undefined) return c.text(notFound, 404)
      note('deleteCard', boardOf(card), card)
      state.cards.splice(state.cards.indexOf(card), 1)
      return c.json({ limits: {} })
    })
    app.post('/1/cards', async (c) => {
      const given = await valuesOf(c.req)
      if (!state.lists.some(({ id }) => id === given['idList']))
        return c.text('invalid value for idList', 400)
      const card = cardOf(next(), given['idList'] ?? '', given['name'] ?? '', given['desc'] ?? '')
      state.cards.push(card)
      note('createCard', boardOf(card), card)
      return c.json(shown(card))
    })
    app.get('/1/cards/:id/actions', (c) => {
      const card = cardAt(c.req.param('id'))
      if (card === undefined) return c.text(notFound, 404)
      const found = card.comments.filter(({ date }) => isSince(c.req.query('since'), date))
      return c.json(found.toReversed().map(actionOf))
    })
    app.post('/1/cards/:id/actions/comments', async (c) => {
      const card = cardAt(c.req.param('id'))
      if (card === undefined) return c.text(notFound, 404)
      const { text = '' } = await valuesOf(c.req)
      const made = { id: idOf(next()), text, date: new Date().toISOString() }
      card.comments.push(made)
      return c.json(actionOf(made))
    })
    app.get('/1/cards/:id/attachments', (c) => c.json((cardAt(c.req.param('id'))?.files ?? []).map(fileOf)))
    app.post('/1/cards/:id/attachments', async (c) => {
      const card = cardAt(c.req.param('id'))
      const { file, name } = await c.req.parseBody()
      if (card === undefined || !(file instanceof File)) return c.text('invalid value for file', 400)
      const made = {
        id: idOf(next()),
        name: typeof name === 'string' ? name : file.name,
        date: new Date().toISOString(),
        content: await file.text(),
      }
      card.files.push(made)
      return c.json(fileOf(made))
    })
  },
})

const fileOf = ({ id, name, date, content }: TrelloFile) => {
  return { id, name, date, bytes: String(content.length) }
}

const actionOf = ({ id, text, date }: TrelloComment) => ({
  id,
  type: 'commentCard',
  date,
  idMemberCreator: idOf(2),
  data: { text },
})

const cardActionOf = ({ id, type, date, idBoard, idCard }: TrelloAction) => ({
  id,
  type,
  date,
  idMemberCreator: idOf(2),
  data: { card: { id: idCard }, board: { id: idBoard } },
})

const isSince = (since: string | undefined, date: string): boolean =>
  since === undefined || Date.parse(date) >= Date.parse(since)

/** Returns the values of a request. Trello accepts values in the query and in a JSON body. */
async function valuesOf(request: { url: string; text(): Promise<string> }): Promise<Record<string, string>> {
  const text = await request.text()
  const query = Object.fromEntries(new URL(request.url).searchParams)
  return { ...query, ...(text === '' ? {} : (JSON.parse(text) as Record<string, string>)) }
}

export interface TrelloEmulator extends Emulator {
  /** The boards, lists, cards and actions that the emulator holds now. */
  state(): TrelloState
}

export async function startTrello(seed: TrelloState): Promise<TrelloEmulator> {
  const emulator = await createEmulator({ service: trello, port: 0, seed })
  return {
    url: emulator.url.replace(/\/$/, ''),
    state: () => emulator.snapshot().state,
    close: () => emulator.close(),
  }
}

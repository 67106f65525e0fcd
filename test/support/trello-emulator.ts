import { createEmulator, defineEmulator } from 'emulate'
import { describedIn, issuesOf } from './atlassian/described.ts'
import type { Emulator } from './emulators.ts'

/*
 * A stand-in for the part of Trello that the tools use. Each request is checked against Trello's OpenAPI description
 * (`atlassian/described.ts`). `trello-emulator.test.ts` sends requests with trello.js and checks the answers against
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
  readonly idList: string
  readonly name: string
  readonly desc: string
  readonly date: string
  readonly closed: boolean
  readonly comments: TrelloComment[]
  readonly files: TrelloFile[]
}
export interface TrelloState {
  readonly board: { readonly id: string; readonly shortLink: string; readonly name: string }
  readonly lists: { readonly id: string; readonly name: string }[]
  readonly cards: TrelloCard[]
  last: number
}

const idOf = (number: number): string => number.toString(16).padStart(24, '0')

/** Returns a state with one board, `board001`, with these lists. Each card is in the first list. */
export const trelloWith = (lists: readonly string[], cards: readonly string[] = []): TrelloState => ({
  board: { id: idOf(1), shortLink: 'board001', name: 'Board' },
  lists: lists.map((name, index) => ({ id: idOf(16 + index), name })),
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
 * The parameters of nested resources, which Trello's OpenAPI description does not name. This page names them:
 * https://developer.atlassian.com/cloud/trello/guides/rest-api/nested-resources/
 */
const nested = ['fields', 'filter', 'limit', 'since']
/** trello.js puts the credential into the query of the address. */
const credential = ['key', 'token']
const beyond = Object.fromEntries(
  operations.map(({ id }) => [id, id.startsWith('getBoardCards') ? [...nested, ...credential] : credential]),
)

const trello = defineEmulator<TrelloState>({
  name: 'trello',
  state: () => trelloWith([]),
  setup({ app, state }) {
    const boardIs = (id: string): boolean => id === state.board.id || id === state.board.shortLink
    const cardAt = (id: string) => state.cards.find((each) => each.id === id || each.shortLink === id)
    const shown = ({ id, shortLink, idList, name, desc, closed, date }: TrelloCard) => {
      const url = `https://trello.com/c/${shortLink}/1-${encodeURIComponent(name)}`
      return {
        id,
        shortLink,
        idList,
        idBoard: state.board.id,
        name,
        desc,
        closed,
        url,
        dateLastActivity: date,
      }
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
      const { board } = state
      return boardIs(c.req.param('id'))
        ? c.json({ ...board, url: `https://trello.com/b/${board.shortLink}/plans`, closed: false })
        : c.text('The requested resource was not found.', 404)
    })
    app.get('/1/boards/:id/lists', (c) =>
      boardIs(c.req.param('id'))
        ? c.json(state.lists.map((each) => ({ ...each, closed: false, idBoard: state.board.id, pos: 1 })))
        : c.text('The requested resource was not found.', 404),
    )
    for (const path of ['/1/boards/:id/cards', '/1/boards/:id/cards/all'])
      app.get(path, (c) => {
        if (!boardIs(c.req.param('id'))) return c.text('The requested resource was not found.', 404)
        const since = Date.parse(c.req.query('since') ?? '1970-01-01T00:00:00Z')
        const isAll = path.endsWith('/all')
        const found = state.cards.filter(
          ({ closed, date }) => (isAll || !closed) && Date.parse(date) >= since,
        )
        return c.json(found.map(shown))
      })
    app.get('/1/cards/:id', (c) => {
      const card = cardAt(c.req.param('id'))
      if (card === undefined) return c.text('The requested resource was not found.', 404)
      const list = state.lists.find(({ id }) => id === card.idList)
      const { id, name } = state.board
      return c.json({
        ...shown(card),
        list: { ...list, closed: false, idBoard: id, pos: 1 },
        ...(c.req.query('board') === 'true' ? { board: { id, name } } : {}),
      })
    })
    app.post('/1/cards', async (c) => {
      const given = await valuesOf(c.req)
      if (!state.lists.some(({ id }) => id === given['idList']))
        return c.text('invalid value for idList', 400)
      const card = cardOf(next(), given['idList'] ?? '', given['name'] ?? '', given['desc'] ?? '')
      state.cards.push(card)
      return c.json(shown(card))
    })
    app.get('/1/cards/:id/actions', (c) => {
      const card = cardAt(c.req.param('id'))
      if (card === undefined) return c.text('The requested resource was not found.', 404)
      const since = Date.parse(c.req.query('since') ?? '1970-01-01T00:00:00Z')
      const found = card.comments.filter(({ date }) => Date.parse(date) >= since).toReversed()
      return c.json(found.map(actionOf))
    })
    app.post('/1/cards/:id/actions/comments', async (c) => {
      const card = cardAt(c.req.param('id'))
      if (card === undefined) return c.text('The requested resource was not found.', 404)
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

/** Trello accepts values in the query and as JSON. */
async function valuesOf(request: { url: string; text(): Promise<string> }): Promise<Record<string, string>> {
  const text = await request.text()
  const query = Object.fromEntries(new URL(request.url).searchParams)
  return { ...query, ...(text === '' ? {} : (JSON.parse(text) as Record<string, string>)) }
}

export interface TrelloEmulator extends Emulator {
  /** The board, lists and cards that the emulator holds now. */
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

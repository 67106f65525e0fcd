import * as ids from '../../policy/readers/place-ids.ts'
import { z } from 'zod'
import { hashOf } from '../../shared/canonical-json.ts'
import type { ToolName } from '../index.ts'
import { attachedOf, withFile, withoutComment, type Attached } from '../kit/attachment.ts'
import { listOf, type Service } from '../kit/exchange.ts'
import {
  invalidParams,
  ToolError,
  type Bodies,
  type Calling,
  type FinderOf,
  type ReadContext,
  type StateReaderOf,
  type ToolBody,
} from '../kit/executor.ts'
import { beforeSending, markOf, type Marked } from '../kit/marker.ts'
import { restOf, type Rest } from '../kit/rest.ts'
import type { tools } from './tools.ts'

const forbidden = [
  'trello_forbidden',
  'Trello does not let the connected account do this: make it a member of the board',
] as const

const errors: Service = {
  prefix: 'trello',
  title: 'Trello',
  // 401 is a refused credential (`invalid …`, `expired …`), but with these words a missing right.
  byWords: [{ status: 401, words: /^\s*"?unauthorized\b.*\bpermission\b/i, means: forbidden }],
  refusals: {
    400: [
      'trello_refused',
      'Trello does not take these values: check the ids, and that the text is not empty',
    ],
    403: forbidden,
    404: [
      'trello_not_found',
      'Trello has no such board or card, or the connected account may not see it: check the link, and make the account a member of the board',
    ],
    413: ['trello_too_large', 'the text or the file is larger than Trello takes: shorten it'],
  },
}

/** The library `trello.js` puts texts and the token into addresses. Only tests use it, for their stand-in. */
async function trelloOf(call: Calling, context: ReadContext, tool: ToolName): Promise<Rest> {
  return restOf(await context.tools.connection(call, tool, 'trello'), context.signal, errors)
}

/* Trello stores only texts that people see, so the mark of a call is the last line of one. */

// `withMark` writes two line breaks. With `\n*`, searching nothing but line breaks would take seconds.
const anyMark = /\n{0,2}countersign:call:[\da-f]{32}(?=\s*$)/

const withoutMark = (text: string): string => text.replace(anyMark, '')

/** A copied text may carry the mark of another call, which is removed. */
function withMark(text: string, call: Marked): string {
  const bare = withoutMark(text)
  return bare === '' ? markOf(call) : `${bare}\n\n${markOf(call)}`
}

const id = z.string().regex(/^[\da-f]{24}$/)
const url = z.string().max(2048)
const text = z.string()

/** On one board. (Lists: 500.) */
const mostCards = 5_000
/** In one answer. */
const mostLooked = 1_000

const cardFields = { id, name: text, desc: text.transform(withoutMark), url }
const lists = listOf(z.object({ id, name: text }), mostCards)
const cards = listOf(z.object({ ...cardFields, idList: id }), mostCards)
const aCard = z.object({
  ...cardFields,
  shortLink: text,
  list: z.object({ name: text }),
  board: z.object({ id, name: text }),
})
const aBoard = z.object({ id, name: text, url })
const madeCard = z.object({ id, url })
const made = z.object({ id })
const markedCard = z.object({ id, url, desc: text })
type MarkedCard = z.output<typeof markedCard>
const markedCards = listOf(markedCard, mostLooked)
/** Missing if an action is about a whole list. */
const boardActions = listOf(
  z.object({ type: text, data: z.object({ card: z.object({ id }).nullish() }) }),
  mostLooked,
)
const markedComments = listOf(z.object({ id, data: z.object({ text: text.nullish() }) }), mostLooked)
const files = listOf(z.object({ name: text, date: text }), mostLooked)

function required(found: string | null, name: string): string {
  if (found !== null) return found
  throw invalidParams(`\`${name}\` must be an id, or a link of \`trello.com\` to it`)
}

/** As rules read it. Throws `invalid_params`. */
export const boardIdOf = (text: string): string => required(ids.boardIdOf(text), 'board')

/** As rules read it. Throws `invalid_params`. */
export const cardIdOf = (text: string): string => required(ids.cardIdOf(text), 'card')

/** The open lists' names by id. */
async function listsOf(trello: Rest, board: string): Promise<ReadonlyMap<string, string>> {
  const path = `/1/boards/${boardIdOf(board)}/lists`
  const all = await trello.read(lists, { method: 'GET', path, query: { filter: 'open', fields: 'name' } })
  return new Map(all.map(({ id, name }) => [id, name]))
}

/** By id or name. Throws `trello_list_not_found` or `invalid_params`. */
function listIn(all: ReadonlyMap<string, string>, list: string): string {
  if (all.has(list)) return list
  const [id, ...more] = [...all].filter(([, name]) => name === list).map(([each]) => each)
  if (id === undefined)
    throw new ToolError(
      'trello_list_not_found',
      'the board has no open list with this name or id: write the name as the board shows it, capital letters included',
    )
  if (more.length > 0) throw invalidParams('the board has several lists with this name: give the id of one')
  return id
}

const listCards: ToolBody<'trello_list_cards'> = async (call, context) => {
  const { board, list } = call.params
  const trello = await trelloOf(call, context, 'trello_list_cards')
  const lists = await listsOf(trello, board)
  const only = list === undefined ? null : listIn(lists, list)
  const all = await trello.read(cards, {
    method: 'GET',
    path: `/1/boards/${boardIdOf(board)}/cards`,
    query: { filter: 'open', fields: 'name,desc,idList,url' },
  })
  const shown = all
    .filter(({ idList }) => lists.has(idList) && (only === null || idList === only))
    .map(({ id, name, desc, idList, url }) => {
      return { id, name, description: desc, list: lists.get(idList) ?? '', url }
    })
  return { output: { cards: shown } }
}

/** Throws `trello_other_card`: rules have decided only about `card`. */
async function cardAt(trello: Rest, card: string) {
  const asked = cardIdOf(card)
  const found = await trello.read(aCard, {
    method: 'GET',
    path: `/1/cards/${asked}`,
    query: { fields: 'name,desc,url,shortLink', list: true, board: true, board_fields: 'name' },
  })
  if (asked === found.id || asked === found.shortLink) return found
  throw new ToolError(
    'trello_other_card',
    'Trello answered with another card: give the id or the link of the card itself',
  )
}

const getCard: ToolBody<'trello_get_card'> = async (call, context) => {
  const trello = await trelloOf(call, context, 'trello_get_card')
  const { id, name, desc, list, url } = await cardAt(trello, call.params.card)
  return { output: { id, name, description: desc, list: list.name, url } }
}

/** For the approvers of a comment. A new description does not change the revision. */
const readCardState: StateReaderOf<'trello_comment'> = async (call, context) => {
  const trello = await trelloOf(call, context, 'trello_comment')
  const { id, name, list, board, url } = await cardAt(trello, call.params.card)
  return {
    // Other people can read the cards of another board.
    revision: hashOf({ id, name, list: list.name, board: board.id, boardName: board.name }),
    fields: {
      'name of the card': name,
      'list of the card': list.name,
      'board of the card': board.name,
      link: url,
    },
  }
}

/** The revision has the list's id, because another list may later get the same name. */
const readListState: StateReaderOf<'trello_create_card'> = async (call, context) => {
  const trello = await trelloOf(call, context, 'trello_create_card')
  const board = await trello.read(aBoard, {
    method: 'GET',
    path: `/1/boards/${boardIdOf(call.params.board)}`,
    query: { fields: 'name,url' },
  })
  const lists = await listsOf(trello, call.params.board)
  const list = listIn(lists, call.params.list)
  const name = lists.get(list) ?? ''
  return {
    revision: hashOf({ board: board.id, boardName: board.name, list, listName: name }),
    fields: { 'name of the board': board.name, 'name of the list': name, link: board.url },
  }
}

/* Trello takes no idempotency key, and stores no hidden data, so a text ends with the mark of its call. */

const createCard: ToolBody<'trello_create_card'> = async (call, context) => {
  const { board, list, name, description = '' } = call.params
  const trello = await trelloOf(call, context, 'trello_create_card')
  const idList = listIn(await listsOf(trello, board), list)
  await context.pointOfNoReturn()
  const { id, url } = await trello.write(madeCard, {
    method: 'POST',
    path: '/1/cards',
    body: { idList, name, desc: withMark(description, call), pos: 'bottom' },
  })
  return { output: { id, url } }
}

const comment: ToolBody<'trello_comment'> = async (call, context) => {
  const attached = attachedOf(call.params)
  const trello = await trelloOf(call, context, 'trello_comment')
  const card = await cardAt(trello, call.params.card)
  await context.pointOfNoReturn()
  const { id } = await withFile('Trello', attached, attach, () =>
    trello.write(made, {
      method: 'POST',
      path: `/1/cards/${card.id}/actions/comments`,
      body: { text: withMark(call.params.text, call) },
    }),
  )
  return { output: { id, url: `${card.url}#comment-${id}` } }

  function attach({ name, file }: Attached): Promise<unknown> {
    const form = new FormData()
    form.append('name', name)
    form.append('file', file, name)
    return trello.write(made, { method: 'POST', path: `/1/cards/${card.id}/attachments`, body: form })
  }
}

const findComment: FinderOf<'trello_comment'> = async (call, context, look) => {
  const attached = attachedOf(call.params)
  const trello = await trelloOf(call, context, 'trello_comment')
  const path = `/1/cards/${cardIdOf(call.params.card)}`
  const since = beforeSending(look)
  const listed = await trello.read(markedComments, {
    method: 'GET',
    path: `${path}/actions`,
    query: { filter: 'commentCard', since: since.toISOString(), limit: mostLooked, fields: 'data' },
  })
  const found = listed.find(({ data }) => data.text?.includes(markOf(call)))
  if (found !== undefined) {
    const { url } = await cardAt(trello, call.params.card)
    return { kind: 'done', output: { id: found.id, url: `${url}#comment-${found.id}` } }
  }
  if (listed.length === mostLooked) return { kind: 'unclear' }
  return withoutComment(attached, since.getTime(), () =>
    trello.read(files, { method: 'GET', path: `${path}/attachments`, query: { fields: 'name,date' } }),
  )
}

/** One by one. Trello allows 100 requests in 10 s. */
const mostRead = 50

/** They show which cards were on the board. An automation may move a new card to another board at once. */
const filter = 'createCard,deleteCard,moveCardFromBoard,moveListFromBoard'

/** Also in archived cards, in all lists, and in cards that have left the board: somebody may have moved it. */
const findCard: FinderOf<'trello_create_card'> = async (call, context, look) => {
  const trello = await trelloOf(call, context, 'trello_create_card')
  const path = `/1/boards/${boardIdOf(call.params.board)}`
  const query = { since: beforeSending(look).toISOString(), limit: mostLooked }
  const listed = await trello.read(markedCards, {
    method: 'GET',
    path: `${path}/cards/all`,
    query: { ...query, fields: 'desc,url' },
  })
  const found = listed.find((card) => isOf(call, card))
  if (found !== undefined) return doneBy(found)
  if (listed.length === mostLooked) return { kind: 'unclear' }
  const { cards, isAll } = await leftBoard(trello, path, query, new Set(listed.map(({ id }) => id)))
  let isRead = isAll
  for (const id of cards) {
    const card = await cardIfShown(trello, id)
    if (card !== null && isOf(call, card)) return doneBy(card)
    isRead &&= card !== null
  }
  return { kind: isRead ? 'absent' : 'unclear' }
}

const isOf = (call: Marked, { desc }: MarkedCard): boolean => desc.includes(markOf(call))

const doneBy = ({ id, url }: MarkedCard) => ({ kind: 'done', output: { id, url } }) as const

/** Made on the board or moved away since `query.since`, not `listed`, not deleted. `isAll`: there are no more. */
async function leftBoard(
  trello: Rest,
  path: string,
  query: { readonly since: string; readonly limit: number },
  listed: ReadonlySet<string>,
): Promise<{ readonly cards: readonly string[]; readonly isAll: boolean }> {
  const actions = await trello.read(boardActions, {
    method: 'GET',
    path: `${path}/actions`,
    query: { ...query, filter, fields: 'type,data' },
  })
  const idsOf = (type: string) =>
    actions.flatMap((each) => (each.type === type && each.data.card ? [each.data.card.id] : []))
  const deleted = new Set(idsOf('deleteCard'))
  const left = new Set([...idsOf('createCard'), ...idsOf('moveCardFromBoard')])
  const cards = [...left].filter((id) => !listed.has(id) && !deleted.has(id))
  // The move of a whole list does not name its cards.
  const isAll = actions.length < mostLooked && !actions.some(({ type }) => type === 'moveListFromBoard')
  return { cards: cards.slice(0, mostRead), isAll: isAll && cards.length <= mostRead }
}

/** Null if Trello does not show it: deleted on another board, or on one that the account may not see. */
async function cardIfShown(trello: Rest, id: string): Promise<MarkedCard | null> {
  try {
    return await trello.read(markedCard, {
      method: 'GET',
      path: `/1/cards/${id}`,
      query: { fields: 'desc,url' },
    })
  } catch (error) {
    const isHidden =
      error instanceof ToolError && ['trello_not_found', 'trello_forbidden'].includes(error.code)
    if (isHidden) return null
    throw error
  }
}

export const run = {
  trello_list_cards: { body: listCards },
  trello_get_card: { body: getCard },
  trello_create_card: { body: createCard, find: findCard, state: readListState },
  trello_comment: { body: comment, find: findComment, state: readCardState },
} satisfies Bodies<typeof tools>

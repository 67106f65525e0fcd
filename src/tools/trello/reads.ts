import { hashOf } from '../../shared/canonical-json.ts'
import type { StateReaderOf, ToolBody } from '../kit/params.ts'
import { ToolError } from '../kit/executor.ts'
import type { Rest } from '../kit/rest-client.ts'
import { listIn, listsOf, trelloOf } from './client.ts'
import { aBoard, aCard, cards } from './forms.ts'
import { boardIdOf, cardIdOf } from './place.ts'

export const listCards: ToolBody<'trello_list_cards'> = async (call, context) => {
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

/**
 * Reads a card. Throws ToolError `trello_other_card` if Trello answers with another card, because rules have decided
 * only about `card`.
 */
export async function cardAt(trello: Rest, card: string) {
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
    { retryable: false },
  )
}

export const getCard: ToolBody<'trello_get_card'> = async (call, context) => {
  const trello = await trelloOf(call, context, 'trello_get_card')
  const { id, name, desc, list, url } = await cardAt(trello, call.params.card)
  return { output: { id, name, description: desc, list: list.name, url } }
}

/**
 * Reads the state of the card for the approvers of a comment. The revision covers only the name, the list and the board
 * of the card. Example: a new description does not change the revision.
 */
export const readCardState: StateReaderOf<'trello_comment'> = async (call, context) => {
  const trello = await trelloOf(call, context, 'trello_comment')
  const { id, name, list, board, url } = await cardAt(trello, call.params.card)
  return {
    // The board is part of the revision, because other people can read the cards of another board.
    revision: hashOf({ id, name, list: list.name, board: board.id, boardName: board.name }),
    fields: {
      'name of the card': name,
      'list of the card': list.name,
      'board of the card': board.name,
      link: url,
    },
  }
}

/**
 * Reads the board and the list that approvers of a new card see. The revision has the list's id, because another list
 * may later get the same name.
 */
export const readListState: StateReaderOf<'trello_create_card'> = async (call, context) => {
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

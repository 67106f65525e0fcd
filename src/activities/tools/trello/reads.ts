import { hashOf } from '../../../shared/canonical-json.ts'
import type { StateReaderOf, ToolBody } from '../params.ts'
import type { Rest } from '../rest/client.ts'
import { listIn, listsOf, trelloOf } from './client.ts'
import { aCard, cards } from './forms.ts'
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

export const cardAt = (trello: Rest, card: string) =>
  trello.read(aCard, {
    method: 'GET',
    path: `/1/cards/${cardIdOf(card)}`,
    query: { fields: 'name,desc,url', list: true, list_fields: 'name' },
  })

export const getCard: ToolBody<'trello_get_card'> = async (call, context) => {
  const trello = await trelloOf(call, context, 'trello_get_card')
  const { id, name, desc, list, url } = await cardAt(trello, call.params.card)
  return { output: { id, name, description: desc, list: list.name, url } }
}

/** What approvers of a comment see of its card. The revision is made of just this. */
export const readCardState: StateReaderOf<'trello_comment'> = async (call, context) => {
  const trello = await trelloOf(call, context, 'trello_comment')
  const { id, name, list, url } = await cardAt(trello, call.params.card)
  return {
    revision: hashOf({ id, name, list: list.name }),
    fields: { 'name of the card': name, 'list of the card': list.name, link: url },
  }
}

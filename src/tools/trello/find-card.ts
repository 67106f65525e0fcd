import { ToolError, type ToolCall } from '../kit/executor.ts'
import { beforeSending, markOf } from '../kit/marker.ts'
import type { FinderOf } from '../kit/params.ts'
import type { Rest } from '../kit/rest-client.ts'
import { trelloOf } from './client.ts'
import { boardActions, markedCard, markedCards, mostLooked, type MarkedCard } from './forms.ts'
import { boardIdOf } from './place.ts'

/** A look reads at most this many cards one by one, because Trello allows 100 requests in 10 s. */
const mostRead = 50

/**
 * The actions that show which cards were on the board. A list of the present cards is not enough, because an automation
 * may move a new card to another board at once.
 */
const filter = 'createCard,deleteCard,moveCardFromBoard,moveListFromBoard'

/**
 * Looks for the mark in all new cards of the board. These include archived cards and cards of all lists, because
 * somebody may have moved or archived the card. If no card has the mark, looks for it in the cards that have left the
 * board.
 */
export const findCard: FinderOf<'trello_create_card'> = async (call, context, look) => {
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

const isOf = (call: Pick<ToolCall<unknown>, 'idempotencyKey'>, { desc }: MarkedCard): boolean =>
  desc.includes(markOf(call))

const doneBy = ({ id, url }: MarkedCard) => ({ kind: 'done', output: { id, url } }) as const

/**
 * Returns the ids of at most `mostRead` cards that have left the board. These cards were created on the board or moved
 * to another board since `query.since`, and are not in `listed`. Cards that were deleted on the board are left out. If
 * `isAll` is false, there may be more such cards.
 */
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
  // If a whole list was moved to another board, Trello's record of the move does not name the cards of the list.
  const isAll = actions.length < mostLooked && !actions.some(({ type }) => type === 'moveListFromBoard')
  return { cards: cards.slice(0, mostRead), isAll: isAll && cards.length <= mostRead }
}

/**
 * Reads a card. Returns null if Trello does not show the card. The reason is that the card was moved to another board
 * and deleted there, or that the account may not see the board that the card is on now.
 */
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

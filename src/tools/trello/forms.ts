import { z } from 'zod'
import { listOf } from '../kit/bounded-list.ts'
import { withoutMark } from './mark.ts'

/* The fields that are read in Trello's answers. Other fields are ignored. */

const id = z.string().regex(/^[\da-f]{24}$/)
const url = z.string().max(2048)
const text = z.string()

/** Trello allows 5,000 open cards and 500 open lists on a board. */
const mostCards = 5_000
/** A finder gets at most this many entries in one answer. */
export const mostLooked = 1_000

const cardFields = { id, name: text, desc: text.transform(withoutMark), url }

export const lists = listOf(z.object({ id, name: text }), mostCards)
export const cards = listOf(z.object({ ...cardFields, idList: id }), mostCards)
export const aCard = z.object({
  ...cardFields,
  shortLink: text,
  list: z.object({ name: text }),
  board: z.object({ id, name: text }),
})
export const aBoard = z.object({ id, name: text, url })
export const madeCard = z.object({ id, url })
export const made = z.object({ id })

export const markedCard = z.object({ id, url, desc: text })
export type MarkedCard = z.output<typeof markedCard>
export const markedCards = listOf(markedCard, mostLooked)
/** If an action is about a whole list, `card` is missing. */
export const boardActions = listOf(
  z.object({ type: text, data: z.object({ card: z.object({ id }).nullish() }) }),
  mostLooked,
)
export const markedComments = listOf(z.object({ id, data: z.object({ text: text.nullish() }) }), mostLooked)
export const files = listOf(z.object({ name: text, date: text }), mostLooked)

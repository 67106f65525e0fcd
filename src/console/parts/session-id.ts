import { h, type ComponentChild } from 'preact'
import { Words } from './words.ts'

/** Characters of an id that is shown whole, and of each end of a longer one. */
const most = 20
const end = 8

/** A client's id of a session. A long id keeps its end too, because ids can have the same beginning. */
export function SessionId({ id }: { readonly id: string }): ComponentChild {
  const text = id.length <= most ? id : `${id.slice(0, end).toWellFormed()}…${id.slice(-end).toWellFormed()}`
  return h('code', null, h(Words, { text }))
}

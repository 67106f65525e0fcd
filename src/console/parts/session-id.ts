import { h, type ComponentChild } from 'preact'
import { Words } from './words.ts'

/**
 * An id of at most this many characters is shown whole. For a longer id, only the first `end` and the last `end`
 * characters are shown.
 */
const most = 20
const end = 8

/**
 * Shows the id that a client gave to an agent's session. The end of a long id is also shown, because several ids can
 * begin with the same characters.
 */
export function SessionId({ id }: { readonly id: string }): ComponentChild {
  const text = id.length <= most ? id : `${id.slice(0, end).toWellFormed()}…${id.slice(-end).toWellFormed()}`
  return h('code', null, h(Words, { text }))
}

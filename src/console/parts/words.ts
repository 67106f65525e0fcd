import { h, type ComponentChild } from 'preact'
import {
  isListOfPointers,
  piecesOf,
  visible,
  type Part,
  type TextKind,
} from '../../policy/readers/look-alikes.ts'

export function Alert({ message }: { message: string | null }) {
  return message === null ? null : h('p', { class: 'alert', role: 'alert' }, h(Message, { text: message }))
}

/*
 * Text from outside the service is always plain text, and cannot change how the rest of the page looks. Whatever a
 * reader could overlook or take for something else has a mark (src/policy/readers/look-alikes.ts).
 */

/** If a text has more, the notes of all marks are written as plain text. */
const mostMarks = 2_000

function marked(text: string, kind: TextKind): ComponentChild[] {
  const pieces = piecesOf(text, kind, mostMarks)
  if (pieces === null) return [visible(text, kind)]
  return pieces.flatMap(({ isLeftToRight, parts }) =>
    isLeftToRight ? [h('bdi', { dir: 'ltr' }, parts.map(partIn))] : parts.map(partIn),
  )
}

function partIn(part: Part): ComponentChild {
  if (part.kind === 'plain') return part.text
  if (part.kind === 'letters')
    return h('span', { class: 'look-alike', title: 'look closely at these letters' }, part.text)
  const title = part.kind === 'hidden' ? 'what the eye does not see here' : 'what the word before is'
  return h('span', { class: 'hidden-character', title }, part.note)
}

export function Words({ text, most = 300, kind = 'name' }: { text: string; most?: number; kind?: TextKind }) {
  const cut = text.length > most ? `${text.slice(0, most).toWellFormed()}…` : text
  const line = cut.replaceAll(/[\n\t]/g, ' ')
  return h('bdi', { class: 'words', ...(isListOfPointers(line) ? { dir: 'ltr' } : {}) }, marked(line, kind))
}

export const Plain = ({ text }: { text: string }) => h('bdi', { class: 'words' }, marked(text, 'text'))

/** A sentence of the service, with names and values in backticks. */
export function Sentence({ text }: { text: string }) {
  const parts = text.slice(0, 4_000).toWellFormed().split('`')
  const isPaired = parts.length % 2 === 1
  return h('span', null, [
    parts.map((part, index) =>
      isPaired && index % 2 === 1
        ? h('code', { class: 'quoted' }, h(Words, { text: part }))
        : h(Words, { text: isPaired || index === 0 ? part : `\`${part}`, most: 4_000, kind: 'sentence' }),
    ),
  ])
}

export const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1)

/** With a capital letter and a full stop. */
export function Message({ text, most = 4_000 }: { text: string; most?: number }) {
  const cut = text.length > most ? `${text.slice(0, most).toWellFormed()}…` : text
  const whole = cut === '' || /[.!?…]`?$/.test(cut) ? cut : `${cut}.`
  return h(Sentence, { text: capital(whole) })
}

/** A longer text is folded to its `beginning`, which is much less, so that folding always hides a large part. */
const mostUnfolded = { characters: 800, lines: 16 } as const
const beginning = { characters: 500, lines: 10 } as const

/** Characters in one part of a page. A longer part would be slow to render and to read. */
export const mostShown = 1_500_000

/** A tab, a line that begins and ends with `|`, or a gap of three spaces: a table needs characters of equal width. */
const table = /\t|^\|.*\|$|\S {3,}\S/m

/** JSON is shown as the service writes it. */
export type LongKind = Extract<TextKind, 'command' | 'json' | 'text'>

/** Exact, with its line breaks. A long text is folded. */
export function LongText(props: { text: string; most?: number; kind?: LongKind }) {
  const { text, most = mostShown, kind = 'text' } = props
  if (text.length > most) return h('div', { class: 'long' }, [h(CutText, { text, most, kind })])
  const isCommand = kind === 'command'
  const look = isCommand || table.test(text.slice(0, 5_000)) ? 'text code' : 'text'
  const given = { class: look, dir: isCommand || isListOfPointers(text) ? 'ltr' : 'auto' }
  const lines = text.split('\n', mostUnfolded.lines + 1)
  if (text.length <= mostUnfolded.characters && lines.length <= mostUnfolded.lines)
    return h('div', given, marked(text, kind))
  const shown = lines.slice(0, beginning.lines).join('\n').slice(0, beginning.characters).toWellFormed()
  return h('div', { class: 'long' }, [
    h('div', given, [marked(shown, kind), '…']),
    h('details', null, [
      h('summary', null, `Show all ${text.length.toLocaleString('en')} characters`),
      h('div', given, marked(text, kind)),
    ]),
  ])
}

function CutText({ text, most, kind }: { text: string; most: number; kind: LongKind }) {
  const missing = (text.length - most).toLocaleString('en')
  return [
    h(LongText, { text: text.slice(0, most).toWellFormed(), kind }),
    h('p', { class: 'alert' }, `${missing} more characters are not on this page.`),
  ]
}

/** The name alone could look like the product's. */
export const OrganizationName = ({ name }: { name: string }) => ['Organization: ', h(Words, { text: name })]

/** If an id is longer, only the first and the last `end` characters are shown. */
const most = 20
const end = 8

/** As its client gave it. Several ids can begin with the same characters, so the end is shown too. */
export function SessionId({ id }: { id: string }) {
  const text = id.length <= most ? id : `${id.slice(0, end).toWellFormed()}…${id.slice(-end).toWellFormed()}`
  return h('code', null, h(Words, { text }))
}

import { h, type ComponentChild } from 'preact'
import {
  isListOfPointers,
  piecesOf,
  visible,
  type Part,
  type TextKind,
} from '../../policy/readers/look-alikes.ts'

/*
 * Shows text from outside the service, always as plain text. Such a text cannot change how the rest of the page looks.
 * Whatever a reader could overlook or take for something else has a mark (src/policy/readers/look-alikes.ts).
 */

/**
 * Maximum number of marks that get elements of their own. If a text has more, the notes of all marks are written as
 * plain text.
 */
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

/** Shows a name or another short text in one line. */
export function Words({
  text,
  most = 300,
  kind = 'name',
}: {
  readonly text: string
  readonly most?: number
  readonly kind?: TextKind
}): ComponentChild {
  const cut = text.length > most ? `${text.slice(0, most).toWellFormed()}…` : text
  const line = cut.replaceAll(/[\n\t]/g, ' ')
  return h('bdi', { class: 'words', ...(isListOfPointers(line) ? { dir: 'ltr' } : {}) }, marked(line, kind))
}

/** Shows a piece of text without cutting it. */
export const Plain = ({ text }: { readonly text: string }): ComponentChild =>
  h('bdi', { class: 'words' }, marked(text, 'text'))

/** Shows a sentence that the service has written. Names and values in the sentence stand in backticks. */
export function Sentence({ text }: { readonly text: string }): ComponentChild {
  const parts = text.slice(0, 4_000).toWellFormed().split('`')
  const isPaired = parts.length % 2 === 1
  return h(
    'span',
    null,
    parts.map((part, index) =>
      isPaired && index % 2 === 1
        ? h('code', { class: 'quoted' }, h(Words, { text: part }))
        : h(Words, { text: isPaired || index === 0 ? part : `\`${part}`, most: 4_000, kind: 'sentence' }),
    ),
  )
}

/** Returns the text with a capital letter at its beginning. */
export const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1)

/** Shows a message of the service as a whole sentence, with a capital letter and a full stop. */
export function Message({
  text,
  most = 4_000,
}: {
  readonly text: string
  readonly most?: number
}): ComponentChild {
  const cut = text.length > most ? `${text.slice(0, most).toWellFormed()}…` : text
  const whole = cut === '' || /[.!?…]`?$/.test(cut) ? cut : `${cut}.`
  return h(Sentence, { text: capital(whole) })
}

/**
 * A text with more characters or lines than `mostUnfolded` is folded to its `beginning`. `beginning` is much less than
 * `mostUnfolded`, so that folding always hides a large part.
 */
const mostUnfolded = { characters: 800, lines: 16 } as const
const beginning = { characters: 500, lines: 10 } as const

/** Maximum number of text characters in one part of a page. A longer part would be slow to render and to read. */
export const mostShown = 1_500_000

/**
 * Matches a text that looks like a table. Such a text has a tab, a line that begins and ends with `|`, or a gap of at
 * least three spaces. A table needs a font with characters of equal width.
 */
const table = /\t|^\|.*\|$|\S {3,}\S/m

/** A text that may be long. JSON is shown as the service writes it. */
export type LongKind = Extract<TextKind, 'command' | 'json' | 'text'>

/**
 * Shows an exact text with its line breaks. Shows only the beginning of a long text until the reader unfolds the text.
 */
export function LongText({
  text,
  most = mostShown,
  kind = 'text',
}: {
  readonly text: string
  readonly most?: number
  readonly kind?: LongKind
}): ComponentChild {
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

/** Shows the beginning of a text that is too long for a page, and the number of missing characters. */
function CutText({
  text,
  most,
  kind,
}: {
  readonly text: string
  readonly most: number
  readonly kind: LongKind
}): ComponentChild {
  const missing = (text.length - most).toLocaleString('en')
  return [
    h(LongText, { text: text.slice(0, most).toWellFormed(), kind }),
    h('p', { class: 'alert' }, `${missing} more characters are not on this page.`),
  ]
}

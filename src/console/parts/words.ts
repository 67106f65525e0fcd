import { h, type ComponentChild } from 'preact'

/*
 * Text from strangers. It is shown as text, and nothing in it can change how the rest of the page reads: characters that
 * are invisible or turn the direction of writing are shown by their numbers.
 */

/**
 * Characters that show nothing, and marks of direction. Line breaks and tabs are laid out, and U+FE0F only chooses the
 * coloured form of an emoji.
 */
const hidden = /(?!\n|\t|\ufe0f)(?:\p{Cc}|\p{Cf}|\p{Cs}|\p{Zl}|\p{Zp}|\p{Default_Ignorable_Code_Point})/gu

/** The text in parts: visible text, and characters that are not. null: they are more than `mostMarks`. */
function partsOf(shown: string): (string | { readonly hidden: string })[] | null {
  const parts: (string | { hidden: string })[] = []
  let from = 0
  for (const { 0: found, index } of shown.matchAll(hidden)) {
    if (index > from) parts.push(shown.slice(from, index))
    parts.push({ hidden: found })
    from = index + found.length
    if (parts.length > mostMarks) return null
  }
  if (from < shown.length) parts.push(shown.slice(from))
  return parts
}

const numberOf = (character: string): string =>
  `U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}`

/** A text for a place that takes no elements, such as a page's title. */
export const visible = (text: string): string => text.replaceAll(hidden, numberOf)

/** Above this many hidden characters, a text has each of them as plain text. */
const mostMarks = 2_000

function marked(text: string, isOneLine: boolean): ComponentChild[] {
  const shown = isOneLine ? text.replaceAll(/[\n\t]/g, ' ') : text
  const parts = partsOf(shown)
  if (parts === null) return [visible(shown)]
  return parts.map((part) =>
    typeof part === 'string'
      ? part
      : h('span', { class: 'hidden-character', title: 'an invisible character' }, numberOf(part.hidden)),
  )
}

/** A name or another short text, in one line. */
export function Words({
  text,
  most = 300,
}: {
  readonly text: string
  readonly most?: number
}): ComponentChild {
  const cut = text.length > most ? `${text.slice(0, most).toWellFormed()}…` : text
  return h('bdi', { class: 'words' }, marked(cut, true))
}

/** A part of a text, with nothing left out. */
export const Plain = ({ text }: { readonly text: string }): ComponentChild =>
  h('bdi', { class: 'words' }, marked(text, false))

/** A sentence of the service, which puts names and values in backticks. */
export function Sentence({ text }: { readonly text: string }): ComponentChild {
  const parts = text.slice(0, 4_000).toWellFormed().split('`')
  const isPaired = parts.length % 2 === 1
  return h(
    'span',
    null,
    parts.map((part, index) =>
      isPaired && index % 2 === 1
        ? h('code', null, h(Words, { text: part }))
        : h(Words, { text: isPaired || index === 0 ? part : `\`${part}`, most: 4_000 }),
    ),
  )
}

/** A message of the service as a whole sentence: with a capital letter and a full stop. */
export function Message({
  text,
  most = 4_000,
}: {
  readonly text: string
  readonly most?: number
}): ComponentChild {
  const cut = text.length > most ? `${text.slice(0, most).toWellFormed()}…` : text
  const whole = cut === '' || /[.!?…]$/.test(cut) ? cut : `${cut}.`
  return h(Sentence, { text: whole.charAt(0).toUpperCase() + whole.slice(1) })
}

/** Longer texts are folded. */
const shortText = 500
const shortLines = 10

/** Characters of texts that one part of a page shows. More would take the service long, and a reader too. */
export const mostShown = 1_500_000

/** Tabs, rows between bars, or columns of spaces: they only read well if all characters are equally wide. */
const table = /\t|^\|.*\|$|\S {3,}\S/m

/** A text with its line breaks, exactly as it is. The beginning of a long one is shown, and all of it on request. */
export function LongText({
  text,
  most = mostShown,
  isCommand = false,
}: {
  readonly text: string
  readonly most?: number
  readonly isCommand?: boolean
}): ComponentChild {
  if (text.length > most) return h('div', { class: 'long' }, [h(CutText, { text, most, isCommand })])
  const kind = isCommand || table.test(text.slice(0, 5_000)) ? 'text code' : 'text'
  const lines = text.split('\n', shortLines + 1)
  const isShort = text.length <= shortText && lines.length <= shortLines
  if (isShort) return h('div', { class: kind, dir: 'auto' }, marked(text, false))
  const beginning = lines.slice(0, shortLines).join('\n').slice(0, shortText).toWellFormed()
  return h('div', { class: 'long' }, [
    h('div', { class: kind, dir: 'auto' }, [marked(beginning, false), '…']),
    h('details', null, [
      h('summary', null, `Show all ${text.length.toLocaleString('en')} characters`),
      h('div', { class: kind, dir: 'auto' }, marked(text, false)),
    ]),
  ])
}

/** The beginning of a text that is too long for a page, and how much is missing. */
function CutText({
  text,
  most,
  isCommand,
}: {
  readonly text: string
  readonly most: number
  readonly isCommand: boolean
}): ComponentChild {
  const missing = (text.length - most).toLocaleString('en')
  return [
    h(LongText, { text: text.slice(0, most).toWellFormed(), isCommand }),
    h('p', { class: 'alert' }, `${missing} more characters are not on this page. Read them with the API.`),
  ]
}

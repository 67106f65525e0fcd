import { h, type ComponentChild } from 'preact'

/*
 * Shows text from outside the service, always as plain text. Such a text cannot change how the rest of the page looks.
 * Characters that are invisible or change the writing direction are shown as numbers, such as `U+202E`.
 */

/**
 * Matches one emoji that can be joined with others. A selector for the coloured variant (U+FE0F) and a skin tone may
 * follow the emoji.
 */
const joined = '\\p{Extended_Pictographic}\\ufe0f?\\p{Emoji_Modifier}?'

/**
 * Matches emoji that contain invisible characters: joined emoji, and flags of regions. Only flags that every browser
 * draws are matched. For any other flag, a browser may draw nothing. Then the flag's invisible letters could hide a
 * text.
 */
const emoji = `${joined}(?:\\u200d${joined})+|\\p{RGI_Emoji_Tag_Sequence}`

/**
 * Matches invisible characters, and marks that change the writing direction. Line breaks and tabs are visible as
 * layout, so they are not included. U+FE0F only chooses the coloured variant of an emoji, so it is not included.
 */
const invisible =
  '(?!\\n|\\t|\\ufe0f)(?:\\p{Cc}|\\p{Cf}|\\p{Cs}|\\p{Zl}|\\p{Zp}|\\p{Default_Ignorable_Code_Point})'

/**
 * Finds emoji and hidden characters. Emoji stay as they are. A hidden character outside of an emoji is in the group
 * `hidden`.
 */
const special = new RegExp(`${emoji}|(?<hidden>${invisible})`, 'gv')

/**
 * Splits a text into visible texts and hidden characters. Returns null if the text has more than `mostMarks` hidden
 * characters.
 */
function partsOf(shown: string): (string | { readonly hidden: string })[] | null {
  const parts: (string | { hidden: string })[] = []
  let from = 0
  let marks = 0
  for (const { groups, index } of shown.matchAll(special)) {
    const found = groups?.['hidden']
    if (found === undefined) continue
    if (index > from) parts.push(shown.slice(from, index))
    parts.push({ hidden: found })
    from = index + found.length
    if ((marks += 1) > mostMarks) return null
  }
  if (from < shown.length) parts.push(shown.slice(from))
  return parts
}

const numberOf = (character: string): string =>
  `U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}`

/**
 * Returns the text with hidden characters as numbers. Use it where no elements are allowed, such as in a page's title.
 */
export const visible = (text: string): string =>
  text.replaceAll(special, (found: string, hidden?: string) =>
    hidden === undefined ? found : numberOf(found),
  )

/**
 * Maximum number of hidden characters that get elements of their own. If a text has more, the numbers of all hidden
 * characters are written as plain text.
 */
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

/** Shows a name or another short text in one line. */
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

/** Shows a piece of text without cutting it. */
export const Plain = ({ text }: { readonly text: string }): ComponentChild =>
  h('bdi', { class: 'words' }, marked(text, false))

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
        : h(Words, { text: isPaired || index === 0 ? part : `\`${part}`, most: 4_000 }),
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

/**
 * Shows an exact text with its line breaks. Shows only the beginning of a long text until the reader unfolds the text.
 */
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
  const lines = text.split('\n', mostUnfolded.lines + 1)
  if (text.length <= mostUnfolded.characters && lines.length <= mostUnfolded.lines)
    return h('div', { class: kind, dir: 'auto' }, marked(text, false))
  const shown = lines.slice(0, beginning.lines).join('\n').slice(0, beginning.characters).toWellFormed()
  return h('div', { class: 'long' }, [
    h('div', { class: kind, dir: 'auto' }, [marked(shown, false), '…']),
    h('details', null, [
      h('summary', null, `Show all ${text.length.toLocaleString('en')} characters`),
      h('div', { class: kind, dir: 'auto' }, marked(text, false)),
    ]),
  ])
}

/** Shows the beginning of a text that is too long for a page, and the number of missing characters. */
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
    h('p', { class: 'alert' }, `${missing} more characters are not on this page.`),
  ]
}

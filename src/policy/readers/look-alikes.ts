import { hostNote, pointerIn, type Pointer } from './pointers.ts'
import { oddLetters } from './scripts.ts'

/*
 * Finds what a reader of a text can overlook or take for something else: invisible characters, blanks, letters of
 * another alphabet, and hosts with such letters. Pages, mails, chats and previews show it with a mark.
 */

/** A part of a text, as it is shown. */
export type Part =
  | { readonly kind: 'plain'; readonly text: string }
  /** Letters that can be taken for others. A note follows behind the word. */
  | { readonly kind: 'letters'; readonly text: string }
  /** An invisible character or blanks. `note` is shown in place of them. */
  | { readonly kind: 'hidden'; readonly text: string; readonly note: string }
  /** What is said of the word before. */
  | { readonly kind: 'note'; readonly note: string }

/** Parts that are shown together. An address, a link or a host runs from left to right (`isLeftToRight`). */
export interface Piece {
  readonly isLeftToRight: boolean
  readonly parts: readonly Part[]
}

/**
 * Says what a text is. `command`: a program reads it. `name`: one line in which every word matters. `text`: anything
 * else. In a `text`, only addresses, links and words like those of programs are read closely, so that the text of a
 * letter looks as it was written. `json` is a `text` as JSON. `sentence`: the service itself wrote it, so blanks at its ends mean nothing.
 */
export type TextKind = 'command' | 'name' | 'text' | 'json' | 'sentence'

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
const emoji = `${joined}(?:\\u200d${joined})+|\\p{RGI_Emoji_Tag_Sequence}|[\\p{Extended_Pictographic}\\p{Emoji}]\\ufe0f`

/**
 * Matches invisible characters, and marks that change the writing direction. Line breaks and tabs are visible as
 * layout, so they are not included.
 */
const invisible = '(?!\\n|\\t)(?:\\p{Cc}|\\p{Cf}|\\p{Cs}|\\p{Zl}|\\p{Zp}|\\p{Default_Ignorable_Code_Point})'

/** Every blank of one line. U+2800 is a braille letter without dots. */
const blank = '[\\t\\p{Zs}\\u2800]'
/** Blanks that well-set texts have between words. */
const typographic = /^[\u00a0\u2002\u2003\u2007\u2009\u202f\u3000]$/u

const special = new RegExp(`${emoji}|(?<hidden>${invisible})|(?<blanks>${blank}+)`, 'gv')

/** A text that looks like what it is: ASCII, with single blanks between its words. */
const plainLine = /^(?:[!-~]+(?: [!-~]+)*)?$/
const plainText = /^[\n\t -~]*$/

/** Dots and marks that end a word, and belong to a host only between letters. */
const wideDot = '(?<=[\\p{Script=Latin}\\p{Script=Cyrillic}\\p{Script=Greek}\\p{N}])[。．｡](?=[\\p{L}\\p{N}])'
/** A word with everything that an address or a link may have. */
const word = new RegExp(
  `(?:[^\\s\\u2800<>()\\[\\]{}"'\`“”„‘’«»‹›,;|，。、；：？！（）「」『』【】《》．｡]|${wideDot})+`,
  'gu',
)
const rightToLeft = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/u
const beyondAscii = /[^\0-\x7f]/

/** Signs that look like those of an address or a command: dashes, slashes, dots and colons. */
const oddSigns =
  /[\u2010-\u2015\u2024\u2044\u2215\u2216\u2212\u2236\u29f5\u29f8\ua789\u3002\uff0e\uff61\uff1a\uff20]/gu

interface Mark {
  readonly from: number
  readonly to: number
  readonly part: Part
}

/**
 * Splits a text into pieces. Returns one plain piece for a text without anything to mark. Takes linear time. Returns
 * null if the text has more than `most` marks.
 */
export function piecesOf(text: string, kind: TextKind, most = Infinity): readonly Piece[] | null {
  const isLine = !text.replace(/\n$/, '').includes('\n')
  if (isLine ? plainLine.test(text) : plainText.test(text)) return [pieceOf(false, [plainPart(text)])]
  const words = beyondAscii.test(text) ? wordsOf(text, kind) : []
  const marks = [...unseenMarks(text, kind, isLine, words), ...words.flatMap((each) => each.marks)].sort(
    (one, other) => one.from - other.from || one.to - other.to,
  )
  if (marks.length > most) return null
  const isTurned = rightToLeft.test(text)
  const cuts = isTurned ? words.filter(({ isPointer }) => isPointer) : []
  const pieces: Piece[] = []
  let at = 0
  let next = 0
  const take = (to: number, isLeftToRight: boolean): void => {
    const own: Mark[] = []
    // A note stands at the end of its word, and belongs to it.
    for (
      ;
      next < marks.length && marks[next]!.from < to + (isLeftToRight || to === text.length ? 1 : 0);
      next++
    )
      own.push(marks[next]!)
    if (to > at || own.length > 0) pieces.push(pieceOf(isLeftToRight, partsOf(text, at, to, own)))
    at = to
  }
  for (const { from, to } of cuts) {
    take(from, false)
    take(to, true)
  }
  take(text.length, false)
  return pieces
}

const plainPart = (text: string): Part => ({ kind: 'plain', text })
const pieceOf = (isLeftToRight: boolean, parts: readonly Part[]): Piece => ({ isLeftToRight, parts })

function partsOf(text: string, from: number, to: number, marks: readonly Mark[]): Part[] {
  const parts: Part[] = []
  let at = from
  for (const mark of marks) {
    if (mark.from > at) parts.push(plainPart(text.slice(at, mark.from)))
    parts.push(mark.part)
    at = Math.max(at, mark.to)
  }
  if (at < to) parts.push(plainPart(text.slice(at, to)))
  return parts
}

/** Marks invisible characters and blanks. */
function unseenMarks(text: string, kind: TextKind, isLine: boolean, words: readonly Word[]): Mark[] {
  const edges = new Set(words.flatMap(({ isPointer, from, to }) => (isPointer ? [from, to] : [])))
  const end = text.endsWith('\n') ? text.length - 1 : text.length
  const marks: Mark[] = []
  for (const { 0: found, groups, index } of text.matchAll(special)) {
    const to = index + found.length
    const isEdge = index === 0 || to === end
    const note =
      groups?.['hidden'] !== undefined
        ? numberOf(found)
        : groups?.['blanks'] === undefined
          ? null
          : blankNote(found, { kind, isLine, isEdge, isBeside: edges.has(index) || edges.has(to) })
    if (note !== null) marks.push({ from: index, to, part: { kind: 'hidden', text: found, note } })
  }
  return marks
}

interface Place {
  readonly kind: TextKind
  readonly isLine: boolean
  readonly isEdge: boolean
  /** Whether an address, a link or a host stands beside the blanks. */
  readonly isBeside: boolean
}

/** Counts blanks that a reader could overlook. Returns null for blanks that look like what they are. */
function blankNote(blanks: string, { kind, isLine, isEdge, isBeside }: Place): string | null {
  const odd = [...new Set(blanks.replaceAll(/[ \t]/g, ''))]
  if (odd.length === 0) {
    if (!isLine || kind === 'sentence' || (blanks === ' ' && !isEdge)) return null
    return blanks.includes('\t') && blanks.length === 1 ? 'tab' : counted(blanks.length)
  }
  const isUsual = blanks.length === 1 && typographic.test(blanks) && !isEdge && !isBeside
  if (isUsual && kind !== 'name' && kind !== 'command') return null
  const numbers = odd.map(numberOf).join(' ')
  return blanks.length === 1 ? numbers : `${counted(blanks.length)} ${numbers}`
}

const counted = (count: number): string => `${count} ${count === 1 ? 'blank' : 'blanks'}`

const numberOf = (character: string): string =>
  `U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}`

interface Word {
  readonly from: number
  readonly to: number
  /** Whether the word is an address, a link or a host. */
  readonly isPointer: boolean
  readonly marks: readonly Mark[]
}

function wordsOf(text: string, kind: TextKind): Word[] {
  const read = kind === 'json' ? text.replaceAll(escaped, (each) => ' '.repeat(each.length)) : text
  const found = [...read.matchAll(word)]
  const isAlone = found.length === 1
  return found.flatMap(({ 0: written, index }) => {
    if (!isAlone && kind !== 'command' && !telling.test(written)) return []
    const inside = withoutEndSigns(written)
    const pointer = pointerIn(inside, isAlone)
    const isClose =
      kind === 'command' || kind === 'name' || pointer !== null || isAlone || likeNames.test(inside)
    const marks = beyondAscii.test(inside) ? marksIn(inside, index, { pointer, kind, isAlone, isClose }) : []
    return [{ from: index, to: index + inside.length, isPointer: pointer !== null, marks }]
  })
}

/** A character that JSON writes as several. Its letters are no part of the word behind it. */
const escaped = /\\(?:["\\/bfnrt]|u[\da-f]{4})/g

/** A word without these characters is no address, no link, and in one script, or in rare scripts. */
const telling = /[\x21-\x7e\u0250-\u02af\u1d00-\u1dbf\u2160-\u2188。．｡＠]|[^\0-\uffff]/u
/** A word with the signs that names in programs have. */
const likeNames = /[A-Za-z0-9][._/\\:=@-]|[/\\_@]/

/** Removes the full stops and other signs that end a sentence. */
function withoutEndSigns(text: string): string {
  let end = text.length
  while (end > 1 && '.:?!…'.includes(text[end - 1] ?? ' ')) end--
  return text.slice(0, end)
}

interface Reading {
  readonly pointer: Pointer | null
  readonly kind: TextKind
  readonly isAlone: boolean
  /** Whether every odd letter counts. Otherwise only letters count that look like those of the rest of the word. */
  readonly isClose: boolean
}

/** Marks the letters of a word that can be taken for others, and says after the word what they are. */
function marksIn(text: string, at: number, { pointer, kind, isAlone, isClose }: Reading): Mark[] {
  const isStrict =
    kind === 'command' || pointer !== null || /[A-Za-z0-9]/.test(text) || (isAlone && /[/._:\\]/.test(text))
  const reading = !isClose ? 'prose' : isStrict && kind !== 'name' ? 'strict' : 'name'
  const odd = oddLetters(text, reading)
  if (pointer !== null || kind === 'command')
    for (const { 0: sign, index } of text.matchAll(oddSigns))
      odd.push({ from: index, text: sign, what: 'a sign' })
  const local = pointer?.localEnd == null ? '' : localPart(text.slice(0, pointer.localEnd), isAlone)
  if (odd.length === 0 && beyondAscii.test(local)) {
    const from = text.slice(0, pointer?.localEnd ?? 0).length - local.length
    for (const { 0: run, index } of local.matchAll(/(?:(?!\p{Default_Ignorable_Code_Point})[^\0-\x7f])+/gu))
      odd.push({ from: from + index, text: run, what: 'not ASCII' })
  }
  const host = pointer === null ? null : hostNote(text.slice(pointer.hostFrom, pointer.hostTo))
  const notes = [...(host === null ? [] : [host]), ...new Set(odd.map(noteOf))].slice(0, 6)
  const end = at + text.length
  return [
    ...odd.map(({ from, text: letters }): Mark => ({
      from: at + from,
      to: at + from + letters.length,
      part: { kind: 'letters', text: letters },
    })),
    ...(notes.length === 0
      ? []
      : [{ from: end, to: end, part: { kind: 'note', note: notes.join(', ') } as const }]),
  ]
}

/** Returns the part before the `@`. In a longer text, East Asian words may stand before an address without a blank. */
const localPart = (text: string, isAlone: boolean): string =>
  isAlone
    ? text
    : text.replace(/^[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}]+/u, '')

function noteOf({ text, what }: { readonly text: string; readonly what: string }): string {
  const letters = Array.from(text)
  return letters.length > 3
    ? `${letters.slice(0, 12).join('')} is ${what}`
    : `${text} is ${what} ${letters.map(numberOf).join(' ')}`
}

/** Returns the text of a piece for places without elements, such as a mail. */
function plainPiece({ isLeftToRight, parts }: Piece): string {
  const text = parts
    .map((part) =>
      part.kind === 'note' ? ` [${part.note}]` : part.kind === 'hidden' ? noteInText(part.note) : part.text,
    )
    .join('')
  return isLeftToRight ? `\u2066${text}\u2069` : text
}

const noteInText = (note: string): string => (/^U\+\w+$/.test(note) ? note : `[${note}]`)

/** Returns a text with everything marked, where no elements are allowed: in mails, chats and titles of pages. */
export const visible = (text: string, kind: TextKind = 'sentence'): string =>
  (piecesOf(text, kind) ?? []).map(plainPiece).join('')

/**
 * Matches more than three combining marks on one letter. Many marks on a letter would cover the lines around the
 * letter.
 */
const stackedMarks = /(\p{M}{3})\p{M}+/gu
/** Tabs, and everything that some program shows as the end of a line. */
const lineBreaks = /[\t-\r\u0085\u2028\u2029]+/g
/** Splits text into the characters that people see. A flag stays whole, although it consists of several code points. */
const segmenter = new Intl.Segmenter()

/**
 * Returns the beginning of a text in one line, with everything marked. `most` is the number of characters that people
 * see. Returns `?` for an empty text.
 */
export function shortWords(text: string, most: number): string {
  // The text is cut before anything else, because it may be very long.
  const short = text.slice(0, 4 * most).toWellFormed()
  const line = short.replaceAll(lineBreaks, ' ').replaceAll(stackedMarks, '$1')
  const letters = Array.from(segmenter.segment(line), ({ segment }) => segment)
  const isCut = letters.length > most || short.length < text.length
  const shown = isCut ? `${letters.slice(0, most).join('')}…` : line
  return shown.trim() === '' ? '?' : visible(shown, 'name')
}

/**
 * Returns whether all words of a text are addresses, links or hosts, so that the text runs from left to right. Returns
 * false for a text without letters that run from right to left.
 */
export function isListOfPointers(text: string): boolean {
  if (!rightToLeft.test(text)) return false
  const words = [...text.matchAll(word)]
  return (
    words.length > 0 && words.every(([each]) => pointerIn(withoutEndSigns(each), words.length === 1) !== null)
  )
}

const mostNotes = 10

/** Says in a sentence what a text has to mark. Returns undefined if there is nothing. */
export function noteOn(text: string, kind: TextKind = 'text'): string | undefined {
  const parts = (piecesOf(text, kind) ?? []).flatMap((piece) => piece.parts)
  const notes = new Set(parts.flatMap((part) => ('note' in part ? [part.note] : [])))
  return notes.size === 0 ? undefined : `look closely: ${[...notes].slice(0, mostNotes).join('; ')}`
}

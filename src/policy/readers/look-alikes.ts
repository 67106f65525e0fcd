import { parse } from 'tldts'
import { normalHost } from './hosts.ts'

/* What a reader can overlook or mistake. Pages, mails, chats and previews show it with a mark. */

export type Part =
  | { readonly kind: 'plain'; readonly text: string }
  /** They can be taken for others. A note follows behind the word. */
  | { readonly kind: 'letters'; readonly text: string }
  /** An invisible character or blanks, in place of which `note` is shown. */
  | { readonly kind: 'hidden'; readonly text: string; readonly note: string }
  /** On the word before. */
  | { readonly kind: 'note'; readonly note: string }

/** Parts that are shown together. An address, a link or a host is `isLeftToRight`. */
interface Piece {
  readonly isLeftToRight: boolean
  readonly parts: readonly Part[]
}

/**
 * `command`: a program reads it. `name`: one line in which every word matters. `text`: anything else, of which only
 * addresses, links and words like those of programs are read closely, so that a letter looks as it was written. `json`:
 * a `text` as JSON. `sentence`: the service itself wrote it, so blanks at its ends mean nothing.
 */
export type TextKind = 'command' | 'name' | 'text' | 'json' | 'sentence'

/** One emoji that can be joined, perhaps in its coloured variant (U+FE0F) and with a skin tone. */
const joined = '\\p{Extended_Pictographic}\\ufe0f?\\p{Emoji_Modifier}?'

/** Joined ones, and flags that every browser draws. Invisible letters of any other flag could hide a text. */
const emoji = `${joined}(?:\\u200d${joined})+|\\p{RGI_Emoji_Tag_Sequence}|[\\p{Extended_Pictographic}\\p{Emoji}]\\ufe0f`

/** Also marks that change the writing direction. Line breaks and tabs are visible as layout. */
const invisible = '(?!\\n|\\t)(?:\\p{Cc}|\\p{Cf}|\\p{Cs}|\\p{Zl}|\\p{Zp}|\\p{Default_Ignorable_Code_Point})'

/** Every blank of one line. U+2800 is a braille letter without dots. */
const blank = '[\\t\\p{Zs}\\u2800]'
/** Well-set texts have them between words. */
const typographic = /^[\u00a0\u2002\u2003\u2007\u2009\u202f\u3000]$/u

const special = new RegExp(`${emoji}|(?<hidden>${invisible})|(?<blanks>${blank}+)`, 'gv')

/** ASCII, with single blanks between words, looks like what it is. */
const plainLine = /^(?:[!-~]+(?: [!-~]+)*)?$/
const plainText = /^[\n\t -~]*$/

/** Dots that end a word, and belong to a host only between letters. */
const wideDot = '(?<=[\\p{Script=Latin}\\p{Script=Cyrillic}\\p{Script=Greek}\\p{N}])[。．｡](?=[\\p{L}\\p{N}])'
/** With everything that an address or a link may have. */
const word = new RegExp(
  `(?:[^\\s\\u2800<>()\\[\\]{}"'\`“”„‘’«»‹›,;|，。、；：？！（）「」『』【】《》．｡]|${wideDot})+`,
  'gu',
)
const rightToLeft = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/u
const beyondAscii = /[^\0-\x7f]/

/** They look like those of an address or a command: dashes, slashes, dots and colons. */
const oddSigns =
  /[\u2010-\u2015\u2024\u2044\u2215\u2216\u2212\u2236\u29f5\u29f8\ua789\u3002\uff0e\uff61\uff1a\uff20]/gu

interface Mark {
  readonly from: number
  readonly to: number
  readonly part: Part
}

/** One plain piece if there is nothing to mark; null for more than `most` marks. Takes linear time. */
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
  /** An address, a link or a host stands beside the blanks. */
  readonly isBeside: boolean
}

/** Counts blanks that a reader could overlook; null for those that look like what they are. */
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

/** Written as several. Its letters are no part of the word behind it. */
const escaped = /\\(?:["\\/bfnrt]|u[\da-f]{4})/g

/** Without these, a word is no address, no link, and in one script, or in rare scripts. */
const telling = /[\x21-\x7e\u0250-\u02af\u1d00-\u1dbf\u2160-\u2188。．｡＠]|[^\0-\uffff]/u
const likeNames = /[A-Za-z0-9][._/\\:=@-]|[/\\_@]/

function withoutEndSigns(text: string): string {
  let end = text.length
  while (end > 1 && '.:?!…'.includes(text[end - 1] ?? ' ')) end--
  return text.slice(0, end)
}

interface Reading {
  readonly pointer: Pointer | null
  readonly kind: TextKind
  readonly isAlone: boolean
  /** Whether every odd letter counts, or only those that look like the rest of the word. */
  readonly isClose: boolean
}

/** Marks letters that can be taken for others, and says after the word what they are. */
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

/** In a longer text, East Asian words may stand before an address without a blank. */
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

/** For places without elements, such as a mail. */
function plainPiece({ isLeftToRight, parts }: Piece): string {
  const text = parts
    .map((part) =>
      part.kind === 'note' ? ` [${part.note}]` : part.kind === 'hidden' ? noteInText(part.note) : part.text,
    )
    .join('')
  return isLeftToRight ? `\u2066${text}\u2069` : text
}

const noteInText = (note: string): string => (/^U\+\w+$/.test(note) ? note : `[${note}]`)

/** Where no elements are allowed: in mails, chats and titles of pages. */
export const visible = (text: string, kind: TextKind = 'sentence'): string =>
  (piecesOf(text, kind) ?? []).map(plainPiece).join('')

/** Many marks on a letter would cover the lines around it. */
const stackedMarks = /(\p{M}{3})\p{M}+/gu
/** Everything that some program shows as the end of a line. */
const lineBreaks = /[\t-\r\u0085\u2028\u2029]+/g
/** The characters that people see: a flag stays whole, although it has several code points. */
const segmenter = new Intl.Segmenter()

/** The beginning in one line, with everything marked. `most` counts what people see. `?` for an empty text. */
export function shortWords(text: string, most: number): string {
  // First of all, because the text may be very long.
  const short = text.slice(0, 4 * most).toWellFormed()
  const line = short.replaceAll(lineBreaks, ' ').replaceAll(stackedMarks, '$1')
  const letters = Array.from(segmenter.segment(line), ({ segment }) => segment)
  const isCut = letters.length > most || short.length < text.length
  const shown = isCut ? `${letters.slice(0, most).join('')}…` : line
  return shown.trim() === '' ? '?' : visible(shown, 'name')
}

/** Whether all words are addresses, links or hosts, which run from left to right. False without other letters. */
export function isListOfPointers(text: string): boolean {
  if (!rightToLeft.test(text)) return false
  const words = [...text.matchAll(word)]
  return (
    words.length > 0 && words.every(([each]) => pointerIn(withoutEndSigns(each), words.length === 1) !== null)
  )
}

/** In a sentence; undefined if there is nothing to mark. */
export function noteOn(text: string, kind: TextKind = 'text'): string | undefined {
  const parts = (piecesOf(text, kind) ?? []).flatMap((piece) => piece.parts)
  const notes = new Set(parts.flatMap((part) => ('note' in part ? [part.note] : [])))
  return notes.size === 0 ? undefined : `look closely: ${[...notes].slice(0, 10).join('; ')}`
}

/** They are top-level domains too. `отчёт.zip` is a file. */
const fileEndings = new Set(['zip', 'mov', 'md', 'py', 'sh', 'rs', 'pl', 'ps', 'cc', 'ai', 'app'])

/** Browsers need no slashes after `https:`. */
const schemes = /^(?:[^/@?#]*?:?[/\\]{2}|https?:[/\\]?)/i

/** Where the host of an address, a link or a host in a text begins and ends. `localEnd` is the `@` of an address. */
interface Pointer {
  readonly hostFrom: number
  readonly hostTo: number
  readonly localEnd: number | null
}

/** As generously as any program reads a word. `isAlone`: the whole text is this one word. */
function pointerIn(text: string, isAlone: boolean): Pointer | null {
  const scheme = schemes.exec(text)?.[0]
  if (scheme !== undefined) {
    const ends = text.slice(scheme.length).search(/[/\\?#]/)
    const end = ends < 0 ? text.length : scheme.length + ends
    const at = text.lastIndexOf('@', end - 1)
    const from = at >= scheme.length ? at + 1 : scheme.length
    return { hostFrom: from, hostTo: withoutPort(text, from, end), localEnd: null }
  }
  const at = Math.max(text.lastIndexOf('@'), text.lastIndexOf('＠'))
  if (at < text.length - 1 && (at > 0 || (at === 0 && text.includes('.'))))
    return { hostFrom: at + 1, hostTo: withoutPort(text, at + 1, endOfHost(text, at + 1)), localEnd: at }
  const to = withoutPort(text, 0, endOfHost(text, 0))
  return isHost(text.slice(0, to), isAlone) ? { hostFrom: 0, hostTo: to, localEnd: null } : null
}

function endOfHost(text: string, from: number): number {
  const end = text.slice(from).search(/[/\\?#]/)
  return end < 0 ? text.length : from + end
}

function withoutPort(text: string, from: number, to: number): number {
  const port = /:\d{0,5}$/.exec(text.slice(from, to))
  return port === null ? to : to - port[0].length
}

/** Without a scheme, only if the last part is a top-level domain. */
function isHost(text: string, isAlone: boolean): boolean {
  if (text.length > 253 || !/[^.][.。．｡][^\d.]/.test(text)) return false
  const host = normalHost(text)
  const ending = host?.split('.').at(-1) ?? ''
  if (host === null || fileEndings.has(ending)) return false
  return (
    (isAlone || !ending.startsWith('xn--')) && parse(host, { allowPrivateDomains: true }).isIcann === true
  )
}

/** As the internet writes it, if this differs from the text. */
function hostNote(host: string): string | null {
  if (!/[^\0-\x7f]/.test(host)) return null
  return normalHost(host) ?? 'not a readable host'
}

/** Scripts whose letters are told apart. All others are `other`. */
const scripts = [
  'Latin',
  'Cyrillic',
  'Greek',
  'Armenian',
  'Georgian',
  'Hebrew',
  'Arabic',
  'Cherokee',
  'Coptic',
  'Lisu',
  'Thai',
  'Devanagari',
] as const
type Script = (typeof scripts)[number] | 'East Asian' | 'other'

const tests: readonly (readonly [Script, RegExp])[] = [
  ...scripts.map((script) => [script, new RegExp(`\\p{Script=${script}}`, 'u')] as const),
  [
    'East Asian',
    /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}\p{Script=Bopomofo}]/u,
  ],
]

/** Null if the character belongs to several scripts, such as a digit or an accent. */
function scriptOf(character: string): Script | null {
  if (character < '\u0080') return /[A-Za-z]/.test(character) ? 'Latin' : null
  if (!/\p{L}/u.test(character) || /\p{Script=Common}|\p{Script=Inherited}/u.test(character)) return null
  return tests.find(([, test]) => test.test(character))?.[0] ?? 'other'
}

const likeLatin = /^[аеорсухіјѕһԁԛԝӏүѵАВЕЅІЈКМНОРСТУХӀҮѴԌԚԜοναρυικχωϲϳΑΒΕΖΗΙΚΜΝΟΡΤΥΧϹͿօսոհցզԼՍՕ]+$/u

/** Hardly anybody uses these in an address: phonetic, full-width and mathematical letters. */
const unusual = /[\u0250-\u02af\u1d00-\u1dbf\u2160-\u2188\uff01-\uff5e\u{1d400}-\u{1d7ff}]/u

/** A run of letters of one script, in a word with another script or a letter that looks Latin. */
interface OddLetters {
  readonly from: number
  readonly text: string
  readonly what: string
}

const words = /(?:(?!\p{Default_Ignorable_Code_Point})[\p{L}\p{M}\p{N}])+/gu

/**
 * Letters that can be taken for others, in words that mix scripts. East Asian ones may stand beside Latin ones, as in
 * many names. `strict` also finds whole words that look Latin and are not; `prose` only letters that all look like
 * Latin ones: people write `URLами`, but nobody writes `dаta` with another `a`.
 */
function oddLetters(text: string, reading: 'strict' | 'name' | 'prose'): OddLetters[] {
  return [...text.matchAll(words)].flatMap(({ 0: word, index }) => {
    const odd = oddInWord(word, index, reading === 'strict')
    return reading === 'prose' && odd.some((each) => !likeLatin.test(each.text)) ? [] : odd
  })
}

function oddInWord(word: string, at: number, isStrict: boolean): OddLetters[] {
  const letters = Array.from(word, (letter) => ({ letter, script: scriptOf(letter) }))
  const found = new Set(letters.flatMap(({ script }) => (script === null ? [] : [script])))
  const isLookAlike = isStrict && !found.has('Latin') && likeLatin.test(word.replaceAll(/\p{N}/gu, ''))
  const isMixed = found.size > 2 || (found.size === 2 && !(found.has('Latin') && found.has('East Asian')))
  const usual: Script | null = isLookAlike ? null : found.has('Latin') ? 'Latin' : ([...found][0] ?? null)
  const odd: OddLetters[] = []
  let from = at
  for (const { letter, script } of letters) {
    const isOdd = (isMixed || isLookAlike) && script !== null && script !== usual
    if (isOdd || unusual.test(letter)) add(odd, from, letter, isOdd ? script : 'an unusual letter')
    from += letter.length
  }
  return odd
}

function add(odd: OddLetters[], from: number, letter: string, what: string): void {
  const last = odd.at(-1)
  if (last === undefined || last.what !== what || last.from + last.text.length !== from)
    odd.push({ from, text: letter, what })
  else odd[odd.length - 1] = { ...last, text: last.text + letter }
}

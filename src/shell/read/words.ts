import { type ArrayValue, type DoubleQuotedChild, parse, type Word, type WordPart } from 'unbash'
import { longestWord, mostAlternatives, perCode } from '../limits.ts'
import { isDynamic, isPlain, one, output, star, unknown, withoutUnknowns } from '../marks.ts'
import { outputOf } from './output.ts'
import { bracketed, runsWhenEvaluated } from './guards.ts'
import { spend, type State, type Value } from './state.ts'
import { elementsAt, isIndexed, jointOf, separators, valuesOf } from './variables.ts'

/* As the shell does. All return alternatives: a word has several readings if a variable has several values. */

type Part = WordPart | DoubleQuotedChild

/** Unknown parts may be empty (`$SUDO curl`, `cu$@rl`), so the results without them are added. */
export function expandWords(words: readonly Word[], state: State): string[][] {
  spend(state, 4)
  const read = words.map((word) => piecesOf(word, state))
  const ifs = separators(state)
  const full = product(
    read.map((readings) => readings.map((pieces) => fieldsOf(pieces, ifs))),
    [unknown],
  )
  if (!read.flat(2).some(({ text }) => isDynamic(text))) return full
  const emptied = read.map((readings) =>
    readings.map((pieces) => fieldsOf(pieces.map(withoutWhatIsUnknown), ifs)),
  )
  return [...full, ...product(emptied, [])]
}

/** The texts of a word that is not split into fields, as in an assignment or after `<<<`. */
export function textsOf(word: Word, state: State): string[] {
  return joined(piecesOf(word, state))
}

/** `$(( $x$y ))` with its variables filled in. */
export function assembled(raw: string, state: State): string[] {
  const code = `: "${raw.replaceAll('"', '')}"`
  spend(state, code.length + perCode / 3)
  const [first] = parse(code).commands
  const [word] = first?.command.type === 'Command' ? first.command.suffix : []
  return word?.type === 'Word' ? textsOf(word, state) : []
}

export function heredocText(parts: readonly WordPart[], state: State): string {
  return joined(partsOf(parts, true, state))[0] ?? unknown
}

export function assignedValues(value: Word | ArrayValue, state: State): readonly Value[] {
  if (value.type === 'Word') return textsOf(value, state).map((text) => [text])
  return product(
    value.elements.map((element) =>
      piecesOf(element, state).map((pieces) => fieldsOf(pieces, separators(state)).map(withoutKey)),
    ),
    [unknown],
  )
}

/** The value of `[key]=value`. */
const withoutKey = (field: string): string => /^\[[^\]]*\]\+?=(.*)$/s.exec(field)?.[1] ?? field

function piecesOf(word: Word, state: State): Pieces[] {
  const { parts } = word
  spend(state, 1)
  if (parts === undefined) return [[stretch(word.value, false)]]
  spend(state, parts.length)
  const brace = parts.findIndex(({ type }) => type === 'BraceExpansion')
  return brace < 0 ? partsOf(parts, false, state) : bracesOf(parts, brace, state)
}

/** Braces come first and on the raw text, like in the shell. Then each result is read as a word. */
function bracesOf(parts: readonly WordPart[], at: number, state: State): Pieces[] {
  const text = (some: readonly WordPart[]): string => some.map((part) => part.text).join('')
  const choices = splitBraces(parts[at]?.text ?? '')
  if (choices === undefined) return [[stretch(unknown, false)]]
  const [before, after] = [text(parts.slice(0, at)), text(parts.slice(at + 1))]
  const code = `: ${choices.map((choice) => before + choice + after).join(' ')}`
  spend(state, code.length * 2 + perCode / 3)
  const [first] = parse(code).commands
  if (first?.command.type !== 'Command') return [[stretch(unknown, false)]]
  const words = first.command.suffix.filter((part) => part.type === 'Word')
  return product(
    words.map((each) => piecesOf(each, state).map((pieces) => [stretch('', false, false, true), ...pieces])),
    [stretch(unknown, false, false, true)],
  )
}

function partsOf(parts: readonly Part[], quoted: boolean, state: State): Piece[][] {
  let all: Piece[][] = [[]]
  let [length, before] = [0, 0]
  const instead = [stretch(unknown, quoted, !quoted)]
  for (const part of parts) {
    const readings = partReadings(part, quoted, state)
    for (const pieces of readings) for (const { text } of pieces) length += text.length + 4
    if (length > longestWord) return [instead]
    spend(state, (length - before) / 16)
    before = length
    all = extended(all, readings, instead)
    spend(state, all.length)
  }
  return all
}

function partReadings(part: Part, quoted: boolean, state: State): Pieces[] {
  switch (part.type) {
    case 'Literal':
      return [[stretch(part.value, quoted)]]
    case 'SingleQuoted':
    case 'AnsiCQuoted':
      return [[stretch(part.value, true)]]
    case 'DoubleQuoted':
    case 'LocaleString':
      // An empty `"$@"` gives no word; other empty quotes give an empty one.
      if (part.parts.length > 0 && part.parts.every(isList)) return partsOf(part.parts, true, state)
      return partsOf(part.parts, true, state).map((pieces) => [stretch('', true), ...pieces])
    case 'Glob':
      return [[stretch(globbed(part), false)]]
    case 'ExtendedGlob':
      return [[stretch(star, false)]]
    case 'ProcessSubstitution':
      return [[stretch('/dev/fd/63', false)]]
    case 'SimpleExpansion':
      return filled(part.text.slice(1), ownValues(part.text.slice(1), state), quoted, jointOf(state))
    case 'ParameterExpansion':
      return parameterReadings(part, quoted, state)
    case 'CommandExpansion': {
      const printed = part.script && outputOf(part.script, (words) => expandWords(words, state)[0] ?? [])
      return [[stretch(printed?.replace(/\n+$/, '') ?? output, quoted, !quoted)]]
    }
    default:
      // Arithmetic, and braces that were not expanded.
      return [[stretch(unknown, quoted, !quoted)]]
  }
}

function parameterReadings(
  part: Extract<WordPart, { type: 'ParameterExpansion' }>,
  quoted: boolean,
  state: State,
): Pieces[] {
  const { operation, prefix } = part
  const unknownWord = [[stretch(unknown, quoted, !quoted)]]
  if (prefix === '#' || operation?.type === 'Names' || operation?.type === 'Unknown') return unknownWord
  const index = part.index?.value
  let values = index === undefined ? ownValues(part.parameter, state) : valuesOf(part.parameter, state)
  if (prefix === '!') values = values.flatMap(([name = '']) => valuesOf(name, state))
  if (index !== undefined) values = elements(values, index, isIndexed(part.parameter, state), state)
  const which = index ?? part.parameter
  const joint = jointOf(state)
  if (operation === undefined) return filled(which, values, quoted, joint)
  if (operation.type === 'Default') {
    const operand = partsOf(operation.operand.parts ?? [], quoted, state)
    const plain =
      operation.operand.parts === undefined ? [[stretch(operation.operand.value, quoted, !quoted)]] : operand
    // `${x+word}` gives the word or nothing, and never the value of x.
    const own = operation.operator.endsWith('+')
      ? [[stretch('', quoted, !quoted)]]
      : filled(which, values, quoted, joint)
    return operation.operator.endsWith('?') ? own : [...own, ...plain]
  }
  if (operation.type === 'Transform' && operation.operand.value.includes('P')) prompts(values, state)
  for (const text of values.flat()) spend(state, text.length / 16)
  const [first = '', second = ''] = operandsOf(operation).map((word) => textsOf(word, state)[0] ?? unknown)
  // `${a[@]:1:2}` and `${@:2}` take elements, not characters.
  const lists = which === '@' || which === '*'
  // `nocasematch` may then be set, and it is unknown which texts match.
  const change = (text: string): string =>
    operation.type === 'Replace' && state.definitions.has('BASHOPTS')
      ? unknown
      : changed(text, operation.operator, first, second)
  const made =
    operation.type === 'Slice' && lists
      ? values.flatMap((value) =>
          slicedElements(value, first, second, part.parameter, isIndexed(part.parameter, state)),
        )
      : values.map((value) => value.map((text) => change(text)))
  return filled(which, made, quoted, joint)
}

function globbed(part: Extract<WordPart, { type: 'Glob' }>): string {
  if (part.kind !== 'bracket') return part.kind === 'star' ? star : one
  // The shell keeps the text of a pattern that no file matches, which can run code as a subscript.
  const subscript = bracketed(part)
  return runsWhenEvaluated(subscript) ? subscript : one
}

const isList = (part: Part): boolean =>
  part.type === 'SimpleExpansion'
    ? part.text === '$@'
    : part.type === 'ParameterExpansion' && part.index?.value === '@'

/** `${x@P}` runs them. */
function prompts(values: readonly Value[], state: State): void {
  for (const text of values.flat()) if (isPlain(text) && /\$\(|`/.test(text)) state.shell.code(`: ${text}`)
}

type Operation = NonNullable<Extract<WordPart, { type: 'ParameterExpansion' }>['operation']>

function operandsOf(operation: Operation): Word[] {
  if (operation.type === 'Slice')
    return operation.length ? [operation.offset, operation.length] : [operation.offset]
  if (operation.type === 'Replace') return [operation.pattern, operation.replacement]
  if (operation.type === 'Remove' || operation.type === 'Transform') return [operation.operand]
  return operation.type === 'CaseModification' && operation.operand ? [operation.operand] : []
}

/** Without an index, an array gives its first element. */
function ownValues(name: string, state: State): readonly Value[] {
  const values = valuesOf(name, state)
  return /^\W$/.test(name) ? values : elementsAt(values, 0, isIndexed(name, state), state)
}

/** An index that is no decimal number can mean any element. */
function elements(values: readonly Value[], index: string, indexed: boolean, state: State): readonly Value[] {
  if (index === '@' || index === '*') return values
  if (isNumber(index)) return elementsAt(values, Number(index), indexed, state)
  return [...values.flatMap((value) => value.map((text) => [text])), [unknown]]
}

/** `$@` and `${a[@]}` keep their elements separate, even in double quotes, which join `$*` with `joint`. */
function filled(which: string, values: readonly Value[], quoted: boolean, joint = ' '): Pieces[] {
  if (values.length > mostAlternatives) return [[stretch(unknown, quoted, !quoted)]]
  return values.map((value) => {
    if (which !== '@' && which !== '*') return [stretch(value[0] ?? '', quoted, !quoted)]
    if (quoted && which === '*') return [stretch(value.join(joint), true)]
    // An unknown part of `"$@"` can be no word at all.
    return value.map((text, at) => stretch(text, quoted && text !== unknown, !quoted, at > 0))
  })
}

/** The raw choices of `{a,b}`; undefined for a sequence (`{1..9}`), and for more than 40. */
function splitBraces(text: string): string[] | undefined {
  if (!text.startsWith('{') || !text.endsWith('}')) return undefined
  const choices: string[] = []
  let depth = 0
  let start = 1
  for (let at = 1; at < text.length - 1; at += 1) {
    const char = text[at]
    if (char === '\\') at += 1
    else if (char === "'" || char === '"') at = closing(text, at, char)
    else if (char === '{' || char === '(') depth += 1
    else if (char === '}' || char === ')') depth -= 1
    else if (char === ',' && depth === 0) {
      choices.push(text.slice(start, at))
      start = at + 1
    }
  }
  choices.push(text.slice(start, -1))
  return choices.length < 2 || choices.length > 40 ? undefined : choices
}

function closing(text: string, from: number, quote: string): number {
  let at = from + 1
  while (at < text.length && text[at] !== quote) at += quote === '"' && text[at] === '\\' ? 2 : 1
  return at
}

/** A `split` piece is an unquoted value, which separators split. Before a `cut` piece, a new field begins. */
interface Piece {
  readonly text: string
  readonly quoted: boolean
  readonly split: boolean
  readonly cut: boolean
}
type Pieces = readonly Piece[]

const stretch = (text: string, quoted: boolean, split = false, cut = false): Piece => ({
  text,
  quoted,
  split,
  cut,
})

const withoutWhatIsUnknown = (part: Piece): Piece => ({ ...part, text: withoutUnknowns(part.text) })

const joined = (readings: readonly Pieces[]): string[] =>
  readings.map((pieces) => pieces.map(({ text, cut }, at) => (cut && at > 0 ? ` ${text}` : text)).join(''))

/** Every combination of one alternative of each column. `instead` replaces a column that makes too many. */
function product<T>(columns: readonly (readonly (readonly T[])[])[], instead: readonly T[]): T[][] {
  let all: T[][] = [[]]
  for (const readings of columns) all = extended(all, readings, instead)
  return all
}

/** A single alternative needs no copies, which is faster. */
function extended<T>(all: T[][], readings: readonly (readonly T[])[], instead: readonly T[]): T[][] {
  const kept = readings.length * all.length > mostAlternatives ? [instead] : readings
  const [only] = kept
  if (kept.length !== 1 || only === undefined)
    return all.flatMap((before) => kept.map((next) => [...before, ...next]))
  for (const each of all) for (const next of only) each.push(next)
  return all
}

/** `ifs` matches the separators, and is undefined if they are unknown. */
function fieldsOf(pieces: Pieces, ifs: RegExp | undefined): string[] {
  const fields: string[] = []
  let field: string | undefined
  const end = (): void => {
    if (field !== undefined) fields.push(field)
    field = undefined
  }
  for (const { text, quoted, split, cut } of pieces) {
    if (cut) end()
    if (!split) {
      if (quoted || text !== '') field = (field ?? '') + text
      continue
    }
    for (const [at, bit] of (ifs === undefined ? [text && unknown] : text.split(ifs)).entries()) {
      if (at > 0) end()
      if (bit !== '') field = (field ?? '') + bit
    }
  }
  end()
  return fields
}

/** A text that bash may read as a pattern, at least with `extglob`. */
const pattern = /[*?[\\]|[+@!]\(/

/** In shell arithmetic, a number with a leading zero is octal. */
export const isNumber = (text: string): boolean => /^(0|-?[1-9]\d*)$/.test(text)

/**
 * The value of `${x#a}`, `${x/a/b}`, `${x,,}` or `${x:0:4}`, where `text` is that of `x`. Unknown if a text is not
 * fully known, there is a pattern, or the replacement has an `&`, which stands for the matched text.
 */
export function changed(text: string, operator: string, first: string, second: string): string {
  if (![text, first, second].every(isPlain)) return unknown
  if (/^[#%/]/.test(operator) && (pattern.test(first) || second.includes('&'))) return unknown
  switch (operator) {
    case '#':
    case '##':
      return text.startsWith(first) ? text.slice(first.length) : text
    case '%':
    case '%%':
      return first !== '' && text.endsWith(first) ? text.slice(0, -first.length) : text
    case '/':
      return first === '' ? text : text.replace(first, () => second)
    case '//':
      return first === '' ? text : text.replaceAll(first, () => second)
    case '/#':
      return text.startsWith(first) ? second + text.slice(first.length) : text
    case '/%':
      return text.endsWith(first) ? text.slice(0, text.length - first.length) + second : text
    case '^':
      return first === '' ? text.slice(0, 1).toUpperCase() + text.slice(1) : unknown
    case '^^':
      return first === '' ? text.toUpperCase() : unknown
    case ',':
      return first === '' ? text.slice(0, 1).toLowerCase() + text.slice(1) : unknown
    case ',,':
      return first === '' ? text.toLowerCase() : unknown
    case ':':
      return sliced(text, first, second)
    case '@':
      return transformed(text, first)
    default:
      return unknown
  }
}

/** The lists that `${a[@]:from:count}` can give. `$@` begins at index 1, because index 0 is `$0`. */
export function slicedElements(
  value: readonly string[],
  offset: string,
  length: string,
  name: string,
  indexed: boolean,
): readonly (readonly string[])[] {
  const [start, size] = [offset.trim() || '0', length.trim() || String(value.length)]
  const count = Number(size)
  if (!isNumber(start) || !isNumber(size) || count < 0) return [[unknown]]
  const from = Number(start)
  const first = /^[@*]$/.test(name) && from > 0 ? from - 1 : from
  const begin = Math.max(0, first < 0 ? value.length + first : first)
  const taken = value.slice(begin, begin + count)
  if (!indexed && value.every(isPlain)) return [taken]
  // It is uncertain at which index an element is.
  return value.length > mostAlternatives ? [[unknown]] : [...value.map((_, at) => value.slice(at)), [unknown]]
}

function sliced(text: string, offset: string, length: string): string {
  const [first, size] = [offset.trim() || '0', length.trim() || String(text.length)]
  if (!isNumber(first) || !isNumber(size)) return unknown
  const [from, count] = [Number(first), Number(size)]
  const start = from < 0 ? text.length + from : from
  return text.slice(Math.max(0, start), count < 0 ? text.length + count : start + count)
}

function transformed(text: string, how: string): string {
  if (how === 'L') return text.toLowerCase()
  if (how === 'U') return text.toUpperCase()
  return how === 'u' ? text.slice(0, 1).toUpperCase() + text.slice(1) : unknown
}

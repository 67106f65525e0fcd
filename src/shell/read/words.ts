import { type ArrayValue, type DoubleQuotedChild, parse, type Word, type WordPart } from 'unbash'
import { longestWord, mostAlternatives, perCode } from '../limits.ts'
import { isDynamic, isPlain, one, output, star, unknown } from '../marks.ts'
import { splitBraces } from './braces.ts'
import { outputOf } from './output.ts'
import { bracketed, runsWhenEvaluated } from './guards.ts'
import { changed, isNumber, slicedElements } from './parameters.ts'
import {
  extended,
  fieldsOf,
  joined,
  type Piece,
  type Pieces,
  product,
  stretch,
  withoutWhatIsUnknown,
} from './pieces.ts'
import { type State, spend, type Value } from './state.ts'
import { elementsAt, isIndexed, jointOf, separators, valuesOf } from './variables.ts'

/*
 * Expands words as the shell does: removes quotes, fills in variables that the command sets, and splits fields. A
 * word has several readings if a variable has several values, so all functions here return alternatives.
 */

type Part = WordPart | DoubleQuotedChild

/**
 * All possible results of expanding words, each as a list of fields. Unknown parts may be empty (`$SUDO curl`,
 * `cu$@rl`), so the results without these parts are added.
 */
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

/** The possible texts of a word that is not split into fields, as in an assignment or after `<<<`. */
export function textsOf(word: Word, state: State): string[] {
  return joined(piecesOf(word, state))
}

/** An expression with its variables filled in: `$(( $x$y ))`. */
export function assembled(raw: string, state: State): string[] {
  const code = `: "${raw.replaceAll('"', '')}"`
  spend(state, code.length + perCode / 3)
  const [first] = parse(code).commands
  const [word] = first?.command.type === 'Command' ? first.command.suffix : []
  return word?.type === 'Word' ? textsOf(word, state) : []
}

/** The parts of an unquoted heredoc as one text. */
export function heredocText(parts: readonly WordPart[], state: State): string {
  return joined(partsOf(parts, true, state))[0] ?? unknown
}

/** The possible values of an assignment: one text, or an array's elements. */
export function assignedValues(value: Word | ArrayValue, state: State): readonly Value[] {
  if (value.type === 'Word') return textsOf(value, state).map((text) => [text])
  return product(
    value.elements.map((element) =>
      piecesOf(element, state).map((pieces) => fieldsOf(pieces, separators(state)).map(withoutKey)),
    ),
    [unknown],
  )
}

/** The value of an array element with an explicit index, such as `[key]=value`. Any other element stays as it is. */
const withoutKey = (field: string): string => /^\[[^\]]*\]\+?=(.*)$/s.exec(field)?.[1] ?? field

function piecesOf(word: Word, state: State): Pieces[] {
  const { parts } = word
  spend(state, 1)
  if (parts === undefined) return [[stretch(word.value, false)]]
  spend(state, parts.length)
  const brace = parts.findIndex(({ type }) => type === 'BraceExpansion')
  return brace < 0 ? partsOf(parts, false, state) : bracesOf(parts, brace, state)
}

/** Expands braces first and on the raw text, like the shell. Then each result is read as a separate word. */
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
      // An empty `"$@"` gives no word at all; other empty quotes give an empty word.
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
      // The values of arithmetic, and of braces that were not expanded, are unknown.
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
  // If `BASHOPTS` is defined, the option `nocasematch` may be set. It is then unknown which texts match.
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
  // If no file matches the pattern, the shell keeps the text of the pattern. This text can then run code as a
  // subscript.
  const subscript = bracketed(part)
  return runsWhenEvaluated(subscript) ? subscript : one
}

const isList = (part: Part): boolean =>
  part.type === 'SimpleExpansion'
    ? part.text === '$@'
    : part.type === 'ParameterExpansion' && part.index?.value === '@'

/** Reads the substitutions in a value as code, because `${x@P}` runs them. */
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

/** Returns the values of `$name` without an index. For an array, such a value is the first element. */
function ownValues(name: string, state: State): readonly Value[] {
  const values = valuesOf(name, state)
  return /^\W$/.test(name) ? values : elementsAt(values, 0, isIndexed(name, state), state)
}

/** The elements that an index can mean. If the index is not a decimal number, it can mean any element. */
function elements(values: readonly Value[], index: string, indexed: boolean, state: State): readonly Value[] {
  if (index === '@' || index === '*') return values
  if (isNumber(index)) return elementsAt(values, Number(index), indexed, state)
  return [...values.flatMap((value) => value.map((text) => [text])), [unknown]]
}

/**
 * Inserts values into a word. `$@` and `${a[@]}` keep their elements separate, even in double quotes. In double
 * quotes, the elements of `$*` and `${a[*]}` are joined with `joint`.
 */
function filled(which: string, values: readonly Value[], quoted: boolean, joint = ' '): Pieces[] {
  if (values.length > mostAlternatives) return [[stretch(unknown, quoted, !quoted)]]
  return values.map((value) => {
    if (which !== '@' && which !== '*') return [stretch(value[0] ?? '', quoted, !quoted)]
    if (quoted && which === '*') return [stretch(value.join(joint), true)]
    // An unknown part of `"$@"` can be no word at all, so it counts as unquoted.
    return value.map((text, at) => stretch(text, quoted && text !== unknown, !quoted, at > 0))
  })
}

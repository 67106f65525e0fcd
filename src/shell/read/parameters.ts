import { mostAlternatives } from '../limits.ts'
import { isPlain, unknown } from '../marks.ts'

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

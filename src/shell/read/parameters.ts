import { isPlain, unknown } from '../marks.ts'

/** `${x#a}`, `${x/a/b}`, `${x,,}`, `${x:0:4}` of a known text; anything that would need more than text is unknown. */
export function changed(text: string, operator: string, first: string, second: string): string {
  if (![text, first, second].every(isPlain)) return unknown
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

/** The elements that `${a[@]:from:count}` takes; of `$@`, which counts from one, and from `$0` at nought. */
export function slicedElements(
  value: readonly string[],
  offset: string,
  length: string,
  name: string,
): readonly string[] {
  const [from, count] = [Number(offset.trim()), length.trim() === '' ? value.length : Number(length.trim())]
  if (!Number.isInteger(from) || !Number.isInteger(count) || count < 0) return [unknown]
  const first = /^[@*]$/.test(name) && from > 0 ? from - 1 : from
  const start = Math.max(0, first < 0 ? value.length + first : first)
  return value.slice(start, start + count)
}

function sliced(text: string, offset: string, length: string): string {
  const [from, count] = [Number(offset.trim()), length.trim() === '' ? text.length : Number(length.trim())]
  if (!Number.isInteger(from) || !Number.isInteger(count)) return unknown
  const start = from < 0 ? text.length + from : from
  return text.slice(Math.max(0, start), count < 0 ? text.length + count : start + count)
}

function transformed(text: string, how: string): string {
  if (how === 'L') return text.toLowerCase()
  if (how === 'U') return text.toUpperCase()
  return how === 'u' ? text.slice(0, 1).toUpperCase() + text.slice(1) : unknown
}

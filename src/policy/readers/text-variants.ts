import { normalized } from './unicode.ts'

/**
 * The ways in which other programs could read a text. First, encoded words are decoded (RFC 2047). Then compatibility
 * characters are converted (`＠` to `@`, `℀` to `a/c`). Then comments are removed (RFC 5322). Returns only readings
 * that differ from the text, so most texts have none. Takes linear time.
 */
export function otherReadings(text: string): string[] {
  const decoded = text.includes('=?')
    ? text.replace(encodedWord, (word, ...parts: string[]) => decode(word, parts))
    : text
  const folded = isAscii(decoded) ? decoded : normalized(decoded, 'NFKC')
  const bare = folded.includes('(') ? withoutComments(folded) : folded
  return [...new Set([decoded, folded, bare])].filter((each) => each !== text)
}

/**
 * Whether a text has an encoded word where only an address may stand (`=?utf-8?q?b=40evil.net=3e?=@acme.com`), or an
 * encoded word that cannot be decoded. A program that decodes the word before it looks for the address would deliver to
 * the hidden address.
 */
export function hidesAddress(text: string): boolean {
  if (!text.includes('=?')) return false
  for (const found of text.matchAll(encodedWord)) {
    const [before, after] = [text[found.index - 1], text[found.index + found[0].length]]
    if (!isBetween(before, '"(,;:') || !isBetween(after, '"),;<')) return true
    if (decode(found[0], found.slice(1)) === found[0]) return true
  }
  return false
}

const encodedWord = /=\?([^?\s]{1,80})\?([qb])\?([^?\s]*)\?=/gi

const isAscii = (text: string): boolean => /^[ -~\s]*$/.test(text)

/** True for white space, the end of the text, or one of `signs`. */
function isBetween(char: string | undefined, signs: string): boolean {
  return char === undefined || char.trim() === '' || signs.includes(char)
}

/** Decodes an encoded word. Returns it unchanged if its charset is unknown. */
function decode(word: string, [charset = '', encoding = '', content = '']: readonly string[]): string {
  try {
    const bytes =
      encoding.toLowerCase() === 'b'
        ? Uint8Array.from(atob(content), (char) => char.charCodeAt(0))
        : Uint8Array.from(unquote(content), (char) => char.charCodeAt(0) & 0xff)
    return new TextDecoder(charset.split('*', 1)[0]).decode(bytes)
  } catch {
    return word
  }
}

function unquote(content: string): string {
  return content
    .replaceAll('_', ' ')
    .replace(/=([0-9A-F]{2})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
}

/** Removes parentheses and their content, also nested ones. An opening parenthesis that never closes stays. */
function withoutComments(text: string): string {
  const kept: string[] = []
  const opened: number[] = []
  for (const char of text) {
    if (char === '(') opened.push(kept.length)
    const start = char === ')' ? opened.pop() : undefined
    if (start === undefined) kept.push(char)
    else kept.length = start
  }
  return kept.join('')
}

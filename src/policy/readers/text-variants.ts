import { normalized } from './unicode.ts'

/**
 * Returns other readings of a text, because other programs could read the text differently. The text is converted three
 * times, and each result is a reading. The first conversion decodes encoded words (RFC 2047). The second converts
 * compatibility characters (`＠` to `@`, `℀` to `a/c`). The third removes comments (RFC 5322). Readings that equal the
 * text are left out, so most texts have none. Takes linear time.
 */
export function otherReadings(text: string): string[] {
  const charsets: Charsets = new Map()
  const decoded = text.includes('=?')
    ? text.replace(encodedWord, (word, ...parts: string[]) => decode(word, parts, charsets))
    : text
  const folded = isAscii(decoded) ? decoded : normalized(decoded, 'NFKC')
  const bare = folded.includes('(') ? withoutComments(folded) : folded
  return [...new Set([decoded, folded, bare])].filter((each) => each !== text)
}

/**
 * Returns whether an encoded word may hide an address. This is so if the word stands where only an address may stand
 * (`=?utf-8?q?b=40evil.net=3e?=@acme.com`), or if it cannot be decoded. A program that decodes the word before it looks
 * for the address would deliver to the hidden address.
 */
export function hidesAddress(text: string): boolean {
  if (!text.includes('=?')) return false
  const charsets: Charsets = new Map()
  for (const found of text.matchAll(encodedWord)) {
    const [before, after] = [text[found.index - 1], text[found.index + found[0].length]]
    if (!isBetween(before, '"(,;:') || !isBetween(after, '"),;<')) return true
    if (decode(found[0], found.slice(1), charsets) === found[0]) return true
  }
  return false
}

const encodedWord = /=\?([^?\s]{1,80})\?([qb])\?([^?\s]*)\?=/gi

const isAscii = (text: string): boolean => /^[ -~\s]*$/.test(text)

/** True for white space, for one of `signs`, and for undefined (the start or the end of the text). */
function isBetween(char: string | undefined, signs: string): boolean {
  return char === undefined || char.trim() === '' || signs.includes(char)
}

/** The decoder for each charset. Is null if the charset is unknown. */
type Charsets = Map<string, TextDecoder | null>

/**
 * Maximum number of charsets of one text. Words in further charsets are decoded as UTF-8. The limit keeps a hostile
 * text cheap, because `TextDecoder` throws for an unknown charset, which is slow. Addresses are still read, because
 * almost every charset contains ASCII.
 */
const mostCharsets = 50

/**
 * Decodes an encoded word. Returns the word unchanged in two cases: the charset is unknown, or the word says that its
 * content is base64 but the content cannot be decoded.
 */
function decode(
  word: string,
  [charset = '', encoding = '', content = '']: readonly string[],
  charsets: Charsets,
): string {
  const decoder = decoderOf(charset.split('*', 1)[0] ?? '', charsets)
  const plain = encoding.toLowerCase() === 'b' ? fromBase64(content) : unquote(content)
  if (decoder === null || plain === null) return word
  return decoder.decode(Uint8Array.from(plain, (char) => char.charCodeAt(0) & 0xff))
}

function decoderOf(charset: string, charsets: Charsets): TextDecoder | null {
  let decoder = charsets.get(charset)
  if (decoder !== undefined) return decoder
  if (charsets.size >= mostCharsets) return new TextDecoder()
  try {
    decoder = new TextDecoder(charset)
  } catch {
    decoder = null
  }
  charsets.set(charset, decoder)
  return decoder
}

/**
 * Decodes base64. Each character of the result stands for one byte. Returns null for a text that is no base64, because
 * `atob` would throw.
 */
function fromBase64(content: string): string | null {
  const digits = content.length % 4 === 0 ? content.replace(/={1,2}$/, '') : content
  return digits.length % 4 === 1 || !/^[A-Za-z0-9+/]*$/.test(digits) ? null : atob(digits)
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

/**
 * How other programs could read the text: with encoded words decoded (RFC 2047), then with compatibility characters
 * converted (`＠` to `@`, `℀` to `a/c`), then without comments (RFC 5322). Most texts have no other reading. Takes
 * linear time.
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
 * Whether an encoded word may hide an address: it stands where only an address may
 * (`=?utf-8?q?b=40evil.net=3e?=@acme.com`), or cannot be decoded. A program that decodes first would deliver to the
 * hidden one.
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

/** Also for the start or the end of the text (undefined). */
function isBetween(char: string | undefined, signs: string): boolean {
  return char === undefined || char.trim() === '' || signs.includes(char)
}

/** Null for an unknown charset. */
type Charsets = Map<string, TextDecoder | null>

/** Words in more charsets count as UTF-8: an unknown one is slow, and almost every charset contains ASCII. */
const mostCharsets = 50

/** Unchanged if the charset is unknown, or if its base64 cannot be decoded. */
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

/** One character for each byte. Null for no base64, where `atob` would throw. */
function fromBase64(content: string): string | null {
  const digits = content.length % 4 === 0 ? content.replace(/={1,2}$/, '') : content
  return digits.length % 4 === 1 || !/^[A-Za-z0-9+/]*$/.test(digits) ? null : atob(digits)
}

function unquote(content: string): string {
  return content
    .replaceAll('_', ' ')
    .replace(/=([0-9A-F]{2})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
}

/** Also nested ones. A parenthesis that never closes stays. */
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

/** Each `%` belongs to the encoding of a UTF-8 character (RFC 3986, RFC 3629). Takes linear time. */
const encoded = new RegExp(
  [
    String.raw`^(?:[^%]|%[0-7]X|%(?:c[2-9a-f]|dX)C|%e0%[ab]XC|%e[1-9a-cef]CC|%ed%[89]XC`,
    String.raw`|%f0%[9ab]XCC|%f[123]CCC|%f4%8XCC)*$`,
  ]
    .join('')
    .replaceAll('C', '%[89ab]X')
    .replaceAll('X', String.raw`[\da-f]`),
  'i',
)

/** Null if a `%` encodes nothing. `decodeURIComponent` would throw there, slowly, perhaps thousands of times. */
export function percentDecoded(text: string): string | null {
  if (!text.includes('%')) return text
  return encoded.test(text) ? decodeURIComponent(text) : null
}

// Thirty combining marks before one more. NFKC makes two half-width characters marks.
const manyMarks = /[\p{M}\uff9e\uff9f]{30}(?=[\p{M}\uff9e\uff9f])/gu

/**
 * Sorting the marks of one letter takes quadratic time, minutes for megabytes. So an invisible character follows every
 * thirty marks, as in Unicode's Stream-Safe Text Format (UAX 15). No real text has so many in a row.
 */
export function normalized(text: string, form: 'NFC' | 'NFKC'): string {
  return text.replace(manyMarks, '$&\u034f').normalize(form)
}

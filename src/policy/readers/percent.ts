/**
 * Matches text in which each `%` belongs to the percent-encoding of a UTF-8 character (RFC 3986, RFC 3629). Takes
 * linear time.
 */
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

/**
 * Decodes percent-encoding. Returns null if a `%` belongs to no encoded character. In this case, `decodeURIComponent`
 * would throw, and an error takes several microseconds. A hostile link can have thousands of such parts. So the text is
 * tested first.
 */
export function percentDecoded(text: string): string | null {
  if (!text.includes('%')) return text
  return encoded.test(text) ? decodeURIComponent(text) : null
}

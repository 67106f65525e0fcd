import { inOneLine } from '../../policy/text.ts'

/*
 * The names in messages come from people and agents. Each name is shown as code in one line. In code, Slack reads no
 * formatting, emoji or mentions. So no name can look like text that Countersign itself wrote.
 */

/**
 * Matches invisible characters, because some of them change the direction of text. Does not match the joiner and the
 * tags of emoji.
 */
const invisible = /(?![\u200d\u{e0020}-\u{e007f}])\p{Cf}/gu
/**
 * Matches more than three combining marks on one letter. Many marks on a letter would cover the lines around the
 * letter.
 */
const stackedMarks = /(\p{M}{3})\p{M}+/gu

const longestName = 120
/** Splits text into the characters that people see. A flag stays whole, although it consists of several code points. */
const segmenter = new Intl.Segmenter()

/** Formats a name as code in Slack's text. Cuts the name after 120 visible characters. */
export function code(name: string): string {
  // The name is cut before anything else, because it may be very long.
  const short = name.slice(0, 4 * longestName).toWellFormed()
  const line = inOneLine(short).replaceAll(invisible, '').replaceAll(stackedMarks, '$1').replaceAll('`', 'ˋ')
  const letters = Array.from(
    segmenter.segment(line.replaceAll(/\s+/gu, ' ').trim()),
    ({ segment }) => segment,
  )
  const isCut = letters.length > longestName || short.length < name.length
  const shown = isCut ? `${letters.slice(0, longestName).join('')}…` : letters.join('')
  return `\`${escape(shown === '' ? '?' : shown)}\``
}

/** Escapes text so that Slack finds no link or mention in it. Formatting such as `*` is not escaped. */
export const escape = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')

/** Returns a time in Slack's markup. Slack shows the time to each person in the person's own time zone. */
export function time(at: Date): string {
  const plain = `${at.toISOString().slice(0, 16).replace('T', ' ')} UTC`
  return `<!date^${Math.floor(at.getTime() / 1_000)}^{date_short_pretty} {time}|${plain}>`
}

/** Returns a link in Slack's markup. `url` must be an address of Countersign itself. */
export const link = (url: string, words: string): string => `<${encodeURI(decodeURI(url))}|${escape(words)}>`

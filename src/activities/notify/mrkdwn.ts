import { shortWords } from '../../policy/readers/look-alikes.ts'

/* In code, Slack reads no formatting, emoji or mentions. So no name can look like text of Countersign. */

const longestName = 120

/** Cuts the name after 120 visible characters. */
export const code = (name: string): string =>
  `\`${escape(shortWords(name, longestName).replaceAll('`', 'ˋ'))}\``

/** Prevents links and mentions. Formatting such as `*` is not escaped. */
export const escape = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')

/** Slack shows the time in each person's own time zone. */
export function time(at: Date): string {
  const plain = `${at.toISOString().slice(0, 16).replace('T', ' ')} UTC`
  return `<!date^${Math.floor(at.getTime() / 1_000)}^{date_short_pretty} {time}|${plain}>`
}

/** `url` must be an address of Countersign itself. */
export const link = (url: string, words: string): string => `<${encodeURI(decodeURI(url))}|${escape(words)}>`

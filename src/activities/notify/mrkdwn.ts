import { shortWords } from '../../policy/readers/look-alikes.ts'

/*
 * The names in messages come from people and agents. Each name is shown as code in one line. In code, Slack reads no
 * formatting, emoji or mentions. So no name can look like text that Countersign itself wrote.
 */

const longestName = 120

/** Formats a name as code in Slack's text. Cuts the name after 120 visible characters. */
export const code = (name: string): string =>
  `\`${escape(shortWords(name, longestName).replaceAll('`', 'ˋ'))}\``

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

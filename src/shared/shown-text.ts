/**
 * Control characters but the line break, and those without width or that turn text: a text from elsewhere could show
 * other words than it has, or change what the terminal showed before.
 */
const unsafe =
  // oxlint-disable-next-line eslint/no-control-regex -- These are the characters that must not reach a terminal.
  /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]|\udb40[\udc00-\udfff]/g

const escaped = (text: string): string =>
  Array.from({ length: text.length }, (_, at) => text.charCodeAt(at))
    .map((code) => `\\u${code.toString(16).padStart(4, '0')}`)
    .join('')

/** Shows each unsafe character as `\u` and its code. Lines stay. JSON stays the same JSON. */
export const shownText = (text: string): string => text.replace(unsafe, escaped)

/** The same in one line. */
export const shownLine = (text: string): string => shownText(text).replaceAll('\n', '\\u000a')

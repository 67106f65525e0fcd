/*
 * What an approver sees of a call in place of raw parameters. Values are plain text that a page can draw, cut to limits,
 * and shown to the people who may see the call's parameters.
 */

export interface PreviewField {
  readonly name: string
  readonly value: string
}

export interface Preview {
  /** One sentence: what would happen. */
  readonly title: string
  readonly fields: readonly PreviewField[]
}

/** What a tool says of a call. Without `fields`, all parameters are shown. */
export interface PreviewDraft {
  readonly title: string
  /** Values by name, in order. undefined is left out. */
  readonly fields?: Readonly<Record<string, unknown>>
}

/** Limits of a preview: characters of its texts, fields, and items of one list. */
export const mostOfPreview = {
  title: 200,
  name: 100,
  value: 2_000,
  fields: 30,
  items: 100,
} as const

/** The beginning of a text that is longer than `limit`, and how much is missing. */
function cut(text: string, limit: number): string {
  if (text.length <= limit) return text
  return `${text.slice(0, limit).toWellFormed()}… (${text.length - limit} more characters)`
}

/** A value as people read it. A list of plain values is one line. */
function readable(value: unknown): string {
  if (typeof value === 'string') return value
  if (!Array.isArray(value)) return JSON.stringify(value, null, 2)
  const shown = value.slice(0, mostOfPreview.items)
  const isPlain = shown.every((each) => typeof each !== 'object')
  const text = isPlain ? shown.map(String).join(', ') : JSON.stringify(shown, null, 2)
  return value.length > shown.length ? `${text}… (${value.length - shown.length} more)` : text
}

export const fieldsOf = (values: Readonly<Record<string, unknown>>): PreviewField[] =>
  Object.entries(values)
    .filter(([, value]) => value !== undefined)
    .slice(0, mostOfPreview.fields)
    .map(([name, value]) => ({
      name: cut(name, mostOfPreview.name),
      value: cut(readable(value), mostOfPreview.value),
    }))

export const titleOf = (text: string): string => cut(text.replaceAll(/\s+/g, ' ').trim(), mostOfPreview.title)

/** A text in quotes, for a title. */
export const quoted = (text: unknown): string => `“${String(text)}”`

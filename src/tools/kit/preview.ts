import { noteOn } from '../../policy/readers/look-alikes.ts'

/* Plain text, cut to limits. Only people who may see the call's parameters may see the preview. */

export interface PreviewField {
  readonly name: string
  readonly value: string
  /** Says which characters of the value can be overlooked or taken for others. */
  readonly note?: string
  /** The host that says this. Is absent if the value is a parameter of the call, or in the words of Countersign. */
  readonly said_by?: string
}

export interface PreviewDiff {
  /** Is null if there is no old text. */
  readonly before: string | null
  readonly after: string
  /** Equal characters that are left out at the beginning of both texts. */
  readonly skipped: number
}

export interface Preview {
  /** One sentence that says what the call would do. */
  readonly title: string
  readonly fields: readonly PreviewField[]
  readonly diff?: PreviewDiff
  /** Says which part could not be shown, and why. */
  readonly note?: string
}

/** Without `fields`, all parameters are shown. */
export interface PreviewDraft {
  readonly title: string
  /** In the order of the preview. A value of undefined is left out. */
  readonly fields?: Readonly<Record<string, unknown>>
}

/** In characters; `side` is for each text of a diff. `fields` and `items` (of one list) are numbers. */
export const mostOfPreview = {
  title: 200,
  name: 100,
  value: 2_000,
  side: 5_000,
  fields: 30,
  items: 100,
} as const
/** A diff that leaves out equal characters still shows this many of them in front of the first difference. */
const leading = 300

/** Adds how many characters are missing. */
function cut(text: string, limit: number): string {
  if (text.length <= limit) return text
  return `${text.slice(0, limit).toWellFormed()}… (${text.length - limit} more characters)`
}

/** A list of texts, numbers and booleans becomes one line. Example: `['a', 1]` becomes `a, 1`. */
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
    .map(([name, value]) => {
      const shown = cut(readable(value), mostOfPreview.value)
      const note = noteOn(shown, typeof value === 'string' ? 'text' : 'json')
      return { name: cut(name, mostOfPreview.name), value: shown, ...(note === undefined ? {} : { note }) }
    })

export const titleOf = (text: string): string => cut(text.replaceAll(/\s+/g, ' ').trim(), mostOfPreview.title)

/** Leaves out the equal beginning of long texts, except for its last `leading` characters. */
export function diffOf(before: string | null, after: string): PreviewDiff {
  if (before === null) return { before, after: cut(after, mostOfPreview.side), skipped: 0 }
  const isShort = before.length <= mostOfPreview.side && after.length <= mostOfPreview.side
  const skipped = isShort ? 0 : Math.max(0, sameCharacters(before, after) - leading)
  const shown = (text: string): string => cut(text.slice(skipped).toWellFormed(), mostOfPreview.side)
  return { before: shown(before), after: shown(after), skipped }
}

function sameCharacters(one: string, other: string): number {
  const length = Math.min(one.length, other.length)
  let same = 0
  while (same < length && one.charCodeAt(same) === other.charCodeAt(same)) same += 1
  return same
}

export const quoted = (text: unknown): string => `“${String(text)}”`

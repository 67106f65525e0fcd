import { z } from 'zod'

/** PostgreSQL can store it, and every parser reads it in the same way: no NUL, no broken surrogate pair. */
export function isStorable(text: string): boolean {
  return !text.includes('\u0000') && text.isWellFormed()
}

/** With `min` 1, empty text and text of only white space are refused. */
export function textField(max: number, min: 0 | 1 = 1) {
  const field = z
    .string()
    .max(max, `must have at most ${max} characters`)
    .refine(isStorable, 'must not contain NUL characters or broken surrogate pairs')
  return min === 0 ? field : field.refine((text) => text.trim() !== '', 'must not be empty')
}

/** Also characters that change the writing direction of the text after them. */
const unseen = /[\p{Cc}\p{Zl}\p{Zp}\u202a-\u202e\u2066-\u2069]/u

/** One line: in a mail or terminal, a second one could look like a message of the service. */
export const nameField = (max: number) =>
  textField(max).refine(isOneLine, 'must be one line without control characters')

export const isOneLine = (text: string): boolean => !unseen.test(text)

/**
 * Returns the text in one line. A space replaces the characters that `nameField` refuses. Texts from
 * elsewhere may have such characters.
 */
export function inOneLine(text: string): string {
  return isOneLine(text) ? text : text.replaceAll(new RegExp(`${unseen.source}+`, 'gu'), ' ')
}

const slug = (kind: string, example: string) =>
  z
    .string()
    .max(64, `a ${kind} has at most 64 characters`)
    .regex(/^[a-z0-9]+(?:[-_][a-z0-9]+)*$/, {
      error: ({ input }) =>
        isBracketed(String(input))
          ? placeholderMessage(String(input))
          : `a ${kind} is a lower-case slug such as \`${example}\``,
    })
export const labelSlug = slug('label', 'confidential')
export const categorySlug = slug('category', 'financial')

/** Never the id of a workflow, which has an underscore. */
export const workflowSlug = z
  .string()
  .regex(
    /^[a-z][a-z0-9]*(?:-[a-z0-9]+)*$/,
    'a slug has lower-case letters, digits and hyphens, such as `weekly-report`',
  )
  .max(64)

/** Not the name of a role, because policies name a group where they name a role. */
export const groupName = z
  .string()
  .regex(
    /^[a-z][a-z0-9_-]{0,63}$/,
    'the name of a group has at most 64 lower-case letters, digits, `_` and `-`, and begins with a letter',
  )
  .refine((name) => !['viewer', 'member', 'admin', 'owner'].includes(name), {
    error: ({ input }) => `\`${String(input)}\` is a role: take another name`,
  })

// `<YOUR_SHEET_ID>`, `<org-id>`, `<your sheet>`, but no single words such as `<script>`, which rules search for.
const placeholder = /^<(?:[A-Z][A-Z0-9_ -]*|[A-Za-z][A-Za-z0-9]*(?:[_ -][A-Za-z0-9]+)+|your[A-Za-z0-9]*)>$/

export function isPlaceholder(text: string): boolean {
  return text.length <= 200 && placeholder.test(text.trim())
}

/** Also a single word in angle brackets, such as `<sheet>`: where no rule searches for tags. */
export function isBracketed(text: string): boolean {
  return text.length <= 200 && /^<[A-Za-z0-9][A-Za-z0-9_ -]*>$/.test(text.trim())
}

export function placeholderMessage(text: string): string {
  return `\`${text.trim()}\` is a placeholder: replace it with the real value`
}

/** Hardly in other texts: `.*` before more, `/^` at the start, `[a-z]+`, `\d+`. Short, for linear time. */
const rareElsewhere = /^\.[*+][^*.]|\[(?:\w-\w){1,3}\][*+{]|\\[dw][*+]|^\/\^/

/** Both anchors, one and a part such as `.*`, or a rare part. Not prices (`5$`) and shares (`\\server\d$`). */
export function isPattern(text: string): boolean {
  if (rareElsewhere.test(text)) return true
  const [begins, ends] = [text.startsWith('^'), text.endsWith('$')]
  if (begins && ends) return text.length > 2
  if (begins) return /\.[*+]|\\[.dwsb]/.test(text)
  return ends && /\.[*+]|\\\./.test(text)
}

export const patternMessage =
  'looks like a regular expression, and is compared as plain text: write the text itself, or compare a part with `contains`'

export function quoteValue(given: string | number | boolean): string {
  const text = String(given)
  return quote(text.length > 80 ? `${text.slice(0, 79)}…` : text)
}

/** For a sentence: on one line and in backticks. */
export function quote(text: string): string {
  return `\`${inOneLine(text)}\``
}

/** For a sentence: "`a`, `b` or 2 more". */
export function list(items: readonly string[], word: 'and' | 'or', most = 5): string {
  const kept = items.slice(0, most)
  if (items.length > most) kept.push(`${items.length - most} more`)
  const last = kept.pop() ?? ''
  return kept.length === 0 ? last : `${kept.join(', ')} ${word} ${last}`
}

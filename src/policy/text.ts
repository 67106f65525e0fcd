import { z } from 'zod'

/**
 * Returns whether PostgreSQL can store the text and every parser reads the text in the same way. Such a text has no NUL
 * and no broken surrogate pair.
 */
export function isStorable(text: string): boolean {
  return !text.includes('\u0000') && text.isWellFormed()
}

/** A text field of at most `max` characters. With `min` 1, empty text and text of only white space are refused. */
export function textField(max: number, min: 0 | 1 = 1) {
  const field = z
    .string()
    .max(max, `must have at most ${max} characters`)
    .refine(isStorable, 'must not contain NUL characters or broken surrogate pairs')
  return min === 0 ? field : field.refine((text) => text.trim() !== '', 'must not be empty')
}

/** Control characters, line breaks, and characters that change the writing direction of the text after them. */
const unseen = /[\p{Cc}\p{Zl}\p{Zp}\u202a-\u202e\u2066-\u2069]/u

/**
 * A name: text of one line. Names are shown in sentences, mails, terminals and lists. A second line could look like a
 * message of the service itself.
 */
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
/** A category of a workflow. */
export const categorySlug = slug('category', 'financial')

// Matches `<YOUR_SHEET_ID>`, `<ID>`, `<org-id>`, `<your sheet>`. Single words such as `<script>` and `<Sheet1>` do not
// match, because a rule may search for them.
const placeholder = /^<(?:[A-Z][A-Z0-9_ -]*|[A-Za-z][A-Za-z0-9]*(?:[_ -][A-Za-z0-9]+)+|your[A-Za-z0-9]*)>$/

/** Whether the whole value is a placeholder that nobody has filled in. */
export function isPlaceholder(text: string): boolean {
  return text.length <= 200 && placeholder.test(text.trim())
}

/**
 * Whether the whole value is a placeholder or a single word in angle brackets, such as `<sheet>`. For places where
 * no rule searches for tags of HTML or XML.
 */
export function isBracketed(text: string): boolean {
  return text.length <= 200 && /^<[A-Za-z0-9][A-Za-z0-9_ -]*>$/.test(text.trim())
}

export function placeholderMessage(text: string): string {
  return `\`${text.trim()}\` is a placeholder: replace it with the real value`
}

/**
 * Parts of regular expressions that other texts hardly have: `.*` at the start of a longer text, `/^` at the start, and
 * `[a-z]+` and `\d+` anywhere. Each part is short, so that the search takes linear time.
 */
const rareElsewhere = /^\.[*+][^*.]|\[(?:\w-\w){1,3}\][*+{]|\\[dw][*+]|^\/\^/

/**
 * Returns whether the text is clearly a regular expression. Such a text has both anchors (`^` and `$`), or one anchor
 * and a part such as `.*`, or a part that is very rare in other texts. Prices such as `5$` and network shares such as
 * `\\server\d$` are no regular expressions.
 */
export function isPattern(text: string): boolean {
  if (rareElsewhere.test(text)) return true
  const [begins, ends] = [text.startsWith('^'), text.endsWith('$')]
  if (begins && ends) return text.length > 2
  if (begins) return /\.[*+]|\\[.dwsb]/.test(text)
  return ends && /\.[*+]|\\\./.test(text)
}

export const patternMessage =
  'looks like a regular expression, and is compared as plain text: write the text itself, or compare a part with `contains`'

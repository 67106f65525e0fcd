import { z } from 'zod'

/** Text that Postgres can store and every parser reads alike: no NUL, no half of a surrogate pair. */
export function isStorable(text: string): boolean {
  return !text.includes('\u0000') && text.isWellFormed()
}

/** A bounded text field; `min` 1 also refuses text that is all white space. */
export function textField(max: number, min: 0 | 1 = 1) {
  const field = z
    .string()
    .max(max, `must have at most ${max} characters`)
    .refine(isStorable, 'must not contain NUL characters or broken surrogate pairs')
  return min === 0 ? field : field.refine((text) => text.trim() !== '', 'must not be empty')
}

/** Text of one line: it stands in mails and lists, where a line of its own would pass for the service's words. */
export const lineField = (max: number) =>
  textField(max).refine(
    (text) => !/[\p{Cc}\p{Zl}\p{Zp}]/u.test(text),
    'must be one line without control characters',
  )

/** Labels are lower-case slugs (contract section 5). */
export const labelSlug = z
  .string()
  .max(64, 'a label has at most 64 characters')
  .regex(/^[a-z0-9]+(?:[-_][a-z0-9]+)*$/, 'a label is a lower-case slug such as `confidential`')

// `<YOUR_SHEET_ID>`, `<ID>`, `<org-id>`, `<your sheet>`; never a lower-case word such as `<script>`, which a rule
// may well look for.
const placeholder = /^<(?:[A-Z][A-Z0-9_ -]*|[A-Za-z][A-Za-z0-9]*(?:[_ -][A-Za-z0-9]+)+|your[A-Za-z0-9]*)>$/

/** Whether the whole value is a placeholder that somebody forgot to fill in (specification, "Rules and label rules"). */
export function isPlaceholder(text: string): boolean {
  return text.length <= 200 && placeholder.test(text.trim())
}

export function placeholderMessage(text: string): string {
  return `\`${text.trim()}\` is a placeholder: replace it with the real value`
}

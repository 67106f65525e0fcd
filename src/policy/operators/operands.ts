import { z } from 'zod'
import { ruleDomain } from '../readers/hosts.ts'
import {
  isBracketed,
  isPattern,
  isPlaceholder,
  patternMessage,
  placeholderMessage,
  textField,
} from '../text.ts'

/* The types of the values of conditions. */

/** For values that a rule searches for within a text. They may be tags, such as `<script>`. */
const filledIn = (text: string, context: z.RefinementCtx) => {
  if (isPlaceholder(text)) context.addIssue({ code: 'custom', message: placeholderMessage(text) })
}
/** For values that a rule compares as a whole. */
export const filledInWhole = (text: string, context: z.RefinementCtx) => {
  if (isBracketed(text)) context.addIssue({ code: 'custom', message: placeholderMessage(text) })
}

const number = z.number()
const text = textField(2000).superRefine(filledIn)
const wholeText = textField(2000, 0).superRefine(filledInWhole)
/**
 * Refuses a value that looks like a regular expression. The operators would compare the value as plain text, so the
 * value would never match.
 */
const notPattern = (value: unknown, context: z.RefinementCtx) => {
  if (typeof value === 'string' && isPattern(value))
    context.addIssue({ code: 'custom', message: patternMessage })
}
export const whole = z.union([wholeText, number, z.boolean()]).superRefine(notPattern)
export const listed = <T extends z.ZodType>(value: T) =>
  z.array(value).min(1, 'give at least one value').max(1000, 'give at most 1,000 values')

/** A text that a rule searches for at one place of a text. */
export const partOfText = text.superRefine(notPattern)
const part = z.union([text, number, z.boolean()])
/** One value or several values that a rule searches for within a text or a list. */
export const parts = z.union([text, number, z.boolean(), listed(part)])

/** A domain to compare with. Placeholders are refused, and so are public suffixes such as `co.uk`. */
export const domain = textField(2000).superRefine((value, context) => {
  if (isBracketed(value)) return filledInWhole(value, context)
  const read = ruleDomain(value)
  if ('issue' in read) context.addIssue({ code: 'custom', message: read.issue })
})

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

/** For values that a rule searches for within a text, perhaps tags, such as `<script>`. */
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
/** Operators compare plain text, so a regular expression would never match. */
const notPattern = (value: unknown, context: z.RefinementCtx) => {
  if (typeof value === 'string' && isPattern(value))
    context.addIssue({ code: 'custom', message: patternMessage })
}
export const whole = z.union([wholeText, number, z.boolean()]).superRefine(notPattern)
export const listed = <T extends z.ZodType>(value: T) =>
  z.array(value).min(1, 'give at least one value').max(1000, 'give at most 1,000 values')

export const partOfText = text.superRefine(notPattern)
const part = z.union([text, number, z.boolean()])
export const parts = z.union([text, number, z.boolean(), listed(part)])

/** Public suffixes such as `co.uk` are refused too. */
export const domain = textField(2000).superRefine((value, context) => {
  if (isBracketed(value)) return filledInWhole(value, context)
  const read = ruleDomain(value)
  if ('issue' in read) context.addIssue({ code: 'custom', message: read.issue })
})

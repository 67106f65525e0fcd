import { z } from 'zod'
import { ruleDomain } from './readers/hosts.ts'
import {
  isBracketed,
  isPattern,
  isPlaceholder,
  labelSlug,
  patternMessage,
  placeholderMessage,
  textField,
} from './text.ts'

const path = textField(200)
  .refine((text) => text.split('.').every((segment) => segment !== ''), {
    message: 'a parameter is a dotted path such as `to` or `message.body`, or `*` for any',
  })
  // Request bodies with a field `__proto__` are refused, so a rule for this field would never match.
  .refine((text) => !text.split('.').includes('__proto__'), {
    message: 'no call has a field called `__proto__`: name another parameter',
  })
  .superRefine((text, context) => filledInWhole(text, context))

/** For values that a rule searches for within a text. They may be tags, such as `<script>`. */
const filledIn = (text: string, context: z.RefinementCtx) => {
  if (isPlaceholder(text)) context.addIssue({ code: 'custom', message: placeholderMessage(text) })
}
/** For values that a rule compares as a whole. */
const filledInWhole = (text: string, context: z.RefinementCtx) => {
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
const whole = z.union([wholeText, number, z.boolean()]).superRefine(notPattern)
const list = <T extends z.ZodType>(value: T) =>
  z.array(value).min(1, 'give at least one value').max(1000, 'give at most 1,000 values')

/** A domain to compare with. Placeholders are refused, and so are public suffixes such as `co.uk`. */
export const domain = textField(2000).superRefine((value, context) => {
  if (isBracketed(value)) return filledInWhole(value, context)
  const read = ruleDomain(value)
  if ('issue' in read) context.addIssue({ code: 'custom', message: read.issue })
})

/** One entry of a rule's `params`. The operator determines the type of `value`. */
export const conditionInput = z.discriminatedUnion('operator', [
  z.strictObject({
    param: path,
    operator: z.literal('equals'),
    value: whole,
  }),
  z.strictObject({
    param: path,
    operator: z.enum(['in', 'not_in']),
    value: list(whole),
  }),
  z.strictObject({
    param: path,
    operator: z.literal('contains'),
    value: z.union([text, number, z.boolean(), list(z.union([text, number, z.boolean()]))]),
  }),
  z.strictObject({ param: path, operator: z.literal('startswith'), value: text.superRefine(notPattern) }),
  z.strictObject({ param: path, operator: z.enum(['domain_in', 'domain_not_in']), value: list(domain) }),
  z.strictObject({ param: path, operator: z.literal('exists'), value: z.boolean() }),
  z.strictObject({ param: path, operator: z.literal('from_label'), value: list(labelSlug) }),
])

export type ParamCondition = z.infer<typeof conditionInput>
export type RuleOperator = ParamCondition['operator']

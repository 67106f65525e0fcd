import { z } from 'zod'
import { byOperand, type ParamCondition } from './operators/index.ts'
import { filledInWhole } from './operators/operands.ts'
import { textField } from './text.ts'

const path = textField(200)
  .refine((text) => text.split('.').every((segment) => segment !== ''), {
    message: 'a parameter is a dotted path such as `to` or `message.body`, or `*` for any',
  })
  // Request bodies with a field `__proto__` are refused, so a rule for this field would never match.
  .refine((text) => !text.split('.').includes('__proto__'), {
    message: 'no call has a field called `__proto__`: name another parameter',
  })
  .superRefine((text, context) => filledInWhole(text, context))

/** The forms of a condition, by their names in openapi.json. */
export const conditionForms = new Map(
  [...byOperand].map(([{ form, schema }, operators]) => [
    `${form}Condition`,
    z.strictObject({ param: path, operator: z.enum(operators), value: schema }),
  ]),
)

/** One entry of a rule's `params`. */
export const conditionInput = z.discriminatedUnion('operator', [
  ...conditionForms.values(),
] as never) as unknown as z.ZodType<ParamCondition>

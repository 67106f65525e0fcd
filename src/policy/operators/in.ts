import { list, quoteValue } from '../text.ts'
import { byMatcher, comparesWithList, comparison, negationOf, otherText } from './comparison.ts'
import { amongListed, membership } from './membership.ts'
import type { Operand, Operator, Scalar } from './operator.ts'
import { listed, whole } from './operands.ts'

const operand: Operand<Scalar[]> = { form: 'List', schema: listed(whole) }
const when = byMatcher({
  name: 'in',
  matcher: (values) => membership(values, false, true),
  compareIssues: comparesWithList,
})

export const isIn = { name: 'in', rules: amongListed(operand), when } as const satisfies Operator

export const isNotIn = {
  name: 'not_in',
  rules: comparison({
    operand,
    fitsAbsent: true,
    wholes: 'excluded',
    matcher: (values, isRestrictive) => membership(values, true, isRestrictive),
    words: (param, values) => `${param} is not ${list(values.map(quoteValue), 'or')}`,
    verb: 'is not',
    examples: (values) => [...values, otherText],
  }),
  when: negationOf(when),
} as const satisfies Operator

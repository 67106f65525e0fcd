import { z } from 'zod'
import { least, maybe, no, not, type Tri, yes } from '../tri.ts'
import type { Found } from '../values.ts'
import { comparesWith, otherText } from './comparison.ts'
import type { AskingPresence, OfWhen, Operator } from './operator.ts'

const rules = {
  reads: 'presence',
  operand: { form: 'Exists', schema: z.boolean() },
  compile([wanted], { isRestrictive }) {
    if (typeof wanted !== 'boolean') throw new TypeError('`exists` needs true or false')
    return (found) => presence(found, wanted, isRestrictive)
  },
  words: (param, [wanted]) => `${param} is ${wanted === true ? 'there' : 'missing'}`,
  verb: 'is',
  examples: () => [otherText, ''],
  // An empty text is no value here.
  needsValue: ([wanted]) => wanted === true,
  implies: ([narrow], [wide]) => narrow === wide,
} as const satisfies AskingPresence

const when: OfWhen = {
  asksForPresence: true,
  compareIssues: comparesWith('true or false', (compare) => typeof compare === 'boolean'),
  holds: ({ found }, compare) => found.isThere === (compare ?? true),
}

export const exists = { name: 'exists', rules, when } as const satisfies Operator

/** If only some elements of a list have the path, a restrictive rule matches, and an `allow` rule does not. */
function presence(found: Found, wanted: boolean, isRestrictive: boolean): Tri {
  const isThere = found.isThere ? yes : found.mayBeThere ? maybe : no
  if (wanted === isRestrictive) return wanted ? isThere : not(isThere)
  const isComplete = found.isMissing ? no : found.mayBeMissing ? maybe : yes
  return wanted ? least(isThere, isComplete) : not(least(isThere, isComplete))
}

import { contains } from './contains.ts'
import { domainIn, domainNotIn } from './domain_in.ts'
import { equals, notEquals } from './equals.ts'
import { exists } from './exists.ts'
import { fromLabel } from './from_label.ts'
import { isIn, isNotIn } from './in.ts'
import type { Comparing, OfRules, OfWhen, Operand } from './operator.ts'
import { startsWith } from './startswith.ts'

/** In the order in which messages and openapi.json list them. */
const operators = [
  ...([equals, notEquals, isIn, isNotIn, contains, startsWith] as const),
  ...([domainIn, domainNotIn, exists, fromLabel] as const),
]

type One = (typeof operators)[number]
type InRules = Extract<One, { readonly rules: OfRules }>

export type RuleOperator = InRules['name']
export type WhenOperator = Extract<One, { readonly when: OfWhen }>['name']
type ValueOf<Operator> = Operator extends { readonly rules: { readonly operand: Operand<infer Value> } }
  ? Value
  : never

/** The operator determines the type of `value`. */
export type ParamCondition = {
  [Each in InRules as Each['name']]: { param: string; operator: Each['name']; value: ValueOf<Each> }
}[RuleOperator]

const ofRules = new Map<string, OfRules>()
const ofWhen = new Map<string, OfWhen>()
export const byOperand = new Map<Operand, RuleOperator[]>()
for (const operator of operators) {
  if ('when' in operator) ofWhen.set(operator.name, operator.when)
  if (!('rules' in operator)) continue
  ofRules.set(operator.name, operator.rules)
  const { operand } = operator.rules
  byOperand.set(operand, [...(byOperand.get(operand) ?? []), operator.name])
}

export const whenOperators = [...ofWhen.keys()] as readonly WhenOperator[]

/** Throws TypeError for an unknown operator. */
export const inRules = (name: RuleOperator): OfRules => known(ofRules, name)

/** Null for operators that compare no values. */
export function wholesOf(name: RuleOperator): Comparing['wholes'] {
  const operator = inRules(name)
  return operator.reads === 'values' ? operator.wholes : null
}

/** Throws TypeError for an unknown operator. */
export const inWhen = (name: WhenOperator): OfWhen => known(ofWhen, name)

function known<T>(operators: ReadonlyMap<string, T>, name: string): T {
  const operator = operators.get(name)
  if (operator === undefined) throw new TypeError(`unknown operator \`${name}\``)
  return operator
}

import fc from 'fast-check'
import { expect, test } from '@jest/globals'
import { Budget } from '../../../src/policy/budget.ts'
import { evaluate, Missing, type Value } from '../../../src/policy/expressions/evaluate.ts'
import { parseExpression } from '../../../src/policy/expressions/parse.ts'
import { MissingPath } from '../../../src/policy/reference.ts'
import type { Json } from '../../../src/policy/types.ts'
import { Hole, isList, type Partial } from '../../../src/policy/values.ts'
import { byDepth } from '../../support/depth.ts'
import { expressionOver } from '../arbitraries.ts'

/* For every filling of the holes, the result with the values fits the result with the holes, or is an error. */

const scalar: fc.Arbitrary<Json> = fc.constantFrom<Json>(
  null,
  true,
  false,
  0,
  1,
  2,
  'hello',
  'a@acme.com',
  '',
  'x',
)
const json: fc.Arbitrary<Json> = fc.oneof(
  scalar,
  fc.array(scalar, { maxLength: 3 }),
  scalar.map((x): Json => ({ x })),
  fc.array(
    scalar.map((x): Json => ({ x })),
    { maxLength: 2 },
  ),
)

/** A value with holes, and what fills them. A hole with a beginning is text. */
type Filled = readonly [hole: Partial, value: Json]
const filled: fc.Arbitrary<Filled> = fc.oneof(
  json.map((value): Filled => [value, value]),
  json.map((value): Filled => [new Hole(null, { from: ['a'] }), value]),
  fc
    .tuple(fc.constantFrom('', 'he', 'x'), fc.constantFrom('', 'llo', 'y'), fc.constantFrom('', 'l', '@'))
    .map(([prefix, end, middle]): Filled => [new Hole(prefix, { after: [end] }), prefix + middle + end]),
  fc
    .array(scalar, { minLength: 1, maxLength: 3 })
    .map((list): Filled => [[new Hole(null), ...list.slice(1)], list]),
  scalar.map((x): Filled => [
    { x: new Hole(null), y: 1 },
    { x, y: 1 },
  ]),
)

function resultOf(text: string, a: Partial, b: Partial, mayLack: boolean): Value | Error {
  const { expression } = parseExpression(`{{ ${text} }}`, 0)
  try {
    return evaluate(expression.node, {
      read: (reference) =>
        reference.kind === 'input' ? (reference.name === 'a' ? a : b) : new Missing('gone'),
      budget: new Budget(),
      mayLack,
    })
  } catch (error) {
    return error as Error
  }
}

function fits(hole: Value | Error, value: Value | Error): boolean {
  if (value instanceof Error) return true
  if (hole instanceof MissingPath) return false
  if (hole instanceof Error) return true
  if (hole instanceof Hole)
    return hole.prefix === null || (typeof value === 'string' && hole.mayBecome(value, new Budget()))
  if (hole instanceof Missing || value instanceof Missing)
    return hole instanceof Missing && value instanceof Missing
  if (typeof hole !== 'object' || hole === null) return hole === value
  if (typeof value !== 'object' || value === null || isList(hole) !== isList(value)) return false
  const [wanted, found] = [Object.entries(hole), Object.entries(value)]
  return (
    wanted.length === found.length &&
    wanted.every(([key, each], at) => key === found[at]?.[0] && fits(each, found[at]?.[1] as Json))
  )
}

test('the result with holes covers the result with every filling', () => {
  const seen = { known: 0, text: 0, unknown: 0, error: 0 }
  fc.assert(
    fc.property(
      expressionOver(['input.a', 'input.b', 'gone.output']),
      filled,
      filled,
      (text, [a, x], [b, y]) => {
        const hole = resultOf(text, a, b, true)
        const value = resultOf(text, x, y, false)
        if (hole instanceof Hole) seen[hole.prefix === null ? 'unknown' : 'text'] += 1
        else seen[hole instanceof Error ? 'error' : 'known'] += 1
        return fits(hole, value)
      },
    ),
    { numRuns: byDepth(15_000, 3_000_000) },
  )
  for (const [kind, count] of Object.entries(seen)) expect([kind, count > 10]).toEqual([kind, true])
})

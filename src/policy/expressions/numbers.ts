import type { Json } from '../types.ts'
import { order } from './compare.ts'
import {
  finite,
  isList,
  listOf,
  numberOf,
  shortTextOf,
  textOf,
  wholeOf,
  type Shape,
  type Work,
} from './shape.ts'

const rounding =
  (name: string, round: (value: number) => number): Shape['run'] =>
  ([value]) =>
    finite(round(numberOf(value, name)), name)

/** `min(1, 2)`, `min(list)` or `min(list, row, row.amount)`. */
const extreme =
  (name: string, isBetter: (order: number) => boolean): Shape['run'] =>
  (args, { budget, keys }) => {
    const [only, ...others] = args
    const values = keys ?? (others.length === 0 && only !== undefined && isList(only) ? only : args)
    budget.spend(values.length)
    const [first, ...rest] = values
    if (first === undefined)
      throw new TypeError(
        `\`${name}\` needs a list that is not empty: write \`size(list) > 0 ? ${name}(list) : 0\``,
      )
    return rest.reduce<Json>((best, each) => (isBetter(order(each, best, name, budget)) ? each : best), first)
  }

export const numbers = {
  number: {
    written: "number(text, decimal = '.')",
    gives: 'number',
    args: [1, 2],
    run: ([value, decimal = '.']) => readNumber(value, textOf(decimal, 'number')),
  },
  round: {
    written: 'round(number, digits = 0)',
    gives: 'number',
    args: [1, 2],
    run([value, places = 0]) {
      const [given, digits] = [numberOf(value, 'round'), wholeOf(places, 'round')]
      if (digits < 0 || digits > 15) throw new TypeError('`round` takes 0 to 15 digits')
      return rounded(given, digits)
    },
  },
  floor: { written: 'floor(number)', gives: 'number', args: [1, 1], run: rounding('floor', Math.floor) },
  ceil: { written: 'ceil(number)', gives: 'number', args: [1, 1], run: rounding('ceil', Math.ceil) },
  abs: { written: 'abs(number)', gives: 'number', args: [1, 1], run: rounding('abs', Math.abs) },
  min: {
    written: 'min(list) or min(list, row, key)',
    args: [1, 50],
    each: 'optional',
    run: extreme('min', (found) => found < 0),
  },
  max: {
    written: 'max(list) or max(list, row, key)',
    args: [1, 50],
    each: 'optional',
    run: extreme('max', (found) => found > 0),
  },
  sum: {
    written: 'sum(list) or sum(list, row, number)',
    gives: 'number',
    args: [1, 1],
    each: 'optional',
    run([list], { budget, keys }: Work) {
      const values = keys ?? listOf(list, 'sum')
      budget.spend(values.length)
      return finite(
        values.reduce<number>((sum, each) => sum + numberOf(each, 'sum'), 0),
        'sum',
      )
    },
  },
} as const satisfies Readonly<Record<string, Shape>>

/** By the decimal sign: a number without and with signs between thousands. */
const forms: Readonly<Record<string, { readonly plain: RegExp; readonly grouped: RegExp }>> = {
  '.': {
    plain: /^[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d{1,3})?$/,
    grouped: /^[+-]?\d{1,3}(?:,\d{3})+(?:\.\d+)?$/,
  },
  ',': { plain: /^[+-]?\d+(?:,\d+)?$/, grouped: /^[+-]?\d{1,3}(?:\.\d{3})+(?:,\d+)?$/ },
}

/** Text as people write it, with blanks around it. */
function readNumber(value: Json | undefined, decimal: string): number {
  if (typeof value === 'number') return value
  const form = Object.hasOwn(forms, decimal) ? forms[decimal] : undefined
  if (form === undefined) throw new TypeError("`number` takes '.' or ',' as its decimal sign")
  const text = shortTextOf(value, 'number')
  const isGrouped = form.grouped.test(text)
  if (!isGrouped && !form.plain.test(text))
    throw new TypeError(
      "`number` needs text that is a number, such as `12.50`; with a decimal comma write `number(…, ',')`",
    )
  const digits = isGrouped ? text.replaceAll(decimal === '.' ? ',' : '.', '') : text
  return finite(Number(digits.replace(',', '.')), 'number')
}

/** As people round: the decimal digits count, so 1.005 becomes 1.01. A half goes away from zero. */
function rounded(value: number, digits: number): number {
  const text = String(Math.abs(value))
  if (text.includes('e')) return finite(Number(value.toFixed(digits)), 'round')
  const up = Number(`${Math.round(Number(`${text}e${digits}`))}e-${digits}`)
  return finite(Math.sign(value) * up, 'round')
}

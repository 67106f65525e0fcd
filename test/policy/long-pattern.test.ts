import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import { Budget } from '../../src/policy/budget.ts'
import { includesText } from '../../src/policy/long-pattern.ts'
import { cpuMilliseconds } from './cpu-time.ts'

test('finds what `includes` finds', () => {
  const unit = fc.constantFrom('a', 'ab', 'aab', 'b')
  const long = fc.array(unit, { maxLength: 8 }).map((parts) => parts.join('').repeat(40))
  fc.assert(
    fc.property(long, long, fc.nat(400), (text, more, from) => {
      const pattern = (text + more).slice(from)
      for (const whole of [text, more + text, text + more, more + text + more])
        expect(includesText(whole, pattern, new Budget())).toBe(whole.includes(pattern))
    }),
  )
})

test.each([
  ['at the beginning', `ab${'a'.repeat(1_998)}`],
  ['in the middle', `${'a'.repeat(999)}b${'a'.repeat(1_000)}`],
  ['at the end', `${'a'.repeat(1_999)}b`],
])('another letter %s of a long pattern costs little', (_, pattern) => {
  const text = 'a'.repeat(2 ** 21)
  const find = () => expect(includesText(text, pattern, new Budget())).toBe(false)
  // V8 took more than a second for the first one.
  expect(Math.min(...[1, 2, 3].map(() => cpuMilliseconds(find)))).toBeLessThan(200)
})

test('long patterns pay by the length of the text', () => {
  const budget = new Budget(3_000)
  const find = () => includesText('a'.repeat(64_000), 'b'.repeat(300), budget)
  expect(find()).toBe(false)
  expect(find).toThrow('too large')
})

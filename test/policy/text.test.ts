import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import { cpuMilliseconds } from './cpu-time.ts'
import { inOneLine, isOneLine, isPattern, nameField } from '../../src/policy/text.ts'

const signs = fc.constantFrom(
  'a',
  ' ',
  'é',
  '\n',
  '\r',
  '\t',
  '\u0000',
  '\u001b',
  '\u0085',
  '\u2028',
  '\u202e',
  '\u2069',
)

test('a name has one line, and a text in one line keeps all other characters', () => {
  fc.assert(
    fc.property(fc.string({ unit: signs, maxLength: 8 }), (text) => {
      const line = inOneLine(text)
      expect(isOneLine(line)).toBe(true)
      expect(line.replaceAll(' ', '')).toBe(text.replaceAll(/[^aé]/g, ''))
      expect(line === text).toBe(isOneLine(text))
      if (nameField(10).safeParse(text).success) expect(line).toBe(text)
    }),
  )
})

test.each(['Отчёт', '報告', 'تقرير', 'naïve', '👩‍🚀 launch', 'a\u00a0b'])('`%s` is a name', (name) => {
  expect(nameField(200).safeParse(name).success).toBe(true)
})

test.each([
  '^.*@acme\\.com$',
  '^acme$',
  '^a.*',
  '^\\d+',
  'acme\\.com$',
  '.*@acme.com$',
  '^(a|b)$',
  '.*@acme\\.com',
  '.+@x',
  '[a-z]+@acme\\.com',
  'v[0-9]{2}',
  'run-\\d+',
  '/^acme/',
])('`%s` is plainly a regular expression', (text) => {
  expect(isPattern(text)).toBe(true)
})

test.each([
  '5$',
  '$5',
  '$5.00',
  'US$',
  '^_^',
  '^',
  '$',
  '^$',
  '.*',
  '*.pdf',
  'notes.*',
  'C:\\data\\report.*',
  '.**',
  '...',
  '[draft-2] plan',
  '\\\\server\\d$',
  'a^2 + b^2',
  '^GSPC',
  'price in $',
  'what? (really)',
  'a@acme.com',
])('`%s` is text', (text) => {
  expect(isPattern(text)).toBe(false)
})

test.each(['[a-a', '[0-9', '[a-b]', '\\d', '.*[', '[[[['])(
  'a text of many `%s` takes linear time',
  (part) => {
    const texts = Array.from({ length: 20 }, (_, n) => `${n}${part.repeat(2_000 / part.length)}`)
    expect(cpuMilliseconds(() => texts.forEach(isPattern))).toBeLessThan(200)
  },
)

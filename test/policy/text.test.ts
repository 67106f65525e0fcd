import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import { inOneLine, isOneLine, nameField } from '../../src/policy/text.ts'

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

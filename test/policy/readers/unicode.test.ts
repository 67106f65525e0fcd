import { describe, expect, test } from '@jest/globals'
import { normalized } from '../../../src/policy/readers/unicode.ts'
import { plainPath } from '../../../src/policy/readers/file-paths.ts'
import { otherReadings } from '../../../src/policy/readers/text-variants.ts'
import { isPlainName } from '../../../src/policy/tool-names.ts'
import { cpuMilliseconds } from '../cpu-time.ts'

test.each([
  ['NFC', 'e\u0301', '\u00e9'],
  ['NFC', `a${'\u0316\u0301'.repeat(15)}`, `\u00e1${'\u0316'.repeat(15)}${'\u0301'.repeat(14)}`],
  ['NFKC', '\uff20\u2100', '@a/c'],
  ['NFKC', '\uff76\uff9e', '\u30ac'],
] as const)('%s of %j', (form, text, expected) => {
  expect(normalized(text, form)).toBe(expected)
  expect(normalized(text, form)).toBe(text.normalize(form))
})

describe('a million marks on one letter are put in order in linear time', () => {
  const kinds: readonly (readonly [string, string])[] = [
    ['marks', '\u0301\u0316'],
    ['half-width signs between marks', '\uff9e\u0301'],
    ['marks beyond 16 bits', '\u{1e000}\u0316'],
  ]
  const readers: readonly (readonly [string, (text: string) => unknown])[] = [
    ['a path', plainPath],
    ['an address', otherReadings],
    ['a tool’s name', isPlainName],
  ]
  test.each(
    kinds.flatMap(([kind, marks]) => readers.map(([reader, read]) => ({ kind, marks, reader, read }))),
  )('$kind in $reader', ({ marks, read }) => {
    const text = `/a${marks.repeat(500_000)}`
    // About 100 ms here; with quadratic time it would take minutes.
    expect(cpuMilliseconds(() => read(text))).toBeLessThan(5_000)
  })
})

import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { cpuMilliseconds } from './cpu-time.ts'
import { globsMeet, matchesGlob } from '../../src/policy/glob.ts'

test.each([
  ['mail_send', 'mail_send', true],
  ['mail_send', 'mail_send2', false],
  ['*', '', true],
  ['*', 'anything', true],
  ['mcp__*__read', 'mcp__files__read', true],
  ['mcp__*__read', 'mcp__files__reads', false],
  ['*_send', 'mail_send', true],
  ['a*b*c', 'aXbYbZc', true],
  ['a?c', 'abc', true],
  ['a?c', 'ac', false],
  ['a.c', 'abc', false],
  ['', 'a', false],
])('%s on %s: %s', (glob, name, expected) => {
  expect(matchesGlob(glob, name)).toBe(expected)
})

test('a hostile glob stays cheap', () => {
  expect(matchesGlob('*a'.repeat(100), 'a'.repeat(20_000) + 'b')).toBe(false)
})

test('matches what a regular expression matches', () => {
  const word = (unit: string) => fc.string({ unit: fc.constantFrom(...unit.split('')), maxLength: 9 })
  fc.assert(
    fc.property(word('xy*?'), word('xy'), (glob, name) => {
      const source = glob
        .split('')
        .map((char) => ({ '*': '.*', '?': '.' })[char] ?? char)
        .join('')
      expect(matchesGlob(glob, name)).toBe(new RegExp(`^${source}$`).test(name))
    }),
    { numRuns: 20_000 },
  )
})

test('a thousand globs that almost fit a long name cost little', () => {
  const globs = Array.from({ length: 1_000 }, () => `*${'a'.repeat(99)}b`)
  expect(cpuMilliseconds(() => globs.forEach((glob) => matchesGlob(glob, 'a'.repeat(190))))).toBeLessThan(40)
})

describe('globsMeet', () => {
  test.each([
    ['mail_*', '*_send', true],
    ['mail_*', 'memory_*', false],
    ['a?c', 'ab?', true],
    ['a?', 'a', false],
    ['*', '', true],
    ['?*', '', false],
  ])('%s and %s: %s', (a, b, expected) => {
    expect(globsMeet(a, b)).toBe(expected)
    expect(globsMeet(b, a)).toBe(expected)
  })

  test('is true exactly when some name matches both', () => {
    const letters = ['x', 'y']
    const longer = (names: string[]) => names.flatMap((name) => letters.map((letter) => name + letter))
    let [all, last] = [[''], ['']]
    for (let length = 1; length <= 6; length++) all = all.concat((last = longer(last)))
    const glob = fc.string({ unit: fc.constantFrom('x', 'y', '*', '?'), maxLength: 3 })
    fc.assert(
      fc.property(glob, glob, (a, b) => {
        expect(globsMeet(a, b)).toBe(all.some((name) => matchesGlob(a, name) && matchesGlob(b, name)))
      }),
      { numRuns: 1000 },
    )
  })
})

import { expect, test } from '@jest/globals'
import { matchesGlob } from '../../src/policy/glob.ts'

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

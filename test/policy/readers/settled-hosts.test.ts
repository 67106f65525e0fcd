import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import { Budget } from '../../../src/policy/budget.ts'
import { hostsIn, settledHosts } from '../../../src/policy/readers/recipients.ts'
import { Hole } from '../../../src/policy/values.ts'

/* The hosts that are certain in a text with unknown parts. */

const settled = (prefix: string, ...after: string[]) =>
  settledHosts(new Hole(prefix, { after: after.length === 0 ? [''] : after }).outline, new Budget())

test('a link determines its host only once the authority has ended', () => {
  expect(settled('https://acme.com/')).toEqual(['acme.com'])
  expect(settled('https://acme.com')).toEqual([])
  expect(settled('https://acme.com:443@')).toEqual([])
  expect(settled('', 'https://acme.com/')).toEqual([])
})

test('an address determines its host only once the host has ended', () => {
  expect(settled('a@acme.com')).toEqual([])
  expect(settled('a@acme.com.')).toEqual([])
  expect(settled('a@acme.com, ')).toEqual(['acme.com'])
  expect(settled('', ', a@acme.com')).toEqual(['acme.com'])
  expect(settled('', '@acme.com')).toEqual(['acme.com'])
  expect(settled('', 'acme.com')).toEqual([])
  expect(settled('', ' <a@acme.com>, ', '')).toEqual(['acme.com'])
  expect(settled('', 'a@acme.com', '')).toEqual([])
  expect(settled('', 'a@127.0.0.1')).toEqual([])
})

test('every text has the hosts that are certain, whatever its unknown parts are', () => {
  const signs = [
    '"',
    "'",
    '\\',
    '(',
    ')',
    '<',
    '>',
    '[',
    ']',
    ',',
    ';',
    '\n',
    ' ',
    '@',
    '.',
    ':',
    '/',
    '%',
    '=?',
    '?=',
  ]
  const words = [
    'a',
    'me',
    'mailto:',
    'https://',
    'https://acme.com/',
    's3://',
    'data:',
    '?q=',
    '%40',
    '%2e',
    '\uff20',
  ]
  const text = (addresses: string[], maxLength: number) =>
    fc
      .array(fc.constantFrom(...signs, ...words, ...addresses, ...addresses), { maxLength })
      .map((parts) => parts.join(''))
  const addresses = [
    'b@evil.net',
    '@evil.net',
    '@acme.com',
    '@1.2.3.4',
    '@1.0xa',
    '"b"@evil.net',
    '=?utf-8?q?b=40evil.net?=',
  ]
  const pieces = fc.array(text(addresses, 4), { minLength: 2, maxLength: 4 })
  const unknowns = fc.array(text(addresses, 6), { minLength: 3, maxLength: 3 })
  let certain = 0
  fc.assert(
    fc.property(pieces, unknowns, ([prefix = '', ...after], unknown) => {
      const hosts = settled(prefix, ...after)
      if (hosts.length === 0) return
      certain += 1
      const whole = [prefix, ...after].reduce((done, piece, at) => done + (unknown[at - 1] ?? '') + piece)
      expect(hostsIn(whole, new Budget())).toEqual(expect.arrayContaining(hosts))
    }),
    { numRuns: 60_000 },
  )
  expect(certain).toBeGreaterThan(10_000)
})

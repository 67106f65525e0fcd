import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { crc32 } from 'node:zlib'
import { hashApiKey, isApiKey, newApiKey } from '../../../src/governance/access/key-format.ts'

describe('an API key', () => {
  test('has the published form and a checksum', () => {
    const { secret, hash, last4 } = newApiKey()
    expect(secret).toMatch(/^csk_live_[0-9A-Za-z]{38}$/)
    expect(isApiKey(secret)).toBe(true)
    expect(hash).toBe(hashApiKey(secret))
    expect(hash).toMatch(/^[0-9a-f]{64}$/)
    expect(secret.endsWith(last4)).toBe(true)
  })

  test('ends with the CRC32 of the rest in base62', () => {
    const { secret } = newApiKey()
    const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
    const number = secret
      .slice(-6)
      .split('')
      .reduce((sum, digit) => sum * 62 + alphabet.indexOf(digit), 0)
    expect(number).toBe(crc32(secret.slice(0, -6)))
  })

  test('with any one character changed is invalid', () => {
    const { secret } = newApiKey()
    const changed = fc
      .tuple(
        fc.integer({ min: 0, max: secret.length - 1 }),
        fc.constantFrom('a', 'Z', '0', '9', '_', '-', 'é', ' '),
      )
      .map(([at, char]) => secret.slice(0, at) + char + secret.slice(at + 1))
      .filter((text) => text !== secret)
    fc.assert(fc.property(changed, (text) => !isApiKey(text)))
  })

  test('text of another form is no key', () => {
    const { secret } = newApiKey()
    fc.assert(
      fc.property(fc.string(), (text) => !isApiKey(text) && !isApiKey(secret + text.slice(0, 3) + '\n')),
    )
  })
})

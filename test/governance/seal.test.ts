import { randomBytes } from 'node:crypto'
import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { createSealer, UnsealError } from '../../src/governance/seal.ts'

const sealer = createSealer(randomBytes(32))
const place = 'run_1/send/-1'

describe('sealed bytes', () => {
  test('law: open with the key and at the place they were sealed for, and with nothing else', () => {
    const other = createSealer(randomBytes(32))
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), fc.string(), fc.string(), (plain, here, elsewhere) => {
        fc.pre(here !== elsewhere && plain.isWellFormed())
        const sealed = sealer.seal(here, plain)
        expect(sealer.open(here, sealed)).toBe(plain)
        expect(() => sealer.open(elsewhere, sealed)).toThrow(UnsealError)
        expect(() => other.open(here, sealed)).toThrow(UnsealError)
      }),
    )
  })

  test('do not open with any bit changed, cut short or made longer', () => {
    const sealed = sealer.seal(place, '{"to":"a@acme.com"}')
    for (let bit = 0; bit < sealed.length * 8; bit += 1) {
      const changed = Buffer.from(sealed)
      changed[bit >> 3] = (changed[bit >> 3] as number) ^ (1 << (bit & 7))
      expect(() => sealer.open(place, changed)).toThrow(UnsealError)
    }
    for (let length = 0; length < sealed.length; length += 1)
      expect(() => sealer.open(place, sealed.subarray(0, length))).toThrow(UnsealError)
    expect(() => sealer.open(place, Buffer.concat([sealed, Buffer.alloc(1)]))).toThrow(UnsealError)
  })

  test('differ each time, and hold nothing of the text', () => {
    const [a, b] = [sealer.seal(place, 'the same secret'), sealer.seal(place, 'the same secret')]
    expect(a.equals(b)).toBe(false)
    expect(a.includes('secret')).toBe(false)
  })

  test('of an unknown version are told apart', () => {
    const sealed = sealer.seal(place, 'x')
    sealed[0] = 2
    expect(() => sealer.open(place, sealed)).toThrow('sealed data of version `2` cannot be opened')
  })
})

test.each([0, 16, 31, 33])('a key of %d bytes is refused, with the name of the setting', (length) => {
  expect(() => createSealer(Buffer.alloc(length))).toThrow(/DATA_ENCRYPTION_KEY/)
})

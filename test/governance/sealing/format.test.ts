import { randomBytes } from 'node:crypto'
import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import {
  dataKeyOf,
  headerOf,
  keyIdOf,
  openWith,
  sealedOverhead,
  sealWith,
  UnsealError,
  unwrap,
  wrap,
} from '../../../src/governance/sealing/format.ts'

const newKey = () => dataKeyOf(randomBytes(32))
const key = newKey()
const place = 'run_1/send/-1'
const text = () => fc.string({ unit: 'binary' }).filter((plain) => plain.isWellFormed())

/** For both versions of the format: functions to seal and open a text, and the number of bytes before the body. */
const versions = [
  {
    version: 2,
    overhead: sealedOverhead,
    seal: (at: string, plain: string) => sealWith(key, at, plain),
    open: (at: string, sealed: Buffer) => openWith(key, at, sealed),
    openWithAnother: (at: string, sealed: Buffer) => openWith(newKey(), at, sealed),
  },
  {
    version: 1,
    overhead: 29,
    seal: (at: string, plain: string) => wrap(key.key, at, Buffer.from(plain)),
    open: (at: string, sealed: Buffer) => unwrap(key.key, at, sealed).toString('utf8'),
    openWithAnother: (at: string, sealed: Buffer) => unwrap(newKey().key, at, sealed).toString('utf8'),
  },
]

describe.each(versions)('bytes sealed in version $version', ({ overhead, seal, open, openWithAnother }) => {
  test('law: open with their key at their place, and with nothing else', () => {
    fc.assert(
      fc.property(text(), fc.string(), fc.string(), (plain, here, elsewhere) => {
        fc.pre(here !== elsewhere)
        const sealed = seal(here, plain)
        expect(sealed).toHaveLength(overhead + Buffer.byteLength(plain))
        expect(open(here, sealed)).toBe(plain)
        expect(() => open(elsewhere, sealed)).toThrow(UnsealError)
        expect(() => openWithAnother(here, sealed)).toThrow(UnsealError)
      }),
    )
  })

  test('do not open after a bit changed or the length changed', () => {
    const sealed = seal(place, '{"to":"a@acme.com"}')
    for (let bit = 0; bit < sealed.length * 8; bit += 1) {
      const changed = Buffer.from(sealed)
      changed[bit >> 3] = (changed[bit >> 3] as number) ^ (1 << (bit & 7))
      expect(() => open(place, changed)).toThrow(UnsealError)
    }
    for (let length = 0; length < sealed.length; length += 1)
      expect(() => open(place, sealed.subarray(0, length))).toThrow(UnsealError)
    expect(() => open(place, Buffer.concat([sealed, Buffer.alloc(1)]))).toThrow(UnsealError)
  })

  test('differ each time, and contain nothing of the text', () => {
    const [a, b] = [seal(place, 'the same secret'), seal(place, 'the same secret')]
    expect(a.equals(b)).toBe(false)
    expect(a.includes('secret')).toBe(false)
  })
})

test('the key id in the header is authenticated: with another id the value does not open', () => {
  const other = newKey()
  const sealed = sealWith(key, place, 'x')
  expect(keyIdOf(sealed)).toBe(key.id)
  const renamed = Buffer.concat([headerOf(other), sealed.subarray(9)])
  expect(keyIdOf(renamed)).toBe(other.id)
  expect(() => openWith(other, place, renamed)).toThrow(UnsealError)
  // Even the right key does not open the value under the id of another key.
  expect(() => openWith({ id: other.id, key: key.key }, place, renamed)).toThrow(UnsealError)
})

test('an unknown version is reported', () => {
  const sealed = sealWith(key, place, 'x')
  sealed[0] = 3
  expect(() => openWith(key, place, sealed)).toThrow('sealed data of version `3` cannot be opened')
})

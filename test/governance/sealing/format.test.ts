import { randomBytes } from 'node:crypto'
import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import {
  dataKeyOf,
  headerOf,
  keyIdOf,
  openInSlices,
  openWith,
  sealedOverhead,
  sealInSlices,
  sealWith,
  sliceBytes,
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

describe('a long text', () => {
  const text = 'ä line of text\n'.repeat((3 * sliceBytes) / 16) + 'the end'

  test.each([0, 1, sliceBytes, sliceBytes + 1, Buffer.byteLength(text)])(
    'sealed or opened in slices is what is sealed or opened at once, %i bytes',
    async (length) => {
      const plain = Buffer.from('x'.repeat(length))
      const sealed = await sealInSlices(key, place, plain)
      expect(openWith(key, place, sealed)).toBe(plain.toString())
      expect(await openInSlices(key, place, sealWith(key, place, plain.toString()))).toBe(plain.toString())
    },
  )

  test('keeps characters that lie across the end of a slice', async () => {
    expect(await openInSlices(key, place, await sealInSlices(key, place, Buffer.from(text)))).toBe(text)
  })

  test('is not opened after a change, at another place, or with another key', async () => {
    const sealed = await sealInSlices(key, place, Buffer.from(text))
    const changed = Buffer.from(sealed)
    changed[sealed.length - 1] = (changed[sealed.length - 1] as number) ^ 1
    await expect(openInSlices(key, place, changed)).rejects.toThrow(UnsealError)
    await expect(openInSlices(key, 'run_2/send/-1', sealed)).rejects.toThrow(UnsealError)
    await expect(openInSlices(newKey(), place, sealed)).rejects.toThrow(UnsealError)
    await expect(openInSlices(key, place, sealed.subarray(0, sealedOverhead - 1))).rejects.toThrow(
      UnsealError,
    )
  })

  test('lets the thread handle other events while it is sealed and opened', async () => {
    const { result, turns } = await turnsDuring(() =>
      sealInSlices(key, place, Buffer.alloc(64 * sliceBytes, 'x')),
    )
    expect(turns).toBeGreaterThan(2)
    expect((await turnsDuring(() => openInSlices(key, place, result))).turns).toBeGreaterThan(2)
  })
})

/** How often the event loop turned while the work was done. */
async function turnsDuring<T>(work: () => Promise<T>): Promise<{ result: T; turns: number }> {
  let turns = 0
  let goesOn = true
  const count = (): void => {
    turns += 1
    if (goesOn) setImmediate(count)
  }
  setImmediate(count)
  const result = await work().finally(() => (goesOn = false))
  return { result, turns }
}

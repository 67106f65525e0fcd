import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
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
  type DataKey,
} from '../../../src/governance/sealing/format.ts'
import {
  createKeyring,
  leaseMilliseconds,
  makeKey,
  WrongKey,
  type Keyring,
} from '../../../src/governance/sealing/keyring.ts'
import { openKept, sealerOf } from '../../../src/governance/sealing/sealer.ts'
import { asAdmin } from '../../support/postgres.ts'
import { testContext, testKey, type TestContext } from '../support.ts'

let made: TestContext
beforeAll(async () => {
  made = await testContext()
})
beforeEach(() =>
  asAdmin(made.adminUrl, (client) => client.query('delete from data_keys; delete from installation')),
)
afterAll(() => made?.close())

/** The keyring of one process. The test moves the keyring's clock. */
function keyring(...installationKeys: [Buffer, ...Buffer[]]): Keyring & { pass(milliseconds: number): void } {
  let now = 0
  const { db, log } = made.context
  const ring = createKeyring({ db, log, installationKeys, clock: () => now })
  return { ...ring, pass: (milliseconds) => void (now += milliseconds) }
}

const stored = () => made.context.db.selectFrom('data_keys').selectAll().execute()

describe('data keys', () => {
  test('are made once by processes that start together, and are stored wrapped', async () => {
    const keys = await Promise.all(Array.from({ length: 8 }, () => keyring(testKey).current()))
    expect(new Set(keys.map(({ id }) => id)).size).toBe(1)
    const rows = await stored()
    expect(rows).toMatchObject([{ id: keys[0]?.id, generation: 1, retired_at: null }])
    expect(rows[0]?.wrapped.includes(keys[0]?.key as Buffer)).toBe(false)
  })

  test('every process uses a new key within the lease, and can open its values at once', async () => {
    const [here, there] = [keyring(testKey), keyring(testKey)]
    const first = await there.current()
    await makeKey(made.context.db, testKey, 2)
    const second = await here.current()
    expect(second.id).not.toBe(first.id)
    expect(await there.current()).toEqual(first)
    const sealed = await sealerOf(here).seal('place', 'text')
    expect(await sealerOf(there).open('place', sealed)).toBe('text')
    there.pass(leaseMilliseconds + 1)
    expect(await there.current()).toEqual(second)
  })

  test('of one generation are made once', async () => {
    await keyring(testKey).current()
    await Promise.all([2, 2, 2].map((generation) => makeKey(made.context.db, testKey, generation)))
    expect(await stored()).toHaveLength(2)
  })

  test('do not open after they were moved to another row or renamed', async () => {
    const ring = keyring(testKey)
    const { id } = await ring.current()
    await makeKey(made.context.db, testKey, 2)
    await asAdmin(made.adminUrl, (client) =>
      client.query(
        `update data_keys set wrapped = (select wrapped from data_keys where generation = 1) where generation = 2`,
      ),
    )
    const second = (await stored()).find((each) => each.id !== id)
    await expect(ring.find(second?.id ?? '')).rejects.toBeInstanceOf(UnsealError)
    await expect(ring.find('0'.repeat(16))).rejects.toThrow('there is no data key')
  })
})

describe('the installation’s key', () => {
  test('must be one of those that wrapped the newest data key', async () => {
    await keyring(testKey).current()
    const another = randomBytes(32)
    await expect(keyring(another).current()).rejects.toBeInstanceOf(WrongKey)
    expect(await keyring(another, testKey).current()).toEqual(await keyring(testKey).current())
  })

  test('opens values that it has sealed, also as an old key', async () => {
    const sealed = wrap(testKey, 'place', Buffer.from('text'))
    expect(await sealerOf(keyring(testKey)).open('place', sealed)).toBe('text')
    expect(await sealerOf(keyring(randomBytes(32), testKey)).open('place', sealed)).toBe('text')
    await expect(sealerOf(keyring(randomBytes(32))).open('place', sealed)).rejects.toBeInstanceOf(UnsealError)
  })

  test('a new one does not affect a running process that does not have it', async () => {
    const ring = keyring(testKey)
    const first = await ring.current()
    await makeKey(made.context.db, randomBytes(32), 2)
    ring.pass(leaseMilliseconds + 1)
    expect(await ring.current()).toEqual(first)
  })
})

test('law: after any history of keys, a value opens at its place only, under its name only', async () => {
  const value = {
    place: fc.string(),
    text: fc.string({ unit: 'grapheme' }),
    kept: fc.constantFrom('new', 'v1'),
  }
  const step = fc.oneof(fc.constant('rotate' as const), fc.record(value))
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 30 }), async (steps) => {
      const keys: DataKey[] = [dataKeyOf(randomBytes(32))]
      const history = sealerOf({
        current: async () => keys.at(-1) as DataKey,
        find: async (id) => keys.find((key) => key.id === id) ?? Promise.reject(new UnsealError('unknown')),
        unwrap: keyring(testKey).unwrap,
      })
      const values = []
      for (const each of steps) {
        if (each === 'rotate') keys.push(dataKeyOf(randomBytes(32)))
        else {
          const { place, text, kept } = each
          const sealed =
            kept === 'new' ? await history.seal(place, text) : wrap(testKey, place, Buffer.from(text))
          values.push({ place, text, sealed, plain: null })
        }
      }
      for (const { place, text, ...kept } of values) {
        expect(await openKept(history, place, kept)).toBe(text)
        await expect(openKept(history, place, { ...kept, plain: text })).rejects.toBeInstanceOf(UnsealError)
        await expect(history.open(`${place}!`, kept.sealed)).rejects.toBeInstanceOf(UnsealError)
        for (const key of keys) {
          const renamed = Buffer.concat([headerOf(key), kept.sealed.subarray(9)])
          if (!renamed.equals(kept.sealed))
            await expect(history.open(place, renamed)).rejects.toBeInstanceOf(UnsealError)
        }
      }
    }),
    { numRuns: 50 },
  )
})

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
    const short = sealed.subarray(0, sealedOverhead - 1)
    await expect(openInSlices(key, place, short)).rejects.toThrow(UnsealError)
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

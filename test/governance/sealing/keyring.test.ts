import { randomBytes } from 'node:crypto'
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import {
  dataKeyOf,
  headerOf,
  UnsealError,
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
beforeEach(async () => {
  made = await testContext()
})
afterEach(() => made.close())

/** The keyring of one process. The test moves the keyring's clock. */
function keyring(...installationKeys: [Buffer, ...Buffer[]]): Keyring & { pass(milliseconds: number): void } {
  let now = 0
  const { db, log } = made.context
  const ring = createKeyring({ db, log, installationKeys, clock: () => now })
  return { ...ring, pass: (milliseconds) => void (now += milliseconds) }
}

describe('data keys', () => {
  test('are made once by processes that start together, and are stored wrapped', async () => {
    const rings = Array.from({ length: 8 }, () => keyring(testKey))
    const keys = await Promise.all(rings.map((ring) => ring.current()))
    expect(new Set(keys.map(({ id }) => id)).size).toBe(1)
    const rows = await made.context.db.selectFrom('data_keys').selectAll().execute()
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
    expect(await made.context.db.selectFrom('data_keys').select('id').execute()).toHaveLength(2)
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
    const [{ id: second }] = (await made.context.db
      .selectFrom('data_keys')
      .select('id')
      .where('id', '<>', id)
      .execute()) as [{ id: string }]
    await expect(ring.find(second)).rejects.toBeInstanceOf(UnsealError)
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

  test('of a database without data keys must be the one that sealed its probe', async () => {
    await made.context.db
      .insertInto('installation')
      .values({ key_probe: wrap(testKey, 'installation', Buffer.from('countersign')) })
      .execute()
    await expect(keyring(randomBytes(32)).current()).rejects.toBeInstanceOf(WrongKey)
    expect(await made.context.db.selectFrom('data_keys').select('id').execute()).toEqual([])
    await keyring(testKey).current()
  })

  test('opens values that older versions sealed with it, also as an old key', async () => {
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
  const step = fc.oneof(
    fc.constant('rotate' as const),
    fc.record({
      place: fc.string(),
      text: fc.string({ unit: 'grapheme' }),
      kept: fc.constantFrom('new', 'v1'),
    }),
  )
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

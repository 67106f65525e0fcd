import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals'
import { sql } from 'kysely'
import type { BatchKind } from '../../../src/governance/audit/combiner.ts'
import { DomainError } from '../../../src/governance/errors.ts'
import { createTestDatabase, type TestDatabase } from '../../support/stack.ts'
import {
  appendMarked,
  appendTo,
  createOrganization,
  openCombiner,
  organizationId,
  query,
  storedRows,
  verify,
} from './chain-fixture.ts'
import { waitsForLock } from '../support.ts'

let database: TestDatabase
let open: ReturnType<typeof openCombiner>

beforeEach(async () => {
  database = await createTestDatabase()
  await createOrganization(database.adminUrl)
  open = openCombiner(database.appUrl)
})
afterEach(async () => {
  await open.close()
  await database.drop()
})

const marks = (count: number): string[] => Array.from({ length: count }, (_, index) => `m${index}`)

test('under the lock nothing is read by a sequential scan, even if the table was small when the plan was made', async () => {
  const settings = await open.combiner.run(organizationId, 'org.change', async (tx) => {
    appendTo(tx, 'looked')
    return tx.send(
      sql<object>`select current_setting('enable_seqscan') as seqscan, current_setting('jit') as jit`,
    )
  })
  expect(settings).toEqual([{ seqscan: 'off', jit: 'off' }])
})

test('shared reads are planned once per connection; PostgreSQL plans other statements as it likes', async () => {
  const mode = sql<{ mode: string }>`select current_setting('plan_cache_mode') as mode`
  const shared: BatchKind<null, { mode: string }[], string | undefined> = {
    point: 'effect.decide',
    load: async (reader) => [...(await reader.send(mode))],
    apply(tx, [row]) {
      appendTo(tx, 'looked')
      return row?.mode
    },
    write: () => {},
  }
  const alone = async (): Promise<string | undefined> =>
    open.combiner.run(organizationId, 'org.change', async (tx) => (await tx.send(mode))[0]?.mode)
  expect(await open.combiner.join(organizationId, shared, null)).toBe('force_generic_plan')
  expect(await alone()).toBe('auto')
  const together = [alone(), open.combiner.join(organizationId, shared, null), alone()]
  expect(await Promise.all(together)).toEqual(['auto', 'force_generic_plan', 'auto'])
})

describe('order', () => {
  test('operations are applied and answered in order of arrival', async () => {
    const answers = await Promise.all(
      marks(300).map((mark) => open.combiner.join(organizationId, appendMarked, mark)),
    )
    expect(answers).toEqual(marks(300).map((_, index) => index + 1))
    expect((await storedRows(database.appUrl)).map((row) => row.mark)).toEqual(marks(300))
  })

  test('operations with their own statements keep their place among shared ones', async () => {
    const { combiner } = open
    const work = marks(30).map((mark, index) =>
      index % 7 === 3
        ? combiner.run(organizationId, 'org.change', (tx) => Promise.resolve(appendTo(tx, mark)))
        : combiner.join(organizationId, appendMarked, mark),
    )
    expect(await Promise.all(work)).toEqual(marks(30).map((_, index) => index + 1))
    expect((await storedRows(database.appUrl)).map((row) => row.mark)).toEqual(marks(30))
  })

  test('an operation sees the changes of earlier ones in its batch', async () => {
    const useOnce: BatchKind<string, { used: boolean }, boolean> = {
      point: 'effect.decide',
      load: () => Promise.resolve({ used: false }),
      apply(tx, shared, mark) {
        const first = !shared.used
        shared.used = true
        appendTo(tx, mark)
        return first
      },
      write: () => {},
    }
    const answers = await Promise.all(
      marks(5).map((mark) => open.combiner.join(organizationId, useOnce, mark)),
    )
    expect(answers).toEqual([true, false, false, false, false])
  })
})

describe('batches', () => {
  const transactions = async (maxBatch?: number): Promise<number> => {
    const { combiner, close } = openCombiner(database.appUrl, maxBatch === undefined ? {} : { maxBatch })
    await Promise.all(marks(100).map((mark) => combiner.join(organizationId, appendMarked, mark)))
    await close()
    return new Set((await storedRows(database.appUrl)).map((row) => row.xmin)).size
  }

  test('waiting operations share one transaction', async () => {
    expect(await transactions()).toBe(1)
  })

  test('with a longest batch of 1, every call has its own transaction', async () => {
    expect(await transactions(1)).toBe(100)
  })

  test('operations with much to write share no transaction, small ones do', async () => {
    const mebibytes = (count: number): BatchKind<string, null, number> => ({
      ...appendMarked,
      weight: () => count * 1024 * 1024,
    })
    const transactions = async (): Promise<number> =>
      new Set((await storedRows(database.appUrl)).map((row) => row.xmin)).size
    await Promise.all(marks(4).map((mark) => open.combiner.join(organizationId, mebibytes(3), mark)))
    expect(await transactions()).toBe(4)
    await Promise.all(marks(4).map((mark) => open.combiner.join(organizationId, mebibytes(1), mark)))
    expect(await transactions()).toBe(5)
    expect(await open.combiner.join(organizationId, mebibytes(30), 'alone')).toBe(9)
  })

  test('organizations do not wait for each other', async () => {
    const other = 'org_01J00000000000000000000001'
    await createOrganization(database.adminUrl, other)
    const began = Promise.withResolvers<void>()
    const finish = Promise.withResolvers<void>()
    const held = open.combiner.run(organizationId, 'org.change', async (tx) => {
      began.resolve()
      await finish.promise
      return appendTo(tx, 'held')
    })
    // Otherwise the other operation might finish before this one starts, and the test would prove nothing.
    await began.promise
    expect(await open.combiner.join(other, appendMarked, 'free')).toBe(1)
    finish.resolve()
    expect(await held).toBe(1)
  })
})

describe('failures', () => {
  test('operations that are refused, also by the database, fail alone and leave nothing', async () => {
    const refused = new DomainError('conflict', 'refused')
    const kind: BatchKind<string, null, number> = {
      ...appendMarked,
      apply(tx, _shared, mark) {
        const seq = appendTo(tx, mark)
        if (mark === 'm20') throw refused
        return seq
      },
    }
    // PostgreSQL refuses the whole statement if one of its texts contains a NUL.
    const wanted = marks(64).map((mark, index) => (index === 40 ? 'a\u0000b' : mark))
    const answers = await Promise.allSettled(
      wanted.map((mark) => open.combiner.join(organizationId, kind, mark)),
    )
    const failed = answers.flatMap((answer, index) => (answer.status === 'rejected' ? [index] : []))
    expect(failed).toEqual([20, 40])
    expect(answers[20]).toMatchObject({ reason: refused })
    expect((await storedRows(database.appUrl)).map((row) => row.mark)).toEqual(
      marks(64).filter((_, index) => !failed.includes(index)),
    )
    expect(await verify(database.appUrl)).toMatchObject({ valid: true, entries: 62 })
  })

  test('a listener that throws after the commit changes no answer and repeats nothing', async () => {
    const warned = jest.spyOn(process, 'emitWarning').mockImplementation(() => {})
    const { combiner, close } = openCombiner(database.appUrl, {
      onCommitted: () => {
        throw new Error('the listener failed')
      },
    })
    const answers = await Promise.all(
      marks(10).map((mark) => combiner.join(organizationId, appendMarked, mark)),
    )
    expect(answers).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10])
    expect(await combiner.join(organizationId, appendMarked, 'next')).toBe(11)
    expect(warned).toHaveBeenCalledTimes(2)
    warned.mockRestore()
    await close()
    expect(await storedRows(database.appUrl)).toHaveLength(11)
  })

  test('an organization that does not exist is not found', async () => {
    await expect(open.combiner.join('org_absent', appendMarked, 'm')).rejects.toMatchObject({
      code: 'not_found',
    })
  })

  test('a batch that takes too long runs again in parts, and only the slow operation is refused', async () => {
    const hasty = openCombiner(database.appUrl, { transactionMilliseconds: 1_500 })
    let [runs, slow] = [0, true]
    const block: BatchKind<string, null, number> = {
      ...appendMarked,
      apply(tx, _shared, mark) {
        runs += 1
        for (const end = performance.now() + 2_000; slow && performance.now() < end;);
        slow = mark === 'always slow'
        return appendTo(tx, mark)
      },
    }
    try {
      const answers = marks(8).map((mark) => hasty.combiner.join(organizationId, block, mark))
      expect(await Promise.all(answers)).toEqual(marks(8).map((_, index) => index + 1))
      // There are more attempts if the machine itself stopped for a long time.
      expect(runs).toBeGreaterThanOrEqual(16)
      slow = true
      await expect(hasty.combiner.join(organizationId, block, 'always slow')).rejects.toMatchObject({
        code: 'unavailable',
        message: 'the transaction took too long, so nothing was decided: try again',
      })
      slow = false
      expect(await hasty.combiner.join(organizationId, block, 'next')).toBe(9)
      expect((await storedRows(database.appUrl)).map((row) => row.mark)).toEqual([...marks(8), 'next'])
    } finally {
      await hasty.close()
    }
  })

  test('a database that cannot be reached is unavailable', async () => {
    const { combiner, close } = openCombiner('postgres://127.0.0.1:1/none')
    await expect(combiner.join(organizationId, appendMarked, 'm')).rejects.toMatchObject({
      code: 'unavailable',
    })
    await close()
  })
})

describe('clock', () => {
  test('it is read after the wait for the lock, even if the previous holder changed nothing', async () => {
    const other = openCombiner(database.appUrl)
    const locked = Promise.withResolvers<void>()
    const finish = Promise.withResolvers<void>()
    const held = other.combiner.run(organizationId, 'org.change', async () => {
      locked.resolve()
      await finish.promise
    })
    await locked.promise
    const waiting = open.combiner.run(organizationId, 'org.change', (tx) => Promise.resolve(tx.now))
    await waitsForLock(database.adminUrl)
    const released = await query(
      database.adminUrl,
      async (client) => (await client.query('select clock_timestamp() as now')).rows[0].now as Date,
    )
    finish.resolve()
    await held
    expect((await waiting).getTime()).toBeGreaterThanOrEqual(released.getTime())
    await other.close()
  })
})

import { afterEach, beforeEach, expect, test } from '@jest/globals'
import { sql } from 'kysely'
import type pg from 'pg'
import { createPool } from '../../src/db/connect.ts'
import { createPipeline, type Pipeline } from '../../src/db/pipelined.ts'
import { createTestDatabase, type TestDatabase } from '../support/stack.ts'

let database: TestDatabase
let pool: pg.Pool
let pipeline: Pipeline

beforeEach(async () => {
  database = await createTestDatabase()
  // One connection, so that each transaction would find leftovers of the previous one.
  pool = createPool({ url: database.adminUrl, appRole: 'countersign_owner', max: 1 })
  pipeline = createPipeline(pool)
  await pool.query('create table t (n int primary key)')
})
afterEach(async () => {
  await pool.end()
  await database.drop()
})

const insert = (n: number) => sql`insert into t values (${n})`
const stored = async (): Promise<number[]> =>
  (await pool.query<{ n: number }>('select n from t order by n')).rows.map((row) => row.n)

test('statements sent together run in order and commit together', async () => {
  const transaction = await pipeline.open()
  const before = transaction.send(sql<{ n: number }>`select n from t`)
  void transaction.send(insert(1))
  const between = transaction.send(sql<{ n: number }>`select n from t`)
  void transaction.send(insert(2))
  await transaction.commit()
  await transaction.end('committed')
  expect(await before).toEqual([])
  expect(await between).toEqual([{ n: 1 }])
  expect(await stored()).toEqual([1, 2])
})

test('a failed write undoes all of them, and the commit throws the reason', async () => {
  const transaction = await pipeline.open()
  void transaction.send(insert(1))
  void transaction.send(insert(1))
  const last = transaction.send(insert(2))
  await expect(transaction.commit()).rejects.toMatchObject({ code: '23505' })
  await expect(last).rejects.toMatchObject({ code: '25P02' })
  expect(transaction.failure).toMatchObject({ code: '23505' })
  await transaction.end('rollback')
  expect(await stored()).toEqual([])
})

test('a connection returned without a commit is rolled back and can be used again', async () => {
  const transaction = await pipeline.open()
  await transaction.send(insert(1))
  await transaction.db
    .insertInto('t' as never)
    .values({ n: 2 })
    .execute()
  await transaction.end('rollback')
  expect(await stored()).toEqual([])
  const next = await pipeline.open()
  void next.send(insert(3))
  await next.commit()
  await next.end('committed')
  expect(await stored()).toEqual([3])
})

test('a builder sees statements sent before it, even without waiting for them', async () => {
  const transaction = await pipeline.open()
  void transaction.send(insert(1))
  expect(
    await transaction.db
      .selectFrom('t' as never)
      .selectAll()
      .execute(),
  ).toEqual([{ n: 1 }])
  await transaction.end('rollback')
})

test('a lost connection is not returned to the pool', async () => {
  const transaction = await pipeline.open()
  await expect(transaction.send(sql`select pg_terminate_backend(pg_backend_pid())`)).rejects.toThrow()
  await transaction.end('rollback')
  expect(await stored()).toEqual([])
})

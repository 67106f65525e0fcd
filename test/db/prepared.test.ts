import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { sql } from 'kysely'
import type pg from 'pg'
import { createDatabase, createPool } from '../../src/db/connect.ts'
import type { Db } from '../../src/db/schema/index.ts'
import { createTestDatabase, type TestDatabase } from '../support/stack.ts'

let database: TestDatabase
let pool: pg.Pool
let db: Db

beforeAll(async () => {
  database = await createTestDatabase()
  pool = createPool({ url: database.appUrl, max: 1 })
  db = createDatabase(pool)
})
afterAll(async () => {
  await pool.end()
  await database.drop()
})

/** Sends a statement with this many values five times; returns whether the connection has it prepared. */
async function isPrepared(mark: string, values: number): Promise<boolean> {
  const list = Array.from({ length: values }, (_, index) => sql`${String(index)}`)
  for (let times = 0; times < 5; times += 1)
    await sql`select 1 as ${sql.ref(mark)} where '' in (${sql.join(list)})`.execute(db)
  const { rows } = await pool.query<{ n: number }>(
    `select count(*) as n from pg_prepared_statements where statement like '%"${mark}"%'`,
  )
  return rows[0]?.n === 1
}

test('a repeated statement is prepared; a long list is not remembered', async () => {
  expect(await isPrepared('short', 10)).toBe(true)
  expect(await isPrepared('long', 5_000)).toBe(false)
})

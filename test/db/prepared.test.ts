import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { sql, type Kysely } from 'kysely'
import type pg from 'pg'
import { createDatabase, createPool } from '../../src/db/connect.ts'
import type { Database } from '../../src/db/schema/index.ts'
import { createTestDatabase, type TestDatabase } from '../support/stack.ts'

let database: TestDatabase
let pool: pg.Pool
let db: Kysely<Database>

beforeAll(async () => {
  database = await createTestDatabase()
  pool = createPool({ url: database.appUrl, max: 1 })
  db = createDatabase(pool)
})
afterAll(async () => {
  await pool.end()
  await database.drop()
})

/** Sends a statement with a list of so many values five times; answers whether its connection keeps it prepared. */
async function isPrepared(mark: string, values: number): Promise<boolean> {
  const list = Array.from({ length: values }, (_, index) => sql`${String(index)}`)
  for (let times = 0; times < 5; times += 1)
    await sql`select 1 as ${sql.ref(mark)} where '' in (${sql.join(list)})`.execute(db)
  const { rows } = await pool.query<{ n: number }>(
    `select count(*) as n from pg_prepared_statements where statement like '%"${mark}"%'`,
  )
  return rows[0]?.n === 1
}

test('a statement that comes again and again is prepared, one that is a long list is not remembered', async () => {
  expect(await isPrepared('short', 10)).toBe(true)
  expect(await isPrepared('long', 5_000)).toBe(false)
})

import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { sql } from 'kysely'
import pg, { Client } from 'pg'
import { advisoryLocks } from '../../src/db/advisory-locks.ts'
import { createDatabase, createPool, createPipeline, type Pipeline } from '../../src/db/connect.ts'
import { migrate } from '../../src/db/migrate.ts'
import { migrations } from '../../src/db/migrations/index.ts'
import { createTestDatabase, type TestDatabase } from '../support/stack.ts'

/** The database of all tests that leave its tables as they are. */
let shared: TestDatabase
beforeAll(async () => {
  shared = await createTestDatabase()
})
afterAll(() => shared.drop())

describe('migrations', () => {
  let database: TestDatabase
  let client: Client
  beforeEach(async () => {
    database = await createTestDatabase()
    client = new Client({ connectionString: database.ownerUrl })
    await client.connect()
  })
  afterEach(async () => {
    await client.end()
    await database.drop()
  })

  const ofDevelopment =
    'a development version of Countersign made this database, and its tables differ: ' +
    'begin with a new data folder or an empty database'

  test('a database of this version has a checksum of every migration, and migrating again does nothing', async () => {
    const { rows } = await client.query('select name, checksum from schema_migrations order by name')
    expect(rows.map(({ name }) => name)).toEqual(migrations.map(({ name }) => name))
    for (const { checksum } of rows) expect(checksum).toMatch(/^[0-9a-f]{64}$/)
    expect(await migrate({ url: database.ownerUrl })).toEqual({ applied: [] })
  })

  test('run in the order of their numbers', () => {
    const names = migrations.map(({ name }) => name)
    expect(names).toEqual([...names].sort())
    for (const name of names) expect(name).toMatch(/^\d{4}-[a-z-]+$/)
  })

  test('processes that start together migrate once', async () => {
    await client.query('drop schema public cascade; create schema public')
    const done = await Promise.all(Array.from({ length: 4 }, () => migrate({ url: database.ownerUrl })))
    expect(done.flatMap(({ applied }) => applied)).toEqual(migrations.map(({ name }) => name))
  })

  test.each([
    {
      what: 'a migration ran with another text',
      sql: "update schema_migrations set checksum = repeat('0', 64) where name = '0001-baseline'; drop table auth_used_codes",
      says: ofDevelopment,
    },
    {
      what: 'other migrations ran before there was a baseline',
      sql: "update schema_migrations set name = '0001-identity' where name = '0001-baseline'; drop table auth_used_codes",
      says: ofDevelopment,
    },
    {
      what: 'a newer version was here',
      sql: "insert into schema_migrations (name, checksum) values ('9999-later', repeat('0', 64))",
      says: 'the database was migrated by a newer version (`9999-later`): update this one',
    },
  ])('a database is refused, unchanged, where $what', async ({ sql, says }) => {
    await client.query(sql)
    const before = (await client.query('select * from schema_migrations order by name')).rows
    await expect(migrate({ url: database.ownerUrl })).rejects.toThrow(says)
    expect((await client.query('select * from schema_migrations order by name')).rows).toEqual(before)
  })

  test('the log has one line about all of them', async () => {
    await client.query('drop schema public cascade; create schema public')
    const lines: string[] = []
    const { applied } = await migrate({ url: database.ownerUrl, log: (line) => lines.push(line) })
    expect(applied).toHaveLength(migrations.length)
    expect(lines).toEqual([
      expect.stringMatching(new RegExp(`^${migrations.length} migrations? applied \\(\\d+\\.\\d s\\)$`)),
    ])
    await migrate({ url: database.ownerUrl, log: (line) => lines.push(line) })
    expect(lines).toHaveLength(1)
  })

  const sqlOf = (name: string): string => migrations.find((each) => each.name === name)?.sql ?? ''

  test('the tools of each version are filled in, whatever its texts say, while others read', async () => {
    const steps = [{ tool: 'slack_send_message', note: '\\\u0000' }, { tool: 'mail_send' }, { compute: {} }]
    await client.query(`insert into organizations (id, name) values ('org_1', 'A')`)
    await client.query(`insert into users (id, email, name) values ('usr_1', 'a@a.example', 'A')`)
    await client.query(
      `insert into workflows (id, organization_id, name, current_version, created_by) values ('wf_1', 'org_1', 'W', 1, 'usr_1')`,
    )
    await client.query(
      `insert into workflow_versions (workflow_id, version, definition, digest, deployed_by, authors, step_authors)
       values ('wf_1', 1, $1, '', 'usr_1', '[]', '[]')`,
      [JSON.stringify({ steps: [...steps, ...steps] })],
    )
    await client.query('begin')
    await client.query(sqlOf('0031-fill-version-tools'))
    const { rows } = await client.query('select tools from workflow_versions')
    expect(rows).toEqual([{ tools: ['mail_send', 'slack_send_message'] }])
    expect(await lockedForReading()).toEqual([])
    await client.query('commit')
  })

  /** The tables that nobody else can read until the transaction ends. */
  const lockedForReading = async (): Promise<unknown[]> =>
    (
      await client.query(`select relation::regclass::text as name from pg_locks l join pg_class c on c.oid = l.relation
        where l.pid = pg_backend_pid() and l.mode = 'AccessExclusiveLock' and c.relkind = 'r'`)
    ).rows

  test('indexes of approvals are built while others read', async () => {
    await client.query('drop index approvals_sought, approvals_of_groups, approvals_answered')
    await client.query('begin')
    await client.query(sqlOf('0032-approvals-search'))
    expect(await lockedForReading()).toEqual([])
    await client.query('rollback')
  })

  test('a table that stays in use is not waited for, and the error says what to do', async () => {
    await client.query('create index approvals_listing on approvals (organization_id, id desc)')
    await client.query(`delete from schema_migrations where name = '0038-approvals-listing'`)
    await client.query('begin; lock table approvals in access share mode')
    const url = new URL(database.ownerUrl)
    url.searchParams.set('options', '-c lock_timeout=10')
    await expect(migrate({ url: url.href })).rejects.toThrow(
      /^migration `0038-approvals-listing` failed: .*lock timeout\. Other transactions use the table: stop the other processes/,
    )
    await client.query('rollback')
    expect(await migrate({ url: database.ownerUrl })).toEqual({ applied: ['0038-approvals-listing'] })
  })

  test('an error names the migration in which it happened', async () => {
    await client.query('drop schema public cascade; create schema public; create table organizations ()')
    await expect(migrate({ url: database.ownerUrl })).rejects.toThrow(
      'migration `0001-baseline` failed: relation "organizations"',
    )
  })
})

test('a role’s own settings do not make commits less durable, nor change reading and writing', async () => {
  const first = createPool({ url: shared.appUrl, max: 1 })
  const role = `countersign_app in database ${new URL(shared.appUrl).pathname.slice(1)}`
  await first.query(`alter role ${role} set synchronous_commit to off`)
  await first.query(`alter role ${role} set default_transaction_read_only to on`)
  await first.query(`alter role ${role} set search_path to pg_catalog`)
  await first.end()
  const second = createPool({ url: shared.appUrl, max: 1 })
  try {
    const { rows } = await second.query(`
      select current_setting('synchronous_commit') as commits, current_setting('default_transaction_read_only') as reads,
             current_setting('search_path') as path`)
    expect(rows).toEqual([{ commits: 'on', reads: 'off', path: 'public' }])
  } finally {
    await second.query(`alter role ${role} reset all`)
    await second.end()
  }
})

/** Sends a statement with this many values five times; returns whether the connection has it prepared. */
async function isPrepared(pool: pg.Pool, mark: string, values: number): Promise<boolean> {
  const db = createDatabase(pool)
  const list = Array.from({ length: values }, (_, index) => sql`${String(index)}`)
  for (let times = 0; times < 5; times += 1)
    await sql`select 1 as ${sql.ref(mark)} where '' in (${sql.join(list)})`.execute(db)
  const { rows } = await pool.query<{ n: number }>(
    `select count(*) as n from pg_prepared_statements where statement like '%"${mark}"%'`,
  )
  return rows[0]?.n === 1
}

test('a repeated statement is prepared; a long list is not remembered', async () => {
  const pool = createPool({ url: shared.appUrl, max: 1 })
  expect(await isPrepared(pool, 'short', 10)).toBe(true)
  expect(await isPrepared(pool, 'long', 5_000)).toBe(false)
  await pool.end()
})

describe('a pipelined transaction', () => {
  let pool: pg.Pool
  let pipeline: Pipeline
  beforeAll(() => {
    // One connection, so that each transaction would find leftovers of the previous one.
    pool = createPool({ url: shared.adminUrl, appRole: 'countersign_owner', max: 1 })
    pipeline = createPipeline(pool)
  })
  beforeEach(() => pool.query('drop table if exists t; create table t (n int primary key)'))
  afterAll(() => pool.end())

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
})

test('each kind of work has its own number', () => {
  const numbers = Object.values(advisoryLocks)
  expect(new Set(numbers).size).toBe(numbers.length)
})

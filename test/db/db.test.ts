import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { sql } from 'kysely'
import pg, { Client } from 'pg'
import { addOrganization } from '../api/fixtures.ts'
import { appendEntries, createOrganization, query, verify } from '../governance/audit/chain-fixture.ts'
import { testContext, withPeople } from '../governance/support.ts'
import { advisoryLocks } from '../../src/db/advisory-locks.ts'
import { createDatabase, createPool } from '../../src/db/connect.ts'
import { migrate } from '../../src/db/migrate.ts'
import { cheaperAppends } from '../../src/db/migrations/0017-cheaper-appends.ts'
import { installationConnections } from '../../src/db/migrations/0018-installation-connections.ts'
import { createPipeline, type Pipeline } from '../../src/db/pipelined.ts'
import { createOrganization as makeOrganization } from '../../src/governance/people/organizations.ts'
import { createTestDatabase, type TestDatabase } from '../support/stack.ts'

/** The database of all tests that leave its tables as they are. */
let shared: TestDatabase
beforeAll(async () => {
  shared = await createTestDatabase()
})
afterAll(() => shared.drop())

const rowsOf = (url: string, sql: string): Promise<unknown[]> =>
  query(url, async (client) => (await client.query(sql)).rows)

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

  const differs = (name: string): string =>
    `the database was made by an earlier pre-release of Countersign whose tables differ (migration \`${name}\`): ` +
    'start with a new data folder or database'

  test('a database of this version has a checksum of every migration, and migrating again does nothing', async () => {
    const { rows } = await client.query('select checksum from schema_migrations')
    expect(rows.length).toBeGreaterThan(10)
    for (const { checksum } of rows) expect(checksum).toMatch(/^[0-9a-f]{64}$/)
    expect(await migrate({ url: database.ownerUrl })).toEqual({ applied: [] })
  })

  test.each([
    {
      what: 'a migration ran with another text',
      sql: "update schema_migrations set checksum = repeat('0', 64) where name = '0014-proven-people'; drop table auth_used_codes",
      says: differs('0014-proven-people'),
    },
    {
      what: 'there were no checksums yet',
      sql: 'alter table schema_migrations drop column checksum; drop table auth_used_codes',
      says: differs('0001-identity'),
    },
    {
      what: 'there were no checksums yet, and a migration that is now part of another',
      sql: `alter table schema_migrations drop column checksum;
          insert into schema_migrations (name) values ('0006-merged')`,
      says: differs('0001-identity'),
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
    const { length } = (await client.query('select from schema_migrations')).rows
    await client.query('drop schema public cascade; create schema public')
    const lines: string[] = []
    const { applied } = await migrate({ url: database.ownerUrl, log: (line) => lines.push(line) })
    expect(applied).toHaveLength(length)
    expect(lines).toEqual([
      expect.stringMatching(new RegExp(`^${length} migrations applied \\(\\d+\\.\\d s\\)$`)),
    ])
    await migrate({ url: database.ownerUrl, log: (line) => lines.push(line) })
    expect(lines).toHaveLength(1)
  })

  test('an error names the migration in which it happened', async () => {
    await client.query('drop schema public cascade; create schema public; create table organizations ()')
    await expect(migrate({ url: database.ownerUrl })).rejects.toThrow(
      'migration `0001-identity` failed: relation "organizations"',
    )
  })
})

describe('an earlier chain', () => {
  /** Restores the tables of the earlier version. */
  const asBefore = `
alter table audit_events
  drop constraint audit_events_hash_check,
  add constraint audit_events_hash_check check (hash ~ '^[0-9a-f]{64}$'),
  alter column organization_id set expression as (canonical::jsonb ->> 'organization_id'),
  alter column seq set expression as ((canonical::jsonb ->> 'seq')::bigint);
alter table decisions add constraint decisions_organization_id_fkey
  foreign key (organization_id) references organizations;
`
  const stored = () => rowsOf(shared.adminUrl, 'select * from audit_events order by seq')

  test('stays valid and can be continued', async () => {
    await createOrganization(shared.adminUrl)
    await query(shared.ownerUrl, (client) => client.query(asBefore))
    await appendEntries(shared.appUrl, 5)
    const before = await stored()
    await query(shared.ownerUrl, (client) => client.query(cheaperAppends))
    expect(await stored()).toEqual(before)
    await appendEntries(shared.appUrl, 5)
    expect(await verify(shared.appUrl)).toMatchObject({ valid: true, entries: 10 })
  })
})

describe('connections of the installation', () => {
  /** Restores the tables of the earlier version. */
  const asBefore = `
drop table installation_connections;
drop index invitations_open;
alter table organizations drop column created_by;
`

  test('existing organizations of an operator get connections, and no others', async () => {
    const running = await testContext()
    const { context, adminUrl } = running
    const { identities, caller } = await withPeople(context)
    const mine = await makeOrganization(context, caller('member'), 'Mine')
    await addOrganization(context)
    const connections = () =>
      rowsOf(adminUrl, 'select organization_id, tool from installation_connections order by tool')
    const before = await connections()
    await query(adminUrl, async (client) => {
      await client.query(asBefore)
      await client.query(installationConnections)
    })
    expect(await connections()).toEqual(before)
    expect(before).toEqual(
      ['file_read', 'mail_send'].map((tool) => ({ organization_id: identities.organization_id, tool })),
    )
    expect(
      await rowsOf(adminUrl, 'select id, created_by from organizations where created_by is not null'),
    ).toEqual([{ id: mine.id, created_by: identities.users.member.user_id }])
    await running.close()
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

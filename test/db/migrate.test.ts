import { Client } from 'pg'
import { afterEach, beforeEach, expect, test } from '@jest/globals'
import { migrate } from '../../src/db/migrate.ts'
import { createTestDatabase } from '../support/stack.ts'

let database: Awaited<ReturnType<typeof createTestDatabase>>
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

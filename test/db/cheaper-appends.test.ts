import { afterEach, beforeEach, expect, test } from '@jest/globals'
import { cheaperAppends } from '../../src/db/migrations/0017-cheaper-appends.ts'
import { appendEntries, createOrganization, query, verify } from '../governance/audit/chain-fixture.ts'
import { createTestDatabase, type TestDatabase } from '../support/stack.ts'

let database: TestDatabase
beforeEach(async () => {
  database = await createTestDatabase()
  await createOrganization(database.adminUrl)
})
afterEach(() => database.drop())

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

const stored = (): Promise<unknown[]> =>
  query(
    database.adminUrl,
    async (client) => (await client.query('select * from audit_events order by seq')).rows,
  )

test('an existing chain stays valid and can be continued', async () => {
  await query(database.ownerUrl, (client) => client.query(asBefore))
  await appendEntries(database.appUrl, 5)
  const before = await stored()
  await query(database.ownerUrl, (client) => client.query(cheaperAppends))
  expect(await stored()).toEqual(before)
  await appendEntries(database.appUrl, 5)
  expect(await verify(database.appUrl)).toMatchObject({ valid: true, entries: 10 })
})

import { afterEach, beforeEach, expect, test } from '@jest/globals'
import { installationConnections } from '../../src/db/migrations/0018-installation-connections.ts'
import { createOrganization as makeOrganization } from '../../src/governance/people/organizations.ts'
import { testContext, withPeople, type TestContext } from '../governance/support.ts'
import { addOrganization } from '../api/fixtures.ts'
import { query } from '../governance/audit/chain-fixture.ts'

let running: TestContext
beforeEach(async () => {
  running = await testContext()
})
afterEach(() => running.close())

/** Restores the tables of the earlier version. */
const asBefore = `
drop table installation_connections;
drop index invitations_open;
alter table organizations drop column created_by;
`

test('existing organizations of an operator get connections, and no others', async () => {
  const { context, adminUrl } = running
  const { identities, caller } = await withPeople(context)
  const mine = await makeOrganization(context, caller('member'), 'Mine')
  await addOrganization(context)
  const connections = () =>
    query(adminUrl, async (client) => {
      const { rows } = await client.query(
        'select organization_id, tool from installation_connections order by tool',
      )
      return rows
    })
  const before = await connections()
  await query(adminUrl, async (client) => {
    await client.query(asBefore)
    await client.query(installationConnections)
  })
  expect(await connections()).toEqual(before)
  expect(before).toEqual(
    ['file_read', 'mail_send'].map((tool) => ({ organization_id: identities.organization_id, tool })),
  )
  const makers = await query(adminUrl, async (client) => {
    const { rows } = await client.query(
      'select id, created_by from organizations where created_by is not null',
    )
    return rows
  })
  expect(makers).toEqual([{ id: mine.id, created_by: identities.users.member.user_id }])
})

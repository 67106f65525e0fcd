import { afterAll, beforeAll, beforeEach } from '@jest/globals'
import { createTestDatabase, type TestDatabase } from '../../support/stack.ts'
import { createOrganization, query } from './chain-fixture.ts'

/** Gives the tests of a file one database. Each test begins with an empty chain. */
export function useChain(use: (database: TestDatabase) => void): void {
  let database: TestDatabase
  beforeAll(async () => use((database = await createTestDatabase())))
  beforeEach(async () => {
    await emptyChains(database.adminUrl)
    await createOrganization(database.adminUrl)
  })
  afterAll(() => database?.drop())
}

/** Removes what tests of chains write, and enables the triggers again. A superuser can. */
function emptyChains(adminUrl: string): Promise<unknown> {
  const tables = ['audit_events', 'chain_head', 'checkpoint_folders', 'lanes', 'run_events', 'runs', 'rules']
  const statements = [
    'alter table audit_events disable trigger all',
    `set session_replication_role = 'replica'`,
    ...[...tables, 'workflow_versions', 'workflows', 'organizations', 'users'].map(
      (each) => `delete from ${each}`,
    ),
    'alter table audit_events enable trigger all',
    'alter table audit_events enable always trigger audit_events_no_edit',
    'alter table audit_events enable always trigger audit_events_no_truncate',
  ]
  return query(adminUrl, (client) => client.query(statements.join(';')))
}

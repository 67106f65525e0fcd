import pg from 'pg'
import { newId } from '../../src/contract/ids.ts'
import { newApiKey } from '../../src/governance/access/identity.ts'
import { scopesOfRole } from '../../src/governance/access/scopes.ts'
import type { CrashHome } from './chaos.ts'
import { Api } from './client.ts'

/**
 * Creates another organization with an owner, and returns a client of this owner. The API key of the owner has every
 * scope. The function connects with the application's database role.
 */
export async function strangers(home: CrashHome): Promise<Api> {
  const [organization, user] = [newId('organization'), newId('user')]
  const { secret, hash, last4 } = newApiKey()
  const client = new pg.Client({ connectionString: home.member.bootstrap.database_url })
  await client.connect()
  try {
    await client.query(
      `insert into organizations (id, name, plan, settings) values ($1, 'Strangers', 'enterprise', '{}')`,
      [organization],
    )
    await client.query('insert into chain_head (organization_id) values ($1)', [organization])
    await client.query('insert into users (id, email) values ($1, $2)', [user, `${user}@strangers.test`])
    await client.query(`insert into memberships (organization_id, user_id, role) values ($1, $2, 'owner')`, [
      organization,
      user,
    ])
    await client.query(
      `insert into api_keys (id, organization_id, user_id, name, hash, last4, scopes) values ($1, $2, $3, 'key', $4, $5, $6)`,
      [newId('key'), organization, user, hash, last4, scopesOfRole('owner')],
    )
  } finally {
    await client.end()
  }
  return new Api(home.stack.dataDir, 'owner', secret)
}

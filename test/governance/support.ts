import { randomBytes } from 'node:crypto'
import { readConfig, type Config } from '../../src/config.ts'
import { createContext, type Context } from '../../src/context.ts'
import {
  bootstrapIdentities,
  bootstrapRoles,
  type BootstrapIdentities,
  type BootstrapName,
} from '../../src/governance/bootstrap.ts'
import type { Caller } from '../../src/governance/identity.ts'
import { scopesOfRole } from '../../src/governance/scopes.ts'
import { createTestDatabase } from '../support/stack.ts'
import { asAdmin } from '../support/postgres.ts'
import { until } from '../stack/until.ts'

/** Seals what tests make by hand as the service would. */
export const testKey = randomBytes(32)

export function testConfig(databaseUrl: string, overrides: NodeJS.ProcessEnv = {}): Config {
  return readConfig({
    APP_ENV: 'test',
    DATABASE_URL: databaseUrl,
    DATA_ENCRYPTION_KEY: testKey.toString('base64'),
    LOG_LEVEL: 'silent',
    ...overrides,
  })
}

export interface TestContext {
  readonly context: Context
  /** Another process's context over the same database. */
  another(): Context
  /** The superuser's URL of the database. */
  readonly adminUrl: string
  /** Ends the connections and removes the database. */
  close(): Promise<void>
}

/** A context over a database of its own. */
export async function testContext(overrides: NodeJS.ProcessEnv = {}): Promise<TestContext> {
  const database = await createTestDatabase()
  const contexts: Context[] = []
  const another = (): Context => {
    const context = createContext(testConfig(database.appUrl, overrides), 'api')
    contexts.push(context)
    return context
  }
  return {
    context: another(),
    another,
    adminUrl: database.adminUrl,
    async close() {
      await Promise.all(contexts.map((context) => context.close()))
      // A server that has ended took its databases with it.
      await database.drop().catch(() => {})
    },
  }
}

/** The identities of a first start, and each of them as a caller. */
export async function withPeople(context: Context): Promise<{
  identities: BootstrapIdentities
  caller: (name: BootstrapName) => Caller
}> {
  const identities = (await bootstrapIdentities(context)) as BootstrapIdentities
  const keys = await context.db
    .selectFrom('api_keys')
    .select(['id', 'user_id'])
    .where('name', '=', 'bootstrap')
    .execute()
  const caller = (name: BootstrapName): Caller => ({
    userId: identities.users[name].user_id,
    email: identities.users[name].email,
    organizationId: identities.organization_id,
    role: bootstrapRoles[name],
    keyId: keys.find((key) => key.user_id === identities.users[name].user_id)?.id ?? null,
    sessionId: null,
    scopes: scopesOfRole(bootstrapRoles[name]),
    needs: { scope: null, role: 'viewer' },
    ip: '127.0.0.1',
  })
  return { identities, caller }
}

/** The newest audit entries, oldest of them first. */
export async function auditOf(context: Context, organizationId: string, count: number) {
  const rows = await context.db
    .selectFrom('audit_events')
    .selectAll()
    .where('organization_id', '=', organizationId)
    .orderBy('seq', 'desc')
    .limit(count)
    .execute()
  return rows.reverse()
}

/** Resolves once a session of the database waits for a lock, as the database itself says. */
export const waitsForLock = (adminUrl: string): Promise<void> =>
  asAdmin(adminUrl, (client) =>
    until('a session waits for a lock', async () => {
      const { rowCount } = await client.query(
        `select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
      )
      return rowCount !== 0
    }),
  )

import { randomBytes } from 'node:crypto'
import type { FieldKind } from '../../src/contract/audit-event-fields.ts'
import { auditEvents, type AuditEventType } from '../../src/contract/audit-events.ts'
import { readConfig, type Config } from '../../src/shared/config.ts'
import { createContext } from '../../src/programs/create-context.ts'
import type { EngineMessage } from '../../src/contract/messages.ts'
import type { Context } from '../../src/governance/context.ts'
import {
  bootstrapIdentities,
  bootstrapRoles,
  type BootstrapIdentities,
  type BootstrapName,
} from '../../src/governance/people/bootstrap.ts'
import type { Caller } from '../../src/governance/access/identity.ts'
import { dataKeyOf } from '../../src/governance/sealing/format.ts'
import { wrapped } from '../../src/governance/sealing/keyring.ts'
import { scopesOfRole } from '../../src/governance/access/scopes.ts'
import { createTestDatabase } from '../support/stack.ts'
import { asAdmin } from '../support/postgres.ts'
import { until } from '../stack/until.ts'

/** The installation's key. */
export const testKey = randomBytes(32)
/** The first data key of each test's database. Seals hand-made test data as the service would. */
export const testDataKey = dataKeyOf(randomBytes(32))

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
  /** A context of another process on the same database. */
  another(): Context
  /** The superuser's URL of the database. */
  readonly adminUrl: string
  /** Ends the connections and removes the database. */
  close(): Promise<void>
}

/** A context with a new database. */
export async function testContext(overrides: NodeJS.ProcessEnv = {}): Promise<TestContext> {
  const database = await createTestDatabase()
  const contexts: Context[] = []
  const another = (): Context => {
    const context = createContext(testConfig(database.appUrl, overrides), 'api')
    contexts.push(context)
    return context
  }
  const context = another()
  await context.db
    .insertInto('data_keys')
    .values({ ...wrapped(context.config.encryptionKeys[0], testDataKey), generation: 1 })
    .execute()
  return {
    context,
    another,
    adminUrl: database.adminUrl,
    async close() {
      const wrong = await undeclaredMetadata(database.adminUrl)
      await Promise.all(contexts.map((context) => context.close()))
      // The test has ended the server, which also ends the databases.
      await database.drop().catch(() => {})
      if (wrong.length > 0) throw new Error(`declare in src/contract/audit-events.ts: ${wrong.join(', ')}`)
    },
  }
}

/**
 * Metadata fields in the entries of the tests that their event does not declare, or declares with another kind, as
 * `event: field (type)`. Uses a separate connection, because a test may have replaced the pool.
 */
async function undeclaredMetadata(adminUrl: string): Promise<string[]> {
  interface Field {
    readonly type: string
    readonly field: string
    readonly of: string
  }
  const found: Field[] = []
  // Errors are ignored here: the test may have ended its database, or broken an entry.
  const nothing = (): void => {}
  await asAdmin(adminUrl, async (client) => {
    const { rows } = await client.query<Field>(
      `select distinct canonical::jsonb->>'event_type' as type, f.key as field, jsonb_typeof(f.value) as of
       from audit_events, jsonb_each(canonical::jsonb->'metadata') f`,
    )
    found.push(...rows)
  }).catch(nothing)
  return found
    .filter(({ type, field }) => type in auditEvents && !everyEvent.has(field))
    .filter(({ type, field, of }) => !valuesOf(type, field).includes(of))
    .map(({ type, field, of }) => `${type}: ${field} (${of})`)
}

const everyEvent = new Set(['policy_version', 'api_key_id'])

/** The types of JSON values that a field of each kind can have. */
const typesOfKinds: Readonly<Record<FieldKind, readonly string[]>> = {
  text: ['string', 'null'],
  number: ['number', 'null'],
  flag: ['boolean', 'null'],
  list: ['array'],
  object: ['object'],
}

function valuesOf(type: string, field: string): readonly string[] {
  const declared: Readonly<Record<string, FieldKind>> = auditEvents[type as AuditEventType].metadata
  const kind = declared[field]
  return kind === undefined ? [] : typesOfKinds[kind]
}

/** The identities that a first start creates, and a caller for each of them. */
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
    boundTo: null,
    scopes: scopesOfRole(bootstrapRoles[name]),
    needs: { scope: null, role: 'viewer' },
    ip: '127.0.0.1',
  })
  return { identities, caller }
}

/** The newest `count` audit entries, oldest first. */
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

/** Resolves once PostgreSQL reports that a session of the database waits for a lock. */
export const waitsForLock = (adminUrl: string): Promise<void> =>
  asAdmin(adminUrl, (client) =>
    until('a session waits for a lock', async () => {
      const { rowCount } = await client.query(
        `select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
      )
      return rowCount !== 0
    }),
  )

/** What waits for Temporal about a run, the oldest first. */
export async function messagesOf(
  context: Pick<Context, 'pool'>,
  runId: string,
): Promise<readonly EngineMessage[]> {
  const { rows } = await context.pool.query<{ message: EngineMessage }>(
    `select message from lanes where kind = 'temporal' and message->>'run_id' = $1 order by id::bigint`,
    [runId],
  )
  return rows.map(({ message }) => message)
}

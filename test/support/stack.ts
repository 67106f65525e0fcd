import { randomBytes } from 'node:crypto'
import { afterAll } from '@jest/globals'
import { startTemporal, type TemporalOptions, type TemporalServer } from '../../src/stack/temporal.ts'
import { asAdmin, guardedFolder, startTestPostgres, template, urlOf, type TestPostgres } from './postgres.ts'

/*
 * Servers for tests. `npm test` starts one PostgreSQL for all test files and passes it in TEST_POSTGRES_ADMIN_URL. A
 * test file that runs alone starts its own PostgreSQL. Every server has a guard, so that nothing remains when a test
 * process is killed.
 */

export interface TestDatabase {
  readonly name: string
  readonly adminUrl: string
  readonly ownerUrl: string
  readonly appUrl: string
  /** Ends open connections and removes the database. */
  drop(): Promise<void>
}

let shared: Promise<TestPostgres> | undefined

/**
 * Returns the PostgreSQL for this test file. In a whole test run, this is the shared server. Otherwise it is a new
 * server, which ends after the file's last test.
 */
export function testPostgres(): Promise<TestPostgres> {
  const adminUrl = process.env['TEST_POSTGRES_ADMIN_URL']
  shared ??=
    adminUrl === undefined
      ? startTestPostgres()
      : Promise.resolve({ adminUrl, stop: () => Promise.resolve() })
  return shared
}

/** Creates a migrated database for one test. Cloning the template takes about 50 ms. */
export async function createTestDatabase(): Promise<TestDatabase> {
  const { adminUrl } = await testPostgres()
  const name = `test_${randomBytes(8).toString('hex')}`
  await asAdmin(adminUrl, (client) =>
    client.query(`create database ${name} template ${template} owner countersign_owner strategy file_copy`),
  )
  return {
    name,
    adminUrl: urlOf(adminUrl, name),
    ownerUrl: urlOf(adminUrl, name, 'countersign_owner'),
    appUrl: urlOf(adminUrl, name, 'countersign_app'),
    drop: () => asAdmin(adminUrl, (client) => client.query(`drop database if exists ${name} with (force)`)),
  }
}

let temporal: Promise<{ server: TemporalServer; stop(): Promise<void> }> | undefined

type DynamicConfig = NonNullable<TemporalOptions['dynamicConfig']>

/**
 * Returns the Temporal development server of this test file. The server keeps its data in memory. It has the settings
 * of temporal-dev.yml. Only the first call of this function can override settings.
 */
export async function testTemporal(dynamicConfig: DynamicConfig = {}): Promise<TemporalServer> {
  temporal ??= startTestTemporal(dynamicConfig)
  return (await temporal).server
}

afterAll(async () => {
  const started = [shared, temporal]
  shared = undefined
  temporal = undefined
  for (const server of started) {
    // If the server did not start, a test has already failed, so this error is ignored.
    const running = await server?.catch(() => undefined)
    await running?.stop()
  }
})

async function startTestTemporal(
  dynamicConfig: DynamicConfig,
): Promise<{ server: TemporalServer; stop(): Promise<void> }> {
  const { dataDir, guard } = guardedFolder()
  try {
    const server = await startTemporal({ dataDir, durable: false, dynamicConfig })
    return {
      server,
      stop: async () => {
        await server.stop(AbortSignal.abort())
        await guard.close()
      },
    }
  } catch (error) {
    await guard.close()
    throw error
  }
}

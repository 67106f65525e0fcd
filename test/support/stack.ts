import { randomBytes } from 'node:crypto'
import { startTemporal, type TemporalOptions, type TemporalServer } from '../../src/stack/temporal.ts'
import { asAdmin, guardedFolder, template, urlOf } from './postgres.ts'

/*
 * Servers for tests. `npm test` starts one PostgreSQL for all test files and passes it in TEST_POSTGRES_ADMIN_URL. Every
 * server has a guard, so that nothing remains when a test process is killed.
 */

export interface TestDatabase {
  readonly name: string
  readonly adminUrl: string
  readonly ownerUrl: string
  readonly appUrl: string
  /** Ends open connections and removes the database. */
  drop(): Promise<void>
}

/** Creates a migrated database for one test. Cloning the template takes about 50 ms. */
export async function createTestDatabase(): Promise<TestDatabase> {
  const adminUrl = process.env['TEST_POSTGRES_ADMIN_URL']
  if (adminUrl === undefined)
    throw new Error('`npm test` starts PostgreSQL: use it, with the path of the file')
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

type DynamicConfig = NonNullable<TemporalOptions['dynamicConfig']>

const servers = new Map<string, Promise<TemporalServer>>()

/**
 * Returns the Temporal development server with these settings, besides those of temporal-dev.yml. The test files of a
 * worker share it, so they use task queues of their own. It keeps its data in memory, and ends with the worker.
 */
export function testTemporal(dynamicConfig: DynamicConfig = {}): Promise<TemporalServer> {
  const settings = JSON.stringify(dynamicConfig)
  const server = servers.get(settings) ?? startTestTemporal(dynamicConfig)
  servers.set(settings, server)
  return server
}

async function startTestTemporal(dynamicConfig: DynamicConfig): Promise<TemporalServer> {
  const { dataDir, guard } = guardedFolder()
  try {
    return await startTemporal({ dataDir, durable: false, dynamicConfig })
  } catch (error) {
    await guard.close()
    throw error
  }
}

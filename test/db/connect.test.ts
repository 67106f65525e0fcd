import { expect, test } from '@jest/globals'
import { createPool } from '../../src/db/connect.ts'
import { createTestDatabase } from '../support/stack.ts'

test('a role’s own settings do not make commits less durable, nor change reading and writing', async () => {
  const database = await createTestDatabase()
  const first = createPool({ url: database.appUrl, max: 1 })
  const role = `countersign_app in database ${new URL(database.appUrl).pathname.slice(1)}`
  await first.query(`alter role ${role} set synchronous_commit to off`)
  await first.query(`alter role ${role} set default_transaction_read_only to on`)
  await first.query(`alter role ${role} set search_path to pg_catalog`)
  await first.end()
  const second = createPool({ url: database.appUrl, max: 1 })
  try {
    const { rows } = await second.query(`
      select current_setting('synchronous_commit') as commits, current_setting('default_transaction_read_only') as reads,
             current_setting('search_path') as path`)
    expect(rows).toEqual([{ commits: 'on', reads: 'off', path: 'public' }])
  } finally {
    await second.query(`alter role ${role} reset all`)
    await second.end()
    await database.drop()
  }
})

import { describe, expect, test } from '@jest/globals'
import { Connection } from '@temporalio/client'
import { Client } from 'pg'
import { createTestDatabase, testTemporal } from './stack.ts'

async function ask(url: string, sql: string): Promise<unknown[]> {
  const client = new Client({ connectionString: url })
  await client.connect()
  try {
    return (await client.query(sql)).rows
  } finally {
    await client.end()
  }
}

describe('servers for tests', () => {
  test('a database is migrated, separate from the next one, and gone after drop', async () => {
    const one = await createTestDatabase()
    const two = await createTestDatabase()
    try {
      expect(await ask(one.appUrl, 'select current_user::text as role')).toEqual([
        { role: 'countersign_app' },
      ])
      expect(await ask(one.ownerUrl, 'select name from schema_migrations limit 1')).toHaveLength(1)
      await ask(one.ownerUrl, 'create table only_here (a int)')
      await expect(ask(two.ownerUrl, 'select * from only_here')).rejects.toThrow('does not exist')
    } finally {
      await one.drop()
      await two.drop()
    }
    await expect(ask(one.appUrl, 'select 1')).rejects.toThrow('does not exist')
  })

  test('Temporal serves the namespace of temporal-dev.yml with our search attributes', async () => {
    const server = await testTemporal()
    const connection = await Connection.connect({ address: server.address })
    try {
      const attributes = await connection.operatorService.listSearchAttributes({
        namespace: server.namespace,
      })
      expect(Object.keys(attributes.customAttributes ?? {})).toContain('CountersignOrganization')
    } finally {
      await connection.close()
    }
  })
})

import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { createContext } from '../../../src/programs/create-context.ts'
import { checkInstallation } from '../../../src/governance/upkeep/installation.ts'
import { WrongKey } from '../../../src/governance/sealing/keyring.ts'
import { asAdmin } from '../../support/postgres.ts'
import { testContext } from '../support.ts'

let made: Awaited<ReturnType<typeof testContext>>
beforeAll(async () => {
  made = await testContext()
})
afterAll(() => made.close())

describe('checkInstallation', () => {
  test('accepts the key of the first process only', async () => {
    const { context } = made
    await Promise.all([checkInstallation(context), checkInstallation(context)])
    await checkInstallation(context)
    const other = createContext({ ...context.config, encryptionKeys: [randomBytes(32)] }, 'tool')
    await expect(checkInstallation(other)).rejects.toBeInstanceOf(WrongKey)
    await other.close()
    expect(await context.db.selectFrom('data_keys').select('id').execute()).toHaveLength(1)
  })

  describe('names in one line the part that a database lacks', () => {
    /** The error message for a process with these database settings. */
    async function told(change: (url: URL) => void, appRole = 'countersign_app'): Promise<string> {
      const { config } = made.context
      const url = new URL(config.database.url)
      change(url)
      const context = createContext(
        { ...config, database: { ...config.database, url: url.href, appRole } },
        'tool',
      )
      try {
        return await checkInstallation(context).then(
          () => 'fit',
          (error: Error) => `${error.name}: ${error.message}`,
        )
      } finally {
        await context.close()
      }
    }
    const asItIs = () => undefined

    test('a missing role', async () => {
      expect(await told(asItIs, 'nobody_at_all')).toContain('UnfitDatabase: there is no role `nobody_at_all`')
    })

    test('a login that may not use the role', async () => {
      const name = `lonely_${randomBytes(6).toString('hex')}`
      await asAdmin(made.adminUrl, (client) => client.query(`create role ${name} login password 'p'`))
      try {
        const login = (url: URL) => Object.assign(url, { username: name, password: 'p' })
        expect(await told(login)).toContain('may not take the role `countersign_app`')
        expect(await told(login, name)).toContain('lacks rights on the tables')
        expect(await told((url) => Object.assign(url, { username: name, password: 'wrong' }))).toContain(
          'refuses the login of DATABASE_URL',
        )
      } finally {
        await asAdmin(made.adminUrl, (client) => client.query(`drop role ${name}`))
      }
    })

    test('a missing database, or missing tables', async () => {
      expect(await told((url) => (url.pathname = '/gone'))).toContain('does not exist: create it')
      expect(await told((url) => (url.pathname = '/postgres'))).toContain('`npm run migrate` makes them')
    })
  })
})

import { describe, expect, test } from '@jest/globals'
import { readStackSettings } from '../../src/stack/settings.ts'

describe('settings of npm start', () => {
  test('defaults', () => {
    expect(readStackSettings({})).toMatchObject({
      production: false,
      port: 8080,
      dataDir: `${process.cwd()}/.data`,
      database: null,
      temporalAddress: null,
      fileRoot: `${process.cwd()}/samples`,
    })
  })

  test('an empty variable counts as unset', () => {
    expect(readStackSettings({ DATABASE_URL: '', PORT: '', TEMPORAL_ADDRESS: '' })).toEqual(
      readStackSettings({}),
    )
  })

  test('a database of your own migrates as the same role unless another is named', () => {
    const DATA_ENCRYPTION_KEY = Buffer.alloc(32).toString('base64')
    expect(readStackSettings({ DATABASE_URL: 'postgres://a', DATA_ENCRYPTION_KEY }).database).toEqual({
      url: 'postgres://a',
      ownerUrl: 'postgres://a',
    })
    expect(
      readStackSettings({
        DATABASE_URL: 'postgres://a',
        DATABASE_OWNER_URL: 'postgres://b',
        DATA_ENCRYPTION_KEY,
      }).database,
    ).toEqual({ url: 'postgres://a', ownerUrl: 'postgres://b' })
  })

  test.each([
    [{ PORT: '65536' }, 'PORT'],
    [{ PORT: 'http' }, 'PORT'],
    [{ APP_ENV: 'prod' }, 'APP_ENV'],
    [{ DATABASE_URL: 'postgres://x' }, 'DATA_ENCRYPTION_KEY'],
  ])('%j is refused, naming the variable', (env, name) => {
    expect(() => readStackSettings(env)).toThrow(name)
  })
})

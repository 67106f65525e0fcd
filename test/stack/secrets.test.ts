import { mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import { loadSecrets } from '../../src/stack/secrets.ts'
import { temporaryFolder } from './temporary-folder.ts'

describe('secrets.json', () => {
  test('is made once, readable only by its owner, with a key of 32 bytes', () => {
    const dataDir = temporaryFolder()
    const made = loadSecrets(dataDir)
    expect(statSync(join(dataDir, 'secrets.json')).mode & 0o777).toBe(0o600)
    expect(Buffer.from(made.data_encryption_key, 'base64')).toHaveLength(32)
    expect(made.session_secret_key.length).toBeGreaterThanOrEqual(32)
    expect(new Set(Object.values(made)).size).toBe(Object.keys(made).length)
    expect(loadSecrets(dataDir)).toEqual(made)
    expect(loadSecrets(temporaryFolder())).not.toEqual(made)
  })

  test('keeps existing values and adds missing ones', () => {
    const dataDir = temporaryFolder()
    const path = join(dataDir, 'secrets.json')
    writeFileSync(path, '{"data_encryption_key": "kept"}', { mode: 0o644 })
    expect(loadSecrets(dataDir).data_encryption_key).toBe('kept')
    expect(loadSecrets(dataDir)).toEqual(JSON.parse(readFileSync(path, 'utf8')))
    expect(statSync(path).mode & 0o777).toBe(0o600)
  })

  test.each([
    ['gone', null],
    ['torn', '{"data_encr'],
  ])('are never made anew for a database whose file is %s', (_, content) => {
    const dataDir = temporaryFolder()
    mkdirSync(join(dataDir, 'postgres'))
    writeFileSync(join(dataDir, 'postgres', 'PG_VERSION'), '18\n')
    if (content !== null) writeFileSync(join(dataDir, 'secrets.json'), content)
    expect(() => loadSecrets(dataDir)).toThrow(/secrets\.json` (is missing|cannot be read)/)
  })
})

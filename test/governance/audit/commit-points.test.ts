import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import { atCommitPoint } from '../../../src/governance/audit/commit-points.ts'
import { createTestDatabase, type TestDatabase } from '../../support/stack.ts'
import { createOrganization, storedRows, verify } from './chain-fixture.ts'
import { runCombinerProcess, type ChildEnd } from './combiner-child.ts'

let database: TestDatabase
let folder: string

beforeEach(async () => {
  database = await createTestDatabase()
  await createOrganization(database.adminUrl)
  folder = mkdtempSync(join(tmpdir(), 'countersign-fault-'))
})
afterEach(async () => {
  rmSync(folder, { recursive: true })
  await database.drop()
})

const faultFile = (): string => join(folder, 'fault')
const appendFour = (prefix: string, env: NodeJS.ProcessEnv = {}): Promise<ChildEnd> =>
  runCombinerProcess([database.appUrl, prefix, '4', '1'], { COUNTERSIGN_FAULT_FILE: faultFile(), ...env })

describe('the combiner dies at its commit point', () => {
  test.each([
    { when: 'before', entries: 0 },
    { when: 'after', entries: 4 },
  ])(
    '$when: $entries entries are stored, none was answered, the next process continues',
    async ({ when, entries }) => {
      writeFileSync(faultFile(), `effect.decide:${when}`)
      expect(await appendFour('a')).toMatchObject({ signal: 'SIGKILL', answered: [] })
      expect(existsSync(`${faultFile()}.fired`)).toBe(true)
      expect(await storedRows(database.appUrl)).toHaveLength(entries)
      expect((await appendFour('b')).answered).toHaveLength(4)
      expect(await verify(database.appUrl)).toMatchObject({ valid: true, entries: entries + 4 })
    },
  )
})

test('an armed point fires once: of two processes exactly one dies', async () => {
  writeFileSync(faultFile(), 'effect.decide:after')
  const ends = await Promise.all([appendFour('a'), appendFour('b')])
  expect(ends.filter((end) => end.signal === 'SIGKILL')).toHaveLength(1)
  expect(await storedRows(database.appUrl)).toHaveLength(8)
})

test.each([
  { what: 'another point', armed: 'run.finish:before', env: {} },
  { what: 'production', armed: 'effect.decide:before', env: { APP_ENV: 'production' } },
])('$what is ignored', async ({ armed, env }) => {
  writeFileSync(faultFile(), armed)
  expect(await appendFour('a', env)).toMatchObject({ code: 0, signal: null })
  expect(existsSync(faultFile())).toBe(true)
})

test('without a fault file a commit runs and answers', async () => {
  expect(await atCommitPoint('run.accept', () => Promise.resolve(7))).toBe(7)
})

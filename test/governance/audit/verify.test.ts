import { writeFileSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import pg from 'pg'
import { VerifyThread } from '../../../src/governance/audit/verify-thread.ts'
import { verifyOver } from '../../../src/governance/audit/verify-chain.ts'
import { until } from '../../stack/until.ts'
import { createTestDatabase, type TestDatabase } from '../../support/stack.ts'
import {
  appendEntries,
  createOrganization,
  key,
  organizationId,
  query,
  verifier,
  verify,
} from './chain-fixture.ts'

const encryptionKeys = [key]
let database: TestDatabase

beforeEach(async () => {
  database = await createTestDatabase()
  await createOrganization(database.adminUrl)
})
afterEach(() => database.drop())

describe('a valid chain', () => {
  test('is valid up to its head', async () => {
    await appendEntries(database.appUrl, 25)
    const { rows } = await query(database.adminUrl, (client) =>
      client.query('select seq, hash from chain_head'),
    )
    expect(await verify(database.appUrl)).toEqual({
      valid: true,
      entries: 25,
      head: rows[0],
      first_mismatch: null,
      duration_ms: expect.any(Number),
    })
  })

  test('is valid without any entry', async () => {
    const head = { seq: 0, hash: '0'.repeat(64) }
    expect(await verify(database.appUrl)).toMatchObject({
      valid: true,
      entries: 0,
      head,
      first_mismatch: null,
    })
  })

  test('is valid when it is too long to arrive at once', async () => {
    await appendEntries(database.appUrl, 2_500)
    expect(await verify(database.appUrl)).toMatchObject({ valid: true, entries: 2_500 })
  })

  test('is verified separately from chains of others', async () => {
    const other = 'org_01J00000000000000000000001'
    await createOrganization(database.adminUrl, other)
    await appendEntries(database.appUrl, 5)
    await appendEntries(database.appUrl, 3, other)
    expect(await verify(database.appUrl)).toMatchObject({ valid: true, entries: 5 })
    expect(await verify(database.appUrl, other)).toMatchObject({ valid: true, entries: 3 })
  })
})

test('entries appended meanwhile are ignored until the next verification', async () => {
  await appendEntries(database.appUrl, 10)
  const client = new pg.Client({ connectionString: database.appUrl })
  await client.connect()
  // These entries are appended between the reading of the head and of the entries. Without a snapshot, the chain would
  // be longer than its head says.
  const original = client.query.bind(client) as (...args: unknown[]) => unknown
  client.query = (async (...args: unknown[]) => {
    if (args[0] instanceof pg.Query) await appendEntries(database.appUrl, 10)
    return original(...args)
  }) as unknown as typeof client.query
  expect(await verifyOver(client, { organizationId, encryptionKeys })).toMatchObject({
    valid: true,
    entries: 10,
  })
  await client.end()
  expect(await verify(database.appUrl)).toMatchObject({ valid: true, entries: 20 })
})

describe('verification fails', () => {
  test('an organization that does not exist is not found', async () => {
    await expect(verify(database.appUrl, 'org_absent')).rejects.toMatchObject({ code: 'not_found' })
  })

  test('an unreachable database is unavailable, and the next call is not delayed', async () => {
    const lost = verify('postgres://127.0.0.1:1/none')
    const next = verify(database.appUrl)
    await expect(lost).rejects.toMatchObject({ code: 'unavailable' })
    expect(await next).toMatchObject({ valid: true })
  })

  test.each([
    ['throws', `throw new Error('broken')`, /thread that verifies the audit log failed: broken/],
    ['ends', 'process.exit(3)', /ended with code 3 and without an answer/],
    [
      'outgrows its memory',
      'const kept = []; for (;;) kept.push(new Array(1e5).fill({}))',
      /failed: .*memory/,
    ],
  ])('a thread that %s is an error that says so', async (_how, code, message) => {
    const folder = mkdtempSync(join(tmpdir(), 'countersign-worker-'))
    const file = join(folder, 'worker.mjs')
    writeFileSync(file, code)
    const request = {
      databaseUrl: database.appUrl,
      appRole: 'countersign_app',
      organizationId,
      encryptionKeys,
    }
    await expect(new VerifyThread(pathToFileURL(file)).verify(request)).rejects.toThrow(message)
    rmSync(folder, { recursive: true })
  })
})

test('a thread is kept for the next verification, and ends when it has nothing to do', async () => {
  await appendEntries(database.appUrl, 3)
  const request = { databaseUrl: database.appUrl, appRole: 'countersign_app', organizationId, encryptionKeys }
  const thread = new VerifyThread(undefined, 100)
  const missing = { ...request, organizationId: 'org_01J00000000000000000000009' }
  await expect(thread.verify(missing)).rejects.toMatchObject({ code: 'not_found' })
  expect(thread.isStarted).toBe(true)
  expect(await thread.verify(request)).toMatchObject({ valid: true, entries: 3 })
  await until('the idle thread ends', () => !thread.isStarted)
  expect(await thread.verify(request)).toMatchObject({ valid: true, entries: 3 })
})

test('calls made together run one after another and all answer', async () => {
  await appendEntries(database.appUrl, 50)
  const answers = await Promise.all([1, 2, 3].map(() => verify(database.appUrl)))
  expect(answers.map(({ valid, entries }) => ({ valid, entries }))).toEqual(
    answers.map(() => ({ valid: true, entries: 50 })),
  )
})

test('fifty calls of one organization share a verification, and delay another organization by at most one', async () => {
  const other = 'org_01J00000000000000000000001'
  await createOrganization(database.adminUrl, other)
  await appendEntries(database.appUrl, 2_000)
  await appendEntries(database.appUrl, 1, other)
  const ended: string[] = []
  const first = verify(database.appUrl).finally(() => ended.push('first'))
  const many = Array.from({ length: 49 }, () => verify(database.appUrl).finally(() => ended.push('again')))
  const theirs = verify(database.appUrl, other).finally(() => ended.push('theirs'))
  const [, , ...again] = await Promise.all([first, theirs, ...many])
  expect(ended.slice(0, 3)).toEqual(['first', 'theirs', 'again'])
  // One verification started after all of these calls had arrived, so its result answers all of them.
  expect(new Set(again).size).toBe(1)
  expect(again[0]).toMatchObject({ valid: true, entries: 2_000 })
  expect(again[0]).not.toBe(await first)
})

test('a chain rests after its verification while other organizations are served, and the others go on', async () => {
  const other = 'org_01J00000000000000000000001'
  await createOrganization(database.adminUrl, other)
  await appendEntries(database.appUrl, 1)
  await appendEntries(database.appUrl, 1, other)
  const contended = (chain: string): Promise<unknown> =>
    verifier.verify(
      { databaseUrl: database.appUrl, appRole: 'countersign_app', organizationId: chain, encryptionKeys },
      () => true,
    )
  const ended: string[] = []
  await contended(organizationId)
  const again = contended(organizationId).finally(() => ended.push('again'))
  await contended(other).finally(() => ended.push('other'))
  await again
  expect(ended).toEqual(['other', 'again'])
})

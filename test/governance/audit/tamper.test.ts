import pg from 'pg'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { beforeEach, describe, expect, jest, test } from '@jest/globals'
import { createDatabase, createPool } from '../../../src/db/connect.ts'
import { checkAuditTriggers } from '../../../src/governance/audit/triggers.ts'
import { verifyOver } from '../../../src/governance/audit/verify-chain.ts'
import { VerifyThread } from '../../../src/governance/audit/verify.ts'
import { sha256 } from '../../../src/shared/canonical-json.ts'
import { until } from '../../stack/until.ts'
import { createTestDatabase, type TestDatabase } from '../../support/stack.ts'
import {
  appendEntries,
  createOrganization,
  key,
  organizationId,
  other,
  query,
  verifier,
  verify,
} from './chain-fixture.ts'
import { useChain } from './use-chain.ts'

/* Nobody can change the audit log unnoticed: what PostgreSQL refuses, and what verification finds. */

const length = 12
let database: TestDatabase
useChain((made) => (database = made))
const alter = (statement: string) => query(database.adminUrl, (client) => client.query(statement))

const changes = [
  `update audit_events set hash = repeat('0', 64) where seq = 5`,
  `update audit_events set canonical = replace(canonical, '"status":"ok"', '"status":"no"') where seq = 5`,
  'delete from audit_events where seq = 5',
  'delete from audit_events',
  'truncate audit_events',
]

describe('a change is refused', () => {
  beforeEach(() => appendEntries(database.appUrl, length))

  describe.each(changes)('%s', (change) => {
    test.each([
      ['to the application', () => database.appUrl, '', 'permission'],
      ['to the table’s owner, by the triggers', () => database.ownerUrl, '', 'audit_events is append-only'],
      [
        'to a superuser who acts as a replica',
        () => database.adminUrl,
        `set session_replication_role = 'replica'`,
        'append-only',
      ],
    ])('%s', async (_, url, first, message) => {
      await query(url(), async (client) => {
        await client.query(first)
        const refusal = { code: '42501', message: expect.stringContaining(message) }
        await expect(client.query(change)).rejects.toMatchObject(refusal)
      })
      expect(await verify(database.appUrl)).toMatchObject({ valid: true, entries: length })
    })
  })

  test.each([
    `set session_replication_role = 'replica'`,
    'alter table audit_events disable trigger all',
    'drop table audit_events',
    'reset role; set role postgres',
  ])('to the application, which cannot take the guards away: %s', async (statement) => {
    await query(database.appUrl, (client) =>
      expect(client.query(statement)).rejects.toMatchObject({ code: '42501' }),
    )
  })
})

describe('the audit log’s triggers', () => {
  /** Runs the check. Returns its result, the logged errors and the number of warnings. */
  async function check(url = database.appUrl) {
    const [error, warn] = [jest.fn<(...line: unknown[]) => void>(), jest.fn()]
    const db = createDatabase(createPool({ url, max: 1 }))
    const weak = await checkAuditTriggers(db, { error, warn } as never)
    await db.destroy()
    return {
      weak,
      errors: error.mock.calls.map((line) => String(line.at(-1))),
      warnings: warn.mock.calls.length,
    }
  }

  test('are enabled always after the migrations, and only one that is missing then is named', async () => {
    const { adminUrl, appUrl, drop } = await createTestDatabase()
    expect(await check(appUrl)).toEqual({ weak: [], errors: [], warnings: 0 })
    const statement = 'drop trigger audit_events_no_truncate on audit_events'
    await query(adminUrl, (client) => client.query(statement))
    const { weak, errors } = await check(appUrl)
    expect(weak).toEqual(['audit_events_no_truncate'])
    expect(errors).toEqual([expect.stringContaining('`audit_events_no_truncate` is missing')])
    await drop()
  })

  test.each([
    ['disabled', 'disable trigger user'],
    ['left as they are after being disabled and enabled', 'disable trigger user, enable trigger user'],
    [
      'enabled for replicas only',
      'enable replica trigger audit_events_no_edit, enable replica trigger audit_events_no_truncate',
    ],
  ])('%s are named in an error, which says what to run', async (_, change) => {
    await alter(`alter table audit_events ${change}`)
    const { weak, errors } = await check()
    expect(weak).toEqual(['audit_events_no_edit', 'audit_events_no_truncate'])
    expect(errors).toHaveLength(2)
    for (const error of errors) await alter(/`(.*)`/.exec(error)?.[1] ?? 'the error names no statement')
    expect(await check()).toEqual({ weak: [], errors: [], warnings: 0 })
  })

  test('a database that does not answer stops nothing: the check logs a warning', async () => {
    expect(await check('postgres://127.0.0.1:1/none')).toEqual({ weak: [], errors: [], warnings: 1 })
  })
})

type Entry = Record<string, unknown>

/** The chain's table without its triggers, which a superuser can remove. */
class Forger {
  readonly client: pg.ClientBase

  constructor(client: pg.ClientBase) {
    this.client = client
  }

  async read(seq: number): Promise<{ canonical: string; hash: string; entry: Entry }> {
    const { rows } = await this.client.query('select canonical, hash from audit_events where seq = $1', [seq])
    return { ...rows[0], entry: JSON.parse(rows[0].canonical) }
  }

  /** Replaces fields of an entry. With `rehash`, also updates the hash of the entry. */
  async edit(seq: number, fields: Entry, rehash = false): Promise<void> {
    const { entry, hash } = await this.read(seq)
    const canonical = JSON.stringify({ ...entry, ...fields })
    await this.write(seq, canonical, rehash ? sha256(canonical) : hash)
  }

  async write(seq: number, canonical: string, hash: string): Promise<void> {
    const values = [seq, canonical, hash]
    await this.client.query('update audit_events set canonical = $2, hash = $3 where seq = $1', values)
  }

  async insert(entry: Entry): Promise<void> {
    const canonical = JSON.stringify(entry)
    const values = [canonical, sha256(canonical)]
    await this.client.query('insert into audit_events (canonical, hash) values ($1, $2)', values)
  }
}

type Forgery = (forger: Forger) => Promise<unknown>

const run =
  (statement: string): Forgery =>
  ({ client }) =>
    client.query(statement)

describe('verification finds a superuser’s change at its place', () => {
  /** Forges a chain. Expects that `entries` are valid, and that the entry `seq` is named, or `named` in its place. */
  async function expectFound(
    of: TestDatabase,
    [seq, reason, entries]: readonly [number, string, number],
    forge: Forgery,
    named = seq,
  ): Promise<void> {
    await appendEntries(of.appUrl, length)
    const id = await query(of.adminUrl, async (client) => {
      await client.query('alter table audit_events disable trigger all')
      await forge(new Forger(client))
      const { rows } = await client.query(
        'select canonical from audit_events where organization_id = $1 and seq = $2',
        [organizationId, named],
      )
      return rows[0]?.canonical.startsWith('{') ? (JSON.parse(rows[0].canonical).id as string) : null
    })
    const { duration_ms: _, head: __, ...answer } = await verify(of.appUrl)
    expect(answer).toEqual({
      valid: false,
      entries,
      first_mismatch: { seq, id, reason, expected: expect.any(String), found: expect.any(String) },
    })
    expect(answer.first_mismatch?.expected).not.toBe(answer.first_mismatch?.found)
  }
  const found = (what: string, at: readonly [number, string, number], forge: Forgery, named?: number) =>
    test(`${what}, at ${at.join(' ')}`, () => expectFound(database, at, forge, named))

  found('an edited entry', [5, 'hash', 4], (f) => f.edit(5, { status: 'no' }))
  found('an edited entry, the first', [1, 'hash', 0], (f) => f.edit(1, { status: 'no' }))
  found('an edited entry, the last', [12, 'hash', 11], (f) => f.edit(12, { status: 'no' }))
  found('an entry of the same content, written differently', [5, 'hash', 4], async (f) => {
    const { canonical, hash } = await f.read(5)
    await f.write(5, canonical.replace('{', '{ '), hash)
  })
  found('an edited hash', [5, 'hash', 4], run(changes[0] as string))
  found('an edited entry with its hash', [5, 'foreign', 4], (f) => f.edit(5, { status: 'no' }, true))
  found('the last entry edited with its hash', [12, 'foreign', 11], (f) => f.edit(12, { status: 'no' }, true))
  found('a deletion in the middle', [5, 'gap', 4], run('delete from audit_events where seq in (5, 6, 9)'))
  found('a deletion of the first', [1, 'gap', 0], run('delete from audit_events where seq = 1'))
  found('a cut tail', [10, 'truncated', 9], run('delete from audit_events where seq > 9'))
  found('everything deleted', [1, 'truncated', 0], run('delete from audit_events'))
  found('a head set back', [12, 'link', 12], run('update chain_head set seq = 9'))
  found('another hash in the head', [12, 'link', 12], run(`update chain_head set hash = repeat('0', 64)`))
  found('two entries that changed places', [5, 'link', 4], async (f) => {
    const [a, b] = [await f.read(5), await f.read(6)]
    await f.write(5, JSON.stringify({ ...a.entry, seq: 99 }), a.hash)
    await f.edit(6, { ...b.entry, seq: 5 }, true)
    await f.edit(99, { ...a.entry, seq: 6 }, true)
  })
  found('an entry linked past its neighbour', [7, 'link', 6], async (f) =>
    f.edit(7, { prev_hash: (await f.read(5)).hash }, true),
  )
  found('an entry taken out and the rest renumbered', [5, 'link', 4], async (f) => {
    await f.client.query('delete from audit_events where seq = 5')
    for (let seq = 6; seq <= length; seq += 1) await f.edit(seq, { seq: seq - 1 }, true)
    await f.client.query('update chain_head set seq = 11')
  })
  found('an entry moved to another organization', [5, 'gap', 4], (f) => f.edit(5, { organization_id: other }))
  found('an older policy version', [12, 'foreign', 11], (f) =>
    f.edit(12, { metadata: { policy_version: 0 } }, true),
  )
  found('no policy version', [12, 'link', 11], (f) => f.edit(12, { metadata: {} }, true))
  const beforeFirst: Forgery = async (f) => f.insert({ ...(await f.read(1)).entry, seq: 0 })
  found('an entry before the first', [1, 'link', 0], beforeFirst, 0)
  found('an entry after the head', [13, 'foreign', 12], async (f) => {
    const last = await f.read(12)
    await f.insert({ ...last.entry, seq: 13, prev_hash: last.hash })
  })

  test('the text of an entry that is no JSON, in columns that are no longer generated', async () => {
    // Verification also reads the text, not only the columns that are generated from it. No other test can use this table.
    const own = await createTestDatabase()
    await createOrganization(own.adminUrl)
    await expectFound(own, [5, 'link', 4], async (f) => {
      await f.client.query('drop index audit_events_person')
      for (const column of ['organization_id', 'seq', 'event_type'])
        await f.client.query(`alter table audit_events alter column ${column} drop expression`)
      await f.write(5, 'not {"json', sha256('not {"json'))
    })
    await own.drop()
  })
})

/** The request of a verification, as the thread gets it. */
const requestOf = (id = organizationId) => ({
  databaseUrl: database.appUrl,
  appRole: 'countersign_app',
  organizationId: id,
  encryptionKeys: [key],
})

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
    const empty = { valid: true, entries: 0, head: { seq: 0, hash: '0'.repeat(64) }, first_mismatch: null }
    expect(await verify(database.appUrl)).toMatchObject(empty)
  })

  test('is valid when it is too long to arrive at once', async () => {
    await appendEntries(database.appUrl, 2_500)
    expect(await verify(database.appUrl)).toMatchObject({ valid: true, entries: 2_500 })
  })

  test('is verified separately from chains of others', async () => {
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
  expect(await verifyOver(client, requestOf())).toMatchObject({ valid: true, entries: 10 })
  await client.end()
  expect(await verify(database.appUrl)).toMatchObject({ valid: true, entries: 20 })
})

describe('verification fails', () => {
  test('an unreachable database is unavailable, and the next call is not delayed', async () => {
    const lost = verify('postgres://127.0.0.1:1/none')
    const next = verify(database.appUrl)
    await expect(lost).rejects.toMatchObject({ code: 'unavailable' })
    expect(await next).toMatchObject({ valid: true })
  })

  test.each([
    ['throws', `throw new Error('broken')`, /thread that verifies the audit log failed: broken/],
    ['ends', 'process.exit(3)', /ended with code 3 and without an answer/],
    ['outgrows its memory', 'const all = []; for (;;) all.push(new Array(1e5).fill({}))', /failed: .*memory/],
  ])('a thread that %s is an error that says so', async (_how, code, message) => {
    const folder = mkdtempSync(join(tmpdir(), 'countersign-worker-'))
    const file = join(folder, 'worker.mjs')
    writeFileSync(file, code)
    await expect(new VerifyThread(pathToFileURL(file)).verify(requestOf())).rejects.toThrow(message)
    rmSync(folder, { recursive: true })
  })
})

test('a thread is kept for the next verification, and ends when it has nothing to do', async () => {
  await appendEntries(database.appUrl, 3)
  const thread = new VerifyThread(undefined, 100)
  await expect(thread.verify(requestOf('org_absent'))).rejects.toMatchObject({ code: 'not_found' })
  expect(thread.isStarted).toBe(true)
  expect(await thread.verify(requestOf())).toMatchObject({ valid: true, entries: 3 })
  await until('the idle thread ends', () => !thread.isStarted)
  expect(await thread.verify(requestOf())).toMatchObject({ valid: true, entries: 3 })
})

test('fifty calls of one organization share a verification, and delay another organization by at most one', async () => {
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
  await createOrganization(database.adminUrl, other)
  await appendEntries(database.appUrl, 1)
  await appendEntries(database.appUrl, 1, other)
  const contended = (chain: string): Promise<unknown> => verifier.verify(requestOf(chain), () => true)
  const ended: string[] = []
  await contended(organizationId)
  const again = contended(organizationId).finally(() => ended.push('again'))
  await contended(other).finally(() => ended.push('other'))
  await again
  expect(ended).toEqual(['other', 'again'])
})

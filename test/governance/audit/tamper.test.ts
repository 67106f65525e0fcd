import type pg from 'pg'
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import { sha256 } from '../../../src/shared/canonical-json.ts'
import { createTestDatabase, type TestDatabase } from '../../support/stack.ts'
import { appendEntries, createOrganization, query, storedRows, verify } from './chain-fixture.ts'

const length = 12
let database: TestDatabase

beforeEach(async () => {
  database = await createTestDatabase()
  await createOrganization(database.adminUrl)
  await appendEntries(database.appUrl, length)
})
afterEach(() => database.drop())

const changes = [
  `update audit_events set hash = repeat('0', 64) where seq = 5`,
  `update audit_events set canonical = replace(canonical, '"status":"ok"', '"status":"no"') where seq = 5`,
  'delete from audit_events where seq = 5',
  'delete from audit_events',
  'truncate audit_events',
]

describe('a change is refused', () => {
  test.each(changes)('to the application: %s', async (change) => {
    await query(database.appUrl, (client) =>
      expect(client.query(change)).rejects.toMatchObject({
        code: '42501',
        message: expect.stringContaining('permission'),
      }),
    )
    expect(await verify(database.appUrl)).toMatchObject({ valid: true, entries: length })
  })

  test.each(changes)("to the table's owner, by the triggers: %s", async (change) => {
    await query(database.ownerUrl, (client) =>
      expect(client.query(change)).rejects.toMatchObject({
        code: '42501',
        message: expect.stringContaining('audit_events is append-only'),
      }),
    )
    expect(await verify(database.appUrl)).toMatchObject({ valid: true, entries: length })
  })

  test.each(changes)('to a superuser who acts as a replica: %s', async (change) => {
    await query(database.adminUrl, async (client) => {
      await client.query(`set session_replication_role = 'replica'`)
      await expect(client.query(change)).rejects.toThrow(/append-only/)
    })
    expect(await storedRows(database.appUrl)).toHaveLength(length)
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
    await this.client.query('update audit_events set canonical = $2, hash = $3 where seq = $1', [
      seq,
      canonical,
      hash,
    ])
  }
}

type Forgery = (forger: Forger) => Promise<unknown>

const run =
  (...statements: string[]): Forgery =>
  async ({ client }) => {
    for (const statement of statements) await client.query(statement)
  }

const forgeries: readonly (readonly [
  string,
  Forgery,
  { seq: number; reason: string; entries: number; absent?: true; row?: number },
])[] = [
  ['an edited entry', (f) => f.edit(5, { status: 'no' }), { seq: 5, reason: 'hash', entries: 4 }],
  ['an edited entry, the first', (f) => f.edit(1, { status: 'no' }), { seq: 1, reason: 'hash', entries: 0 }],
  [
    'an edited entry, the last',
    (f) => f.edit(12, { status: 'no' }),
    { seq: 12, reason: 'hash', entries: 11 },
  ],
  [
    'an entry of the same content, written differently',
    async (f) => {
      const { canonical, hash } = await f.read(5)
      await f.write(5, canonical.replace('{', '{ '), hash)
    },
    { seq: 5, reason: 'hash', entries: 4 },
  ],
  [
    'an edited hash',
    run(`update audit_events set hash = repeat('0', 64) where seq = 5`),
    { seq: 5, reason: 'hash', entries: 4 },
  ],
  [
    'an edited entry with its hash',
    (f) => f.edit(5, { status: 'no' }, true),
    { seq: 5, reason: 'foreign', entries: 4 },
  ],
  [
    'the last entry edited with its hash',
    (f) => f.edit(12, { status: 'no' }, true),
    { seq: 12, reason: 'foreign', entries: 11 },
  ],
  [
    'a deletion in the middle',
    run('delete from audit_events where seq in (5, 6, 9)'),
    { seq: 5, reason: 'gap', entries: 4, absent: true },
  ],
  [
    'a deletion of the first',
    run('delete from audit_events where seq = 1'),
    { seq: 1, reason: 'gap', entries: 0, absent: true },
  ],
  [
    'a cut tail',
    run('delete from audit_events where seq > 9'),
    { seq: 10, reason: 'truncated', entries: 9, absent: true },
  ],
  [
    'everything deleted',
    run('delete from audit_events'),
    { seq: 1, reason: 'truncated', entries: 0, absent: true },
  ],
  ['a head set back', run('update chain_head set seq = 9'), { seq: 12, reason: 'link', entries: 12 }],
  [
    'another hash in the head',
    run(`update chain_head set hash = repeat('0', 64)`),
    { seq: 12, reason: 'link', entries: 12 },
  ],
  [
    'two entries that changed places',
    async (f) => {
      const [a, b] = [await f.read(5), await f.read(6)]
      await f.write(5, JSON.stringify({ ...a.entry, seq: 99 }), a.hash)
      await f.edit(6, { ...b.entry, seq: 5 }, true)
      await f.edit(99, { ...a.entry, seq: 6 }, true)
    },
    { seq: 5, reason: 'link', entries: 4 },
  ],
  [
    'an entry linked past its neighbour',
    async (f) => f.edit(7, { prev_hash: (await f.read(5)).hash }, true),
    { seq: 7, reason: 'link', entries: 6 },
  ],
  [
    'an entry taken out and the rest renumbered',
    async (f) => {
      await f.client.query('delete from audit_events where seq = 5')
      for (let seq = 6; seq <= length; seq += 1) await f.edit(seq, { seq: seq - 1 }, true)
      await f.client.query('update chain_head set seq = 11')
    },
    { seq: 5, reason: 'link', entries: 4 },
  ],
  [
    'an entry moved to another organization',
    (f) => f.edit(5, { organization_id: 'org_01J00000000000000000000009' }),
    { seq: 5, reason: 'gap', entries: 4, absent: true },
  ],
  [
    'an older policy version',
    (f) => f.edit(12, { metadata: { policy_version: 0 } }, true),
    { seq: 12, reason: 'foreign', entries: 11 },
  ],
  ['no policy version', (f) => f.edit(12, { metadata: {} }, true), { seq: 12, reason: 'link', entries: 11 }],
  [
    'an entry before the first',
    async (f) => {
      const canonical = JSON.stringify({ ...(await f.read(1)).entry, seq: 0 })
      await f.client.query('insert into audit_events (canonical, hash) values ($1, $2)', [
        canonical,
        sha256(canonical),
      ])
    },
    { seq: 1, reason: 'link', entries: 0, row: 0 },
  ],
  [
    'an entry after the head',
    async (f) => {
      const last = await f.read(12)
      const canonical = JSON.stringify({ ...last.entry, seq: 13, prev_hash: last.hash })
      await f.client.query('insert into audit_events (canonical, hash) values ($1, $2)', [
        canonical,
        sha256(canonical),
      ])
    },
    { seq: 13, reason: 'foreign', entries: 12 },
  ],
  [
    'text that is no JSON, in columns that are no longer generated',
    async (f) => {
      // Verification also reads the text, not only the columns that are generated from it.
      await f.client.query('drop index audit_events_person')
      for (const column of ['organization_id', 'seq', 'event_type'])
        await f.client.query(`alter table audit_events alter column ${column} drop expression`)
      await f.write(5, 'not {"json', sha256('not {"json'))
    },
    { seq: 5, reason: 'link', entries: 4 },
  ],
]

describe('verification finds a superuser’s change at its place', () => {
  test.each(forgeries)('%s', async (_what, forge, { seq, reason, entries, absent, row = seq }) => {
    const id = await query(database.adminUrl, async (client) => {
      await client.query('alter table audit_events disable trigger all')
      await forge(new Forger(client))
      if (absent === true) return null
      const { rows } = await client.query('select canonical from audit_events where seq = $1', [row])
      return rows[0].canonical.startsWith('{') ? (JSON.parse(rows[0].canonical).id as string) : null
    })
    const { duration_ms: _, head: __, ...answer } = await verify(database.appUrl)
    expect(answer).toEqual({
      valid: false,
      entries,
      first_mismatch: { seq, id, reason, expected: expect.any(String), found: expect.any(String) },
    })
    expect(answer.first_mismatch?.expected).not.toBe(answer.first_mismatch?.found)
  })
})
